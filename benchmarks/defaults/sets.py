"""Texts, tables and sparse rows as a user would feed them, each with training and test rows.

`SETS[name](seed)` gives a `Split`. Sets with their own test part keep it for every seed; the others are split
by seed. A set whose rows overlap with those of another is loaded with `counts=False`.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import train_test_split


@dataclass(frozen=True)
class Split:
    """Training and test rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    counts: bool = True


@dataclass(frozen=True)
class Set:
    """A data set: its kind, its loader by seed, its number of seeds in tables, its family (sets of the same rows)."""

    kind: str
    load: Callable[[int], Split]
    seeds: int
    family: str


SETS: dict[str, Set] = {}
# Sets with rows of another one.
_SAME = {"a8a": "adult", "sst5": "polarity"}


def _add(name: str, load: Callable[[int], Split], kind: str = "classification", seeds: int = 3) -> None:
    family = name.split("-")[0]
    SETS[name] = Set(kind, load, seeds, _SAME.get(family, family))


def _folder() -> Path:
    return Path(os.environ["SPOM_DATA"])


def _lines(path: str, encoding: str = "utf-8") -> list[str]:
    with gzip.open(_folder() / path, "rt", encoding=encoding) as file:
        return file.read().split("\n")[:-1]


def _halves(X: Any, y: Any, seed: int, real: bool = False) -> Split:
    """Hold out a quarter of the rows for testing, stratified by class."""
    y = np.asarray(y)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=None if real else y)
    return Split(X, y, X_test, y_test)


# --- texts ------------------------------------------------------------------------------------------

VECTORIZERS: dict[str, Callable[[], Any]] = {
    "tfidf": TfidfVectorizer,
    "binary": lambda: CountVectorizer(binary=True),
    "counts": CountVectorizer,
    "bigrams": lambda: TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    "chars": lambda: TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3)),
}
Texts = tuple[list[str], Any, list[str], Any]


def _labelled(path: str) -> tuple[list[str], list[str]]:
    pairs = [line.split("\t", 1) for line in _lines(path)]
    return [text for _, text in pairs], [label for label, _ in pairs]


def _polarity(seed: int) -> Texts:
    found = [_lines(f"polarity/rt-polarity.{s}.gz", "latin-1") for s in ("neg", "pos")]
    texts = found[0] + found[1]
    split = _halves(texts, np.repeat(["neg", "pos"], [len(found[0]), len(found[1])]), seed)
    return split.X, split.y, split.X_test, split.y_test


def _ag_news(seed: int) -> Texts:
    texts, y = _labelled("text/ag_news/dev.tsv.gz")
    held, y_test = _labelled("text/ag_news/test.tsv.gz")
    known = set(held)
    kept = [i for i, text in enumerate(texts) if text not in known]
    return [texts[i] for i in kept], np.array(y)[kept], held, np.array(y_test)


def _sst5(seed: int) -> Texts:
    (texts, y), (held, y_test) = (_labelled(f"text/sst5/{part}.tsv.gz") for part in ("train", "test"))
    return texts, np.array(y), held, np.array(y_test)


def _trec(seed: int, fine: bool) -> Texts:
    parts: list[Any] = []
    for part in ("train", "test"):
        texts, y = _labelled(f"text/trec/{part}.tsv.gz")
        parts += [texts, np.array(y if fine else [label.split(":")[0] for label in y])]
    return parts[0], parts[1], parts[2], parts[3]


def _sentences(path: str) -> Iterator[tuple[str, str]]:
    """Yield (sentence id, text) of a treebank in CoNLL-U."""
    name, words = "", []
    for line in _lines(path):
        if line.startswith("# sent_id"):
            name = line.partition("=")[2].strip()
        elif line and line[0].isdigit() and "-" not in line.split("\t")[0] and "." not in line.split("\t")[0]:
            words.append(line.split("\t")[1])
        elif not line:
            yield name, " ".join(words)
            words = []


def _genres(seed: int) -> Texts:
    """Return sentences of EWT by genre: answers, email, newsgroup, reviews, weblog."""
    parts: list[Any] = []
    for part in ("train", "test"):
        found = list(_sentences(f"ewt/en_ewt-ud-{part}.conllu.gz"))
        parts += [[text for _, text in found], np.array([name.split("-")[0] for name, _ in found])]
    return parts[0], parts[1], parts[2], parts[3]


LANGUAGES = ("af_afribooms", "cs_cltt", "de_gsd", "es_ancora", "fi_tdt", "ga_idt", "pt_bosque", "tr_imst", "vi_vtb")


def _languages(seed: int) -> Texts:
    """Return the first four words of sentences in nine languages."""
    texts, y = [], []
    for name in LANGUAGES:
        for _, text in _sentences(f"ud/{name}/{name}-ud-dev.conllu.gz"):
            texts.append(" ".join(text.split()[:4]))
            y.append(name[:2])
    split = _halves(texts, y, seed)
    return split.X, split.y, split.X_test, split.y_test


@cache
def _vectors(name: str, form: str, seed: int) -> Split:
    texts, y, held, y_test = TEXTS[name](seed)
    made = VECTORIZERS[form]()
    X = made.fit_transform(texts).astype(np.float64)
    return Split(X, y, made.transform(held).astype(np.float64), y_test, counts=name != "sst5")


TEXTS: dict[str, Callable[[int], Texts]] = {
    "polarity": _polarity,
    "ag_news": _ag_news,
    "sst5": _sst5,
    "trec": lambda seed: _trec(seed, False),
    "trec-fine": lambda seed: _trec(seed, True),
    "genres": _genres,
    "languages": _languages,
}
for _text, _forms in {
    "polarity": ("tfidf", "binary", "bigrams"),
    "ag_news": ("tfidf", "binary"),
    "sst5": ("tfidf", "binary"),
    "trec": ("tfidf", "binary"),
    "trec-fine": ("tfidf", "counts"),
    "genres": ("tfidf", "binary"),
    "languages": ("chars",),
}.items():
    for _form in _forms:
        _add(f"{_text}-{_form}", lambda seed, name=_text, form=_form: _vectors(name, form, seed))  # type: ignore[misc]


def _sst5_real(seed: int) -> Split:
    split = _vectors("sst5", "tfidf", seed)
    return Split(split.X, split.y.astype(float), split.X_test, split.y_test.astype(float))


_add("sst5-grade", _sst5_real, "regression")


# --- tables -----------------------------------------------------------------------------------------


def _toy(name: str, seed: int) -> Split:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return _halves(X, y, seed)


for _name in ("breast_cancer", "digits", "iris", "wine"):
    _add(_name, lambda seed, name=_name: _toy(name, seed), seeds=10)  # type: ignore[misc]


def _pmlb(name: str) -> tuple[Any, Any]:
    with gzip.open(_folder() / f"tabular/{name}/{name}.tsv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter="\t", skiprows=1)
    return rows[:, :-1], rows[:, -1]


for _name in ("letter", "pendigits"):
    _add(_name, lambda seed, name=_name: _halves(*_pmlb(name), seed))  # type: ignore[misc]


def _landsat(seed: int) -> Split:
    train, test = (np.loadtxt(_folder() / f"landsat/sat.{part}") for part in ("trn", "tst"))
    return Split(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])


_add("landsat", _landsat)


def _idx(name: str, header: int) -> Any:
    with gzip.open(_folder() / f"mnist/{name}.gz") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


def _mnist(seed: int) -> Split:
    """Return 5,000 of the images, as raw pixels."""
    rows = np.random.default_rng(seed).permutation(60_000)[:5000]
    X = _idx("train-images-idx3-ubyte", 16).reshape(-1, 784)[rows].astype(float)
    X_test = _idx("t10k-images-idx3-ubyte", 16).reshape(-1, 784).astype(float)
    return Split(X, _idx("train-labels-idx1-ubyte", 8)[rows], X_test, _idx("t10k-labels-idx1-ubyte", 8))


_add("mnist-5000", _mnist)


def _mfeat(seed: int) -> Split:
    """Return six views of handwritten digits, concatenated, with very different scales."""
    views = [_mfeat_view(view) for view in ("fac", "fou", "kar", "mor", "pix", "zer")]
    return _halves(np.hstack([view[:, :-1] for view in views]), views[0][:, -1], seed)


def _mfeat_view(view: str) -> Any:
    lines = _lines(f"multiview/mfeat/mfeat-{view}.csv.gz")
    return np.array([[float(cell) for cell in row] for row in csv.reader(lines[1:])])


_add("mfeat", _mfeat)

NUMBERS = (0, 2, 4, 10, 11, 12)


@cache
def _adult_table(part: str) -> tuple[Any, list[list[str]], Any]:
    rows = [line.rstrip(".").split(",") for line in _lines(f"tabular/adult/adult-{part}.csv.gz") if line]
    numbers = np.array([[float(row[i]) for i in NUMBERS] for row in rows])
    names = [[f"{i}={row[i]}" for i in range(14) if i not in NUMBERS] for row in rows]
    return numbers, names, np.array([row[-1] for row in rows])


@cache
def _adult_columns() -> tuple[Any, Any, Any, Any]:
    """Return unscaled numbers next to one-hot columns, sparse."""
    made = CountVectorizer(analyzer=lambda cells: cells)
    numbers, names, y = _adult_table("train")
    X = sparse.csr_matrix(sparse.hstack([numbers, made.fit_transform(names)]), dtype=np.float64)
    numbers, names, y_test = _adult_table("test")
    return X, y, sparse.csr_matrix(sparse.hstack([numbers, made.transform(names)]), dtype=np.float64), y_test


def _adult(seed: int, dense: bool) -> Split:
    X, y, X_test, y_test = _adult_columns()
    return Split(X.toarray(), y, X_test.toarray(), y_test) if dense else Split(X, y, X_test, y_test, counts=False)


def _a8a(seed: int) -> Split:
    with gzip.open(_folder() / "sparse/a8a/a8a.svm.gz") as file:
        X, y = datasets.load_svmlight_file(file)
    split = _halves(X, y, seed)
    return Split(split.X, split.y, split.X_test, split.y_test, counts=False)


_add("adult", lambda seed: _adult(seed, dense=True))
_add("adult-sparse", lambda seed: _adult(seed, dense=False))
_add("a8a", _a8a)


# --- real targets -----------------------------------------------------------------------------------


def _diabetes(seed: int) -> Split:
    X, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return _halves(X, y, seed, real=True)


def _hours(seed: int) -> Split:
    """Return hours per week of the census from all other columns."""
    X, _, X_test, _ = (part.toarray() if sparse.issparse(part) else part for part in _adult_columns())
    at = NUMBERS.index(12)
    return Split(np.delete(X, at, 1), X[:, at], np.delete(X_test, at, 1), X_test[:, at])


def _houses(seed: int) -> Split:
    """Generate skewed counts with outliers, their ratios, and places far from zero, as in tables of house prices."""
    rng = np.random.default_rng(seed)
    n = 8000
    place = rng.normal([36.0, -120.0], [2.0, 2.0], (n, 2))
    income, age = rng.gamma(4.0, 1.0, n), rng.uniform(1.0, 52.0, n)
    people, rooms = rng.lognormal(7.0, 0.7, n), rng.lognormal(7.5, 0.7, n)
    each = people / np.maximum(1.0, rooms / rng.lognormal(1.6, 0.2, n))
    price = 0.45 * income + 0.01 * age - 0.4 * (place[:, 0] - 36) - 0.42 * (place[:, 1] + 120) - 0.2 * np.log(each)
    y = np.minimum(price + rng.normal(0.0, 0.6, n), 5.0)
    return _halves(np.column_stack([income, age, rooms / people, people, each, place]), y, seed, real=True)


_add("diabetes", _diabetes, "regression", seeds=10)
_add("cpu_act", lambda seed: _halves(*_pmlb("cpu_act"), seed, real=True), "regression")
_add("adult-hours", _hours, "regression")
_add("houses", _houses, "regression")


def _age(seed: int) -> Split:
    """Return age in the census from all other columns, which include capital gains with a few very large numbers."""
    X, _, X_test, _ = (part.toarray() if sparse.issparse(part) else part for part in _adult_columns())
    found = Split(np.delete(X, 0, 1), X[:, 0], np.delete(X_test, 0, 1), X_test[:, 0], counts=False)
    return found


def _pixel(seed: int) -> Split:
    """Return one pixel of a patch in one band from the others, which are nearly the same."""
    split = _landsat(seed)
    X, X_test = (part[:, [j for j in range(36) if j // 4 != 4]] for part in (split.X, split.X_test))
    return Split(X, split.X[:, 16], X_test, split.X_test[:, 16])


def _moment(seed: int) -> Split:
    """Return a moment of a digit, in thousands, from its 240 pixels."""
    return _halves(_mfeat_view("pix")[:, :-1], _mfeat_view("mor")[:, 4], seed, real=True)


def _signs(seed: int) -> Split:
    """Return reviews as numbers from 0 to 4, from their words."""
    split = _vectors("sst5", "binary", seed)
    return Split(split.X, split.y.astype(float), split.X_test, split.y_test.astype(float), counts=False)


_add("adult-age", _age, "regression")
_add("landsat-pixel", _pixel, "regression")
_add("mfeat-moment", _moment, "regression")
_add("sst5-words", _signs, "regression")


# --- few rows, few columns, rare classes -------------------------------------------------------------


def _few(name: str, rows: int, seed: int) -> Split:
    """Return some of the training rows of a set, the same fraction of each class, and all of its test rows."""
    split = SETS[name].load(seed)
    real = SETS[name].kind == "regression"
    order = np.random.default_rng(seed).permutation(split.X.shape[0])
    y = np.asarray(split.y)[order]
    if not real:
        order = order[np.argsort(y, kind="stable")]
    chosen = order[np.linspace(0, order.size - 1, rows).astype(np.int64)]
    return Split(split.X[chosen], np.asarray(split.y)[chosen], split.X_test, split.y_test, counts=False)


def _pair(name: str, labels: tuple[Any, Any], seed: int) -> Split:
    """Return two of the classes."""
    split = SETS[name].load(seed)
    found = []
    for X, y in ((split.X, split.y), (split.X_test, split.y_test)):
        kept = np.flatnonzero(np.isin(y, labels))
        found += [X[kept], np.asarray(y)[kept]]
    return Split(found[0], found[1], found[2], found[3], counts=False)


def _rare(name: str, label: Any, seed: int) -> Split:
    """Return one class against the rest."""
    split = SETS[name].load(seed)
    return Split(split.X, np.asarray(split.y) == label, split.X_test, np.asarray(split.y_test) == label, counts=False)


for _name, _rows in {
    "polarity-tfidf": 300,
    "trec-tfidf": 300,
    "trec-binary": 1000,
    "ag_news-tfidf": 100,
    "digits": 100,
    "landsat": 150,
    "mnist-5000": 200,
    "mfeat": 80,
    "adult": 200,
    "letter": 500,
    "diabetes": 60,
    "cpu_act": 100,
    "sst5-grade": 500,
    "mfeat-moment": 150,
}.items():
    _add(
        f"{_name}-few",
        lambda seed, name=_name, rows=_rows: _few(name, rows, seed),  # type: ignore[misc]
        SETS[_name].kind,
        seeds=5,
    )
_add("mfeat-pair", lambda seed: _pair("mfeat-few", (3.0, 8.0), seed), seeds=5)
_add("mnist-pair", lambda seed: _pair("mnist-5000-few", (4, 9), seed), seeds=5)
_add("landsat-rare", lambda seed: _rare("landsat", 4.0, seed))
_add("trec-rare", lambda seed: _rare("trec-tfidf", "ABBR", seed))
_add("letter-rare", lambda seed: _rare("letter", 7.0, seed))
