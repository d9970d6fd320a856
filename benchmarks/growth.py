"""Costs that must grow as expected: `partial_fit` of one row (`rows`), columns of different scales (`scales`), taggers
with many labels (`labels`), many classes under an l1 penalty (`classes`, and ten thousand of them: `many`), kernels of
different scales (`kernels`).

CPU seconds of one thread, ratios in one run.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import Table, data_folder, measure
from spom import MKLClassifier, OnlineClassifier, ProximalClassifier, SequenceTagger
from spom.data import read_conllu
from spom.kernels import Gaussian, Linear, Polynomial
from spom.penalties import L1, SparseMKL

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "L1, proximal point": {"penalty": L1(1e-5)},
    "L1, forward-backward": {"penalty": L1(1e-5), "update": "forward-backward", "step": "sqrt"},
    "L1, adaptive steps": {"penalty": L1(1e-5), "update": "forward-backward"},
    "L1, dual averaging": {"penalty": L1(1e-5), "update": "dual-averaging"},
}


def call_seconds(model: Any, rows: list[Any]) -> float:
    """Return the median seconds of a `partial_fit` call with one row, after the first five."""
    taken = []
    for k, row in enumerate(rows):
        begin = time.thread_time()
        model.partial_fit(row, [k % 2], classes=[0, 1])
        taken.append(time.thread_time() - begin)
    return statistics.median(taken[5:])


def bench_rows(d: int = 1_000_000) -> None:
    """Time one row of 50 non-zeros per call, against SGDClassifier."""
    from sklearn.linear_model import SGDClassifier

    table = Table(f"partial_fit of one row, {d:,} features, CPU milliseconds (peer: SGDClassifier)")
    random = np.random.default_rng(0)
    places = [np.sort(random.choice(d, 50, replace=False)) for _ in range(60)]
    rows = [sparse.csr_matrix((np.ones(50), p, [0, 50]), shape=(1, d)) for p in places]
    for name, settings in SETTINGS.items():
        peer = call_seconds(SGDClassifier(loss="log_loss", penalty="l1", alpha=1e-5), rows)
        mine = call_seconds(OnlineClassifier(**settings, verbose=0), rows)
        table.add(name, 1e3 * mine, 1e3 * peer, "ratio > 1", mine < peer)


def forest(n: int = 14_000) -> tuple[Any, Any]:
    """Draw 54 columns like those of the forest cover data, metres and degrees plus 44 of zeros and ones; 7 classes."""
    random = np.random.default_rng(0)
    means, spread = (2800, 155, 14, 270, 46, 2350, 212, 223, 142, 1980), (280, 110, 7, 210, 58, 1550, 26, 20, 38, 1320)
    measured = np.asarray(means) + np.asarray(spread) * random.standard_normal((n, 10))
    areas = np.eye(4)[random.choice(4, n, p=[0.45, 0.05, 0.44, 0.06])]
    soils = np.eye(40)[random.choice(40, n, p=random.dirichlet(np.full(40, 0.3)))]
    X = np.column_stack([measured, areas, soils])
    standard = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    truth = 0.5 * random.standard_normal((54, 7)) * np.append(4.0, np.ones(53))[:, None]
    return X, (standard @ truth + random.gumbel(size=(n, 7))).argmax(axis=1)


def bench_scales() -> None:
    """Time seven classes, columns of very different scales, default settings."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = Table("ProximalClassifier(), 14,000 x 54, 7 classes, badly scaled (peer: scaler and LogisticRegression)")
    X, y = forest()
    peer = measure(lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), repeats=3)
    mine = measure(lambda: ProximalClassifier(verbose=0).fit(X, y), repeats=3)
    fine = mine.result.converged_ and mine.seconds < 2.0
    table.add("CPU seconds to the duality gap", mine.seconds, peer.seconds, "converged, < 2 s", fine)
    table.add("accuracy on the training rows", mine.result.score(X, y), peer.result.score(X, y))


def peak() -> float:
    """Return the peak memory of this process, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def joint(folder: str, part: str, names: tuple[str, ...]) -> tuple[Any, Any]:
    """Return words of EWT, and columns joined as labels."""
    columns = read_conllu(Path(folder) / "ewt" / f"en_ewt-ud-{part}.conllu.gz").columns
    fields = []
    for name in ("form", *names):
        codes, strings = columns.distinct(name)
        fields.append([str(strings[c]) for c in codes.tolist()])
    labels = ["+".join(parts) for parts in zip(*fields[1:], strict=True)]
    spans = list(pairwise(columns.offsets.tolist()))
    return [fields[0][a:b] for a, b in spans], [labels[a:b] for a, b in spans]


def bench_labels() -> None:
    """Time EWT's features as labels; then parts of speech, features and relations, the 1,000 most frequent."""
    folder = data_folder()
    if folder is None:
        return
    table = Table("SequenceTagger with many labels, EWT, CPU microseconds per token; dense tables' MB as peer")
    for names, floor in ((("feats",), 5.0), (("upos", "feats", "deprel"), 15.0)):
        (X, y), (test, gold) = (joint(folder, part, names) for part in ("train", "dev"))
        kept = {label for label, _ in Counter(chain.from_iterable(y)).most_common(999)}
        y, gold = ([[a if a in kept else "rare" for a in labels] for labels in part] for part in (y, gold))
        before, begin = peak(), time.thread_time()
        tagger = SequenceTagger(random_state=0, verbose=0).fit(X, y)
        learnt, rows = time.thread_time() - begin, tagger._tokens(test)
        taken = 1e6 * measure(lambda t=tagger, rows=rows: t._codes(rows), repeats=3).seconds / rows.total
        what = f"{tagger.classes_.size} labels"
        table.add(f"{what}: decoding", taken, target=f"<= {floor:g}", reached=taken <= floor)
        table.add(f"{what}: fit, per pass", 1e6 * learnt / tagger.n_epochs_ / sum(map(len, X)))
        table.add(f"{what}: MB of fit", peak() - before, 8e-6 * tagger.weights_.shape[0] * tagger.classes_.size)
        table.add(f"{what}: accuracy on dev", tagger.score(test, gold))


def topics(n: int, d: int, k: int, each: int = 50) -> tuple[Any, Any]:
    """Draw rows of 50 words: most by Zipf's law, one in eight from 60 words of the row's class."""
    random = np.random.default_rng(0)
    y, own = random.integers(k, size=n), random.integers(d // 10, d, size=(k, 60))
    common = np.minimum((d * random.random((n, each)) ** 3).astype(np.int64), d - 1)
    typical = own[y[:, None], random.integers(60, size=(n, each))]
    words = np.where(random.random((n, each)) < 0.12, typical, common)
    X = sparse.csr_matrix((np.full(n * each, each**-0.5), words.ravel(), np.arange(0, n * each + 1, each)), (n, d))
    X.sum_duplicates()
    return X, y


def bench_classes(d: int = 100_000, k: int = 300, n: int = 4000, epochs: int = 3) -> None:
    """Measure memory of `fit`, and time per non-zero and class, for d = 1e5, k = 300 under an l1 penalty."""
    table = Table(f"OnlineClassifier(penalty=L1(1e-5)), {d:,} features, {k} classes")
    X, y = topics(n + n // 4, d, k)
    before, model = peak(), OnlineClassifier(penalty=L1(1e-5), epochs=epochs, verbose=0)
    mine = measure(lambda: model.fit(X[:n], y[:n]), repeats=1, warm=False)
    each = 1e9 * mine.seconds / epochs / X[:n].nnz / k
    tables = (peak() - before) * 1e6 / (8.0 * d * k)
    table.add("memory of fit, in tables of d x k", tables, target="<= 1", reached=tables <= 1.0)
    table.add("ns per non-zero and class", each, target="<= 18", reached=each <= 18.0)
    table.add("accuracy on other rows", mine.result.score(X[n:], y[n:]))


def bench_many(d: int = 100_000, k: int = 10_000, n: int = 200_000) -> None:
    """Run one pass over 1e5 features, 1e4 classes and 1e7 non-zeros, within 4 GB including the data."""
    table = Table(f"OnlineClassifier(penalty=L1(1e-8)), {d:,} features, {k:,} classes, {n:,} rows, one pass")
    X, y = topics(n + 2000, d, k)
    model = OnlineClassifier(penalty=L1(1e-8), epochs=1, verbose=0, random_state=0)
    mine = measure(lambda: model.fit(X[:n], y[:n]), repeats=1, warm=False)
    table.add("millions of weights that are not zero", 1e-6 * model.coef_.nnz)
    table.add("accuracy on other rows", model.score(X[n:], y[n:]))
    table.add("GB of the process", 1e-3 * peak(), target="<= 4", reached=peak() <= 4000.0)
    table.add("ns per non-zero and class", 1e9 * mine.seconds / X[:n].nnz / k)


def bench_kernels(n: int = 1000) -> None:
    """Time kernels of very different scale, to the duality gap, against three Gaussians on the same rows."""
    from sklearn.datasets import load_digits

    table = Table(f"MKLClassifier(solver='frank-wolfe'), digits, {n:,} rows, CPU seconds (peer: three Gaussians)")
    X, y = (a[:n] for a in load_digits(return_X_y=True))
    size = X.shape[1] * X.var()
    gaussians = [Gaussian(size / 4), Gaussian(size), Gaussian(4 * size)]

    def fit(kernels: list[Any]) -> Any:
        return MKLClassifier(kernels, penalty=SparseMKL(1 / n), solver="frank-wolfe", verbose=0).fit(X, y)

    peer = measure(lambda: fit(gaussians), repeats=3)
    for name, kernels in (
        ("linear, squares, Gaussian", [Linear(), Polynomial(2, bias=1.0), Gaussian(size)]),
        ("with cubes", [Linear(), Polynomial(2, bias=1.0), Polynomial(3, bias=1.0), Gaussian(size)]),
    ):
        mine = measure(lambda kernels=kernels: fit(kernels), repeats=3)
        table.add(name, mine.seconds, peer.seconds, "converged", mine.result.converged_)


PARTS: dict[str, Callable[[], None]] = {
    "rows": bench_rows, "scales": bench_scales, "labels": bench_labels, "classes": bench_classes,
    "many": bench_many, "kernels": bench_kernels,
}  # fmt: skip


def main(part: str | None = None) -> None:
    for name, function in PARTS.items():
        if part in (None, name):
            function()
