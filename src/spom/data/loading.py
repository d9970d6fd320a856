"""`load(name)`: public data sets as matrices, read from the files that their authors publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.data.columns import joined, read_conll
from spom.data.conllu import conllu_text, parse_conllu, read_conllu
from spom.data.fetching import located, read_bytes
from spom.errors import DataError, Unsupported


@dataclass(frozen=True)
class Dataset:
    """Examples `X` with targets `y` and, if there is one, the standard split.

    `train`, `test` are index arrays; `folds` has one integer per example. `X` is a matrix, or for structured data
    as described in the loader.

    >>> import numpy as np
    >>> data = Dataset("toy", X=np.eye(3), y=np.array([0, 1, 1]), train=np.array([0, 1]), test=np.array([2]))
    >>> data.part("test")[1]
    array([1])
    """

    name: str
    X: Any
    y: Any
    folds: Ints | None = None
    train: Ints | None = None
    test: Ints | None = None
    feature_names: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None

    def part(self, which: str) -> tuple[Any, Any]:
        """Return (X, y) of `"train"` or `"test"`."""
        index = {"train": self.train, "test": self.test}.get(which)
        if index is None:
            raise ValueError(f"the data set {self.name} has no part {which!r}")
        return self.X[index], self.y[index]

    def __repr__(self) -> str:
        shape = tuple(self.X.shape) if hasattr(self.X, "shape") else (len(self.X),)
        return f"Dataset({self.name!r}, X of shape {shape})"


def load(name: str) -> Dataset:
    """Load a public data set by its name, downloading it first if it is not in the data folder.

    `"polarity"`: 10,662 sentences as unigrams and bigrams; `"landsat"`: 6,435 pixels with their neighbours in four
    bands; `"mnist"`: 70,000 digits as 784 grey values; `"ocr"`: 6,877 handwritten words as sequences of images;
    `"conll2000"`: 10,948 sentences of newspaper text as columns of words and parts of speech, labelled with phrases;
    `"ewt"`: English Web Treebank, sentences with dependency trees.
    """
    if name not in LOADERS:
        raise Unsupported(f"there is no data set {name!r} to load; the names are: {', '.join(sorted(LOADERS))}")
    return LOADERS[name](located(name))


def load_landsat(folder: Path) -> Dataset:
    """Load Statlog Landsat: 36 grey values of a 3x3 neighbourhood, and the class of its centre (1 to 5, and 7)."""
    parts = [_integers(folder / name) for name in ("sat.trn", "sat.tst")]
    table = np.concatenate(parts)
    count = parts[0].shape[0]
    return Dataset(
        "landsat",
        X=np.ascontiguousarray(table[:, :-1], dtype=np.float64),
        y=table[:, -1].copy(),
        train=np.arange(count),
        test=np.arange(count, table.shape[0]),
        feature_names=np.array([f"pixel{p}_band{b}" for p in range(1, 10) for b in range(1, 5)], dtype=object),
        classes=np.unique(table[:, -1]),
    )


def _integers(path: Path) -> NDArray[np.int64]:
    rows = []
    for number, line in enumerate(read_bytes(path).decode("ascii").splitlines(), 1):
        fields = line.split()
        if len(fields) != 37:
            raise DataError(f"expected 37 integers, found {len(fields)} fields", str(path), number)
        try:
            rows.append([int(field) for field in fields])
        except ValueError:
            raise DataError("expected 37 integers, found something else", str(path), number) from None
    return np.array(rows, dtype=np.int64)


def load_mnist(folder: Path) -> Dataset:
    """Load handwritten digits: 28x28 grey values from 0 to 1 as float32; the first 60,000 are for training."""
    images = [_idx(folder / f"{part}-images-idx3-ubyte.gz", 3) for part in ("train", "t10k")]
    labels = [_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1) for part in ("train", "t10k")]
    count = images[0].shape[0]
    X = np.concatenate(images).reshape(-1, 28 * 28).astype(np.float32)
    X /= 255.0
    return Dataset(
        "mnist",
        X=X,
        y=np.concatenate(labels).astype(np.int64),
        train=np.arange(count),
        test=np.arange(count, X.shape[0]),
        feature_names=np.array([f"pixel{r}_{c}" for r in range(28) for c in range(28)], dtype=object),
        classes=np.arange(10),
    )


def _idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file of bytes: a magic number with the number of dimensions, their sizes, then the values."""
    raw = read_bytes(path)
    header = 4 + 4 * dimensions
    if len(raw) < header or raw[:4] != bytes([0, 0, 8, dimensions]):
        raise DataError(f"expected an idx file of bytes in {dimensions} dimensions, found another header", str(path))
    shape = tuple(int(n) for n in np.frombuffer(raw, dtype=">i4", count=dimensions, offset=4))
    if len(raw) - header != int(np.prod(shape)):
        raise DataError(f"expected {int(np.prod(shape))} values, found {len(raw) - header}", str(path))
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


def load_polarity(folder: Path) -> Dataset:
    """Load sentences of film reviews as binary unigram and bigram features; y is +1 (positive) or -1.

    Four fifths, drawn with a fixed seed, are for training, and the features are those that occur in them.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    sides = [_lines(folder / f"rt-polarity.{side}.gz") for side in ("pos", "neg")]
    sentences = [*sides[0], *sides[1]]
    order = np.random.default_rng(0).permutation(len(sentences))
    count = int(0.8 * len(sentences))
    vectorizer = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", binary=True, dtype=np.float64)
    vectorizer.fit([sentences[i] for i in order[:count]])
    X: Any = vectorizer.transform(sentences)
    X.sort_indices()
    return Dataset(
        "polarity",
        X=X,
        y=np.repeat(np.array([1, -1], dtype=np.int64), [len(side) for side in sides]),
        train=order[:count],
        test=order[count:],
        feature_names=vectorizer.get_feature_names_out(),
        classes=np.array([-1, 1]),
    )


def _lines(path: Path) -> list[str]:
    text = read_bytes(path).decode("latin-1")
    return [line for line in text.split("\n") if line]


PIXELS = 128


def load_ocr(folder: Path) -> Dataset:
    """Load words as sequences of letters: `X[i]` has a 16x8 binary image in each row (float32), `y[i]` the letters.

    `folds` has the fold (0 to 9) of each word; X and y are object arrays, so that `data.X[data.folds == 0]` are
    the words of one fold.
    """
    path = folder / "letter.data.gz"
    lines = read_bytes(path).rstrip(b"\n").split(b"\n")
    heads, tails = [], []
    for number, line in enumerate(lines, 1):
        fields = line.split(b"\t", 6)
        if len(fields) != 7 or len(fields[6].rstrip()) != 2 * PIXELS - 1:
            raise DataError(
                f"expected id, letter, next_id, word_id, position, fold and {PIXELS} pixels", str(path), number
            )
        heads.append(fields)
        tails.append(fields[6].rstrip())
    pixels = np.frombuffer(b"\t".join(tails) + b"\t", dtype=np.uint8).reshape(len(lines), 2 * PIXELS)[:, ::2]
    images = (pixels - ord("0")).astype(np.float32)
    letters = np.array([fields[1].decode() for fields in heads])
    # A next_id of -1 marks the last letter of a word.
    ends = np.flatnonzero([fields[2] == b"-1" for fields in heads]) + 1
    starts = np.concatenate([[0], ends[:-1]])
    X, y = np.empty(ends.size, dtype=object), np.empty(ends.size, dtype=object)
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        X[i], y[i] = images[start:end], letters[start:end]
    return Dataset(
        "ocr",
        X=X,
        y=y,
        folds=np.array([int(heads[start][5]) for start in starts], dtype=np.int64),
        feature_names=np.array([f"pixel{r}_{c}" for r in range(16) for c in range(8)], dtype=object),
        classes=np.unique(letters),
    )


def load_conll2000(folder: Path) -> Dataset:
    """Load CoNLL 2000 chunking: X has columns of words and tags, y the labels (B-NP, I-NP, O, ...) of each sentence."""
    parts = [read_conll(folder / name, ("w", "pos", "label")) for name in ("train.txt.gz", "test.txt.gz")]
    both = joined(parts, "conll2000")
    labels = np.empty(len(both), dtype=object)
    labels[:] = both.strings("label")
    return Dataset(
        "conll2000",
        X=both.select(["w", "pos"]),
        y=labels,
        train=np.arange(len(parts[0])),
        test=np.arange(len(parts[0]), len(both)),
        classes=np.array(sorted(both.distinct("label")[1]), dtype=object),
    )


def load_ewt(folder: Path) -> Dataset:
    """Load Universal Dependencies English EWT: X is a `Treebank`, y the heads; `folds` is 0 train, 1 dev, 2 test."""
    banks = [read_conllu(folder / f"en_ewt-ud-{part}.conllu.gz") for part in ("train", "dev", "test")]
    content = b"".join(conllu_text(bank) for bank in banks)
    bank = parse_conllu(content, "en_ewt-ud")
    folds = np.repeat(np.arange(3), [len(part) for part in banks])
    heads = np.empty(len(bank), dtype=object)
    heads[:] = np.split(bank.heads, bank.offsets[1:-1])
    return Dataset(
        "ewt",
        X=bank,
        y=heads,
        folds=folds,
        train=np.flatnonzero(folds == 0),
        test=np.flatnonzero(folds == 2),
        classes=np.array(sorted(bank.relation_names), dtype=object),
    )


# To add a data set, add a function above, a line here, and its files in the catalogue.
LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "conll2000": load_conll2000,
    "ewt": load_ewt,
    "landsat": load_landsat,
    "mnist": load_mnist,
    "ocr": load_ocr,
    "polarity": load_polarity,
}
