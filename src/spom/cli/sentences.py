"""Sentences for the command: CoNLL columns, CoNLL-U, CRFsuite items; read with labels, written with predicted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spom.cli.options import SENTENCES, format_of
from spom.core.arrays import Ints
from spom.core.container import read_file
from spom.data.columns import Columns, read_conll, read_conll_blocks, spliced
from spom.data.opening import not_empty
from spom.errors import DataError, ModelFileError
from spom.estimators.tagger.inputs import TaggerParts
from spom.models.loading import decode


@dataclass(frozen=True)
class Tagged:
    """Sentences `X` with labels `y`; `columns` are the names of the feature columns, `label` that of the label column.

    `at` is the index of the label column among all columns of the file.
    """

    X: Any
    y: Any
    format: str
    path: str
    sentences: int
    tokens: int
    columns: tuple[str, ...] | None = None
    label: str | None = None
    at: int | None = None

    def summary(self) -> dict[str, Any]:
        """Return the description of the training files that the model stores."""
        columns = None if self.columns is None else list(self.columns)
        return {"format": self.format, "columns": columns, "label": self.label, "label_at": self.at}


# --- with labels ------------------------------------------------------------------------------------


def read_tagged(
    path: str, given: str | None, names: Sequence[str] | None, label: str | None, encoding: str = "utf-8"
) -> Tagged:
    """Read a file to learn from or to be scored on.

    `names` are the names of the columns; for a CoNLL-U file, the columns that features are taken from (default: form).
    `label` is the column of the labels, by name or number (default: the last one, or upos for CoNLL-U).
    """
    kind = format_of(path, given, SENTENCES)
    if kind == "items":
        from spom.data.items import read_items

        items = read_items(path)
        return Tagged(items.X, items.y, kind, path, len(items.X), sum(map(len, items.X)))
    if kind == "conllu":
        columns = read_trees(path).columns
        at = columns.column(_column(label or "upos"))
        wanted = [columns.column(_column(name)) for name in names or ["form"]]
    else:
        columns = read_conll(path, names, encoding=encoding)
        at = columns.column(-1 if label is None else _column(label))
        wanted = [c for c in range(columns.n_columns) if c != at]
        if not wanted:
            raise DataError("expected a column of words and one of labels, found one column", path)
    if len(columns) == 0:
        raise DataError("expected sentences, found none", path)
    X, y = columns.select(wanted), columns.select([at])
    return Tagged(X, y, kind, path, len(columns), columns.n_tokens, X.names, columns.names[at], at)


def read_trees(path: str) -> Any:
    """Read the sentences of a CoNLL-U file; a file without sentences is an error."""
    from spom.data.conllu import read_conllu

    bank = read_conllu(path)
    if len(bank) == 0:
        raise DataError("expected sentences, found none", path)
    return bank


def label_set(y: Any) -> set[str]:
    """Return the set of labels that occur in sentences."""
    if hasattr(y, "distinct"):
        return {str(label) for label in y.distinct(0)[1]}
    return {label for sentence in y for label in sentence}


def _column(text: str) -> int | str:
    """Return a column's number as an integer, or its name as it is."""
    return int(text) if text.lstrip("-").isdigit() else text


def like_training(path: str, given: str | None, training: dict[str, Any], label: str | None = None) -> Tagged:
    """Read a file with labels for a model that was learnt from files described by `training`."""
    kind = format_of(path, given, SENTENCES)
    _same_kind(kind, training, path)
    columns, encoding = training.get("columns"), training.get("encoding", "utf-8")
    if kind == "items" or columns is None:
        return read_tagged(path, given, None, label, encoding)
    if kind == "conllu":
        label = label or (training["label"] if training["format"] == "conllu" else None)
        return read_tagged(path, given, columns if training["format"] == "conllu" else None, label)
    names = None
    if label in (None, training["label"]) and training["format"] == "conll":
        names = [*columns[: training["label_at"]], training["label"], *columns[training["label_at"] :]]
        label = training["label"]
    return read_tagged(path, given, names, label, encoding)


# --- without labels, in blocks ----------------------------------------------------------------------


def tag_blocks(
    path: str, given: str | None, training: dict[str, Any], classes: Sequence[str], only: bool
) -> Iterator[tuple[Any, Callable[[Ints], bytes]]]:
    """Yield (sentences, a function from their label codes to the bytes to write) for each block of a file, in order."""
    kind = format_of(path, given, SENTENCES)
    _same_kind(kind, training, path)
    blocks = {"items": _items, "conllu": _conllu, "conll": _conll}[kind](path, training, classes)
    for X, text in not_empty(blocks, "sentences", path):
        yield X, (_only(X, classes) if only else text)


def _same_kind(kind: str, training: dict[str, Any], path: str) -> None:
    """Check that both files are items, or both not: items hold named features, elsewhere templates make them."""
    learnt = training.get("format")
    if learnt is not None and (learnt == "items") != (kind == "items"):
        raise DataError(f"the model was learnt from {learnt} files; this is {kind} (see --format)", path)


def _conll(path: str, training: dict[str, Any], classes: Sequence[str]) -> Iterator[Any]:
    for columns in read_conll_blocks(path, training.get("given"), encoding=training.get("encoding", "utf-8")):
        last = columns.start[:, -1] + columns.length[:, -1]
        tabs = columns.n_columns > 1 and int(columns.buffer[columns.start[0, -1] - 1]) == ord("\t")
        labels = [("\t" if tabs else " ") + name for name in classes]
        yield wanted_columns(columns, training), _splicer(columns.buffer, last, last, labels)


def _conllu(path: str, training: dict[str, Any], classes: Sequence[str]) -> Iterator[Any]:
    from spom.data.conllu import iter_conllu

    own = training.get("format") == "conllu"
    for bank in iter_conllu(path):
        columns = bank.columns
        at = columns.column(training["label"] if own else "upos")
        X = columns.select(training["columns"] if own else ["form"])
        begin = columns.start[:, at]
        yield X, _splicer(columns.buffer, begin, begin + columns.length[:, at], classes)


def _items(path: str, training: dict[str, Any], classes: Sequence[str]) -> Iterator[Any]:
    from spom.data.items import iter_items

    for items in iter_items(path):

        def text(codes: Ints, items: Any = items) -> bytes:
            found, lines, t = codes.tolist(), [], 0
            for sentence in items.text:
                for line in sentence:
                    rest = line.partition("\t")[1:]
                    lines.append(classes[found[t]] + "".join(rest))
                    t += 1
                lines.append("")
            return "".join(f"{line}\n" for line in lines).encode()

        yield items.X, text


def wanted_columns(columns: Columns, training: dict[str, Any]) -> Columns:
    """Return the columns that a model takes its features from, without the label column if there is one."""
    names = training.get("columns")
    if names is None or training.get("format") != "conll":
        return columns
    at = training["label_at"]
    if training.get("given"):
        return columns.select([_given(columns, name) for name in names])
    if columns.n_columns == len(names) and at is not None and at < len(names):
        what = f"the model takes {', '.join(names)}, and its labels stood before the last of them"
        raise DataError(f"{what}; say which columns these are: --columns NAMES", columns.source, int(columns.lines[0]))
    if columns.n_columns == len(names) + 1:
        columns = columns.select([c for c in range(columns.n_columns) if c != at])
    if columns.n_columns != len(names):
        what = f"expected {len(names)} columns ({', '.join(names)}), or one more with labels"
        raise DataError(f"{what}; found {columns.n_columns}", columns.source, int(columns.lines[0]))
    return replace(columns, names=tuple(names))


def _given(columns: Columns, name: str) -> int:
    """Return the index of a column that was named with --columns."""
    if name not in columns.names:
        found = ", ".join(columns.names)
        raise DataError(f"the model needs a column {name!r}; --columns names {found}", columns.source)
    return columns.names.index(name)


def _only(X: Any, classes: Sequence[str]) -> Callable[[Ints], bytes]:
    sizes = np.diff(X.offsets).tolist() if isinstance(X, Columns) else [len(sentence) for sentence in X]

    def text(codes: Ints) -> bytes:
        found, lines, at = codes.tolist(), [], 0
        for size in sizes:
            lines += [classes[c] for c in found[at : at + size]]
            lines.append("")
            at += size
        return "".join(f"{line}\n" for line in lines).encode()

    return text


def _splicer(buffer: Any, begin: Ints, end: Ints, labels: Sequence[str]) -> Callable[[Ints], bytes]:
    blobs = [label.encode() for label in labels]
    return lambda codes: spliced(buffer, begin, end, codes, blobs)


def load_tagging(path: str | Path) -> TaggerParts:
    """Load the parts of a tagger that tagging needs; `spom.load_model` loads the whole estimator."""
    header, arrays = read_file(path)
    try:
        state = {name: decode(header.model["state"][name], arrays) for name in ("classes_", "kind")}
        return TaggerParts.of(state, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: a damaged model file, or one of another spom ({error})") from None


def marginal_text(tagger: Any, X: Any) -> bytes:
    """Format one token per line: its fields, the label with the highest marginal, and that marginal."""
    labels = [str(label) for label in tagger.classes_.tolist()]
    lines = []
    for fields, marginals in zip(_fields(X), tagger.predict_marginals(X), strict=True):
        best = np.asarray(marginals).argmax(axis=1).tolist()
        for words, c, row in zip(fields, best, marginals, strict=True):
            lines.append("\t".join([*words, labels[c], f"{float(row[c]):.6f}"]))
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def k_best_text(tagger: Any, X: Any, count: int) -> bytes:
    """Format the `count` best sequences of each sentence, each below a line `# RANK SCORE`."""
    lines = []
    for fields, found in zip(_fields(X), tagger.predict_kbest(X, count), strict=True):
        for rank, (labels, score) in enumerate(found, 1):
            lines.append(f"# {rank} {score:.6f}")
            lines += ["\t".join([*words, str(label)]) for words, label in zip(fields, labels, strict=True)]
            lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def _fields(X: Any) -> list[list[tuple[str, ...]]]:
    """Return the columns of each token of each sentence; for feature dicts and items, no columns are repeated."""
    return list(X) if isinstance(X, Columns) else [[() for _ in sentence] for sentence in X]
