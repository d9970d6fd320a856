"""Online learning: speed and objective against SGDClassifier, liblinear, saga and vw; step='auto' against a grid."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import Table, data_folder, measure, race
from spom.penalties import L1
from spom.solvers import OnlineProximal, steps
from spom.solvers.iterate import last

# --- data ------------------------------------------------------------------------------------------------


def polarity(folder: str) -> tuple[Any, Any]:
    """Return sentence polarity, binary unigrams and bigrams: 8,529 x 112,500."""
    from sklearn.feature_extraction.text import CountVectorizer

    text, labels = [], []
    for name, label in (("pos", 1.0), ("neg", -1.0)):
        with gzip.open(Path(folder, "polarity", f"rt-polarity.{name}.gz"), "rt", encoding="latin-1") as file:
            lines = [line.strip() for line in file]
        text += lines
        labels += [label] * len(lines)
    chosen = np.random.default_rng(0).permutation(len(text))[:8529]
    words = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", binary=True)
    X = words.fit_transform([text[i] for i in chosen]).astype(np.float64)
    return X, np.asarray(labels)[chosen]


def zipf(n: int, d: int, nonzeros: int = 44, seed: int = 0) -> tuple[Any, Any]:
    """Draw rows of about `nonzeros` features drawn with probability 1/rank, and labels of a sparse logistic model."""
    random = np.random.default_rng(seed)
    counts = random.poisson(1.16 * nonzeros, n) + 1
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ranks = np.exp(random.random(int(indptr[-1])) * np.log(d + 1.0)).astype(np.int32) - 1
    X = sparse.csr_matrix((np.ones(ranks.size), np.minimum(ranks, d - 1), indptr), shape=(n, d))
    X.sum_duplicates()
    X.data[:] = 1.0
    truth = np.where(random.random(d) < 0.1, 1.5 * random.standard_normal(d), 0.0)
    scores = X @ truth
    scores -= scores.mean()
    return X, np.where(random.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


def mnist(folder: str, n: int) -> tuple[Any, Any]:
    """Return digits 0-4 against 5-9."""
    with gzip.open(Path(folder, "mnist", "train-images-idx3-ubyte.gz")) as file:
        X = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)[:n] / 255.0
    with gzip.open(Path(folder, "mnist", "train-labels-idx1-ubyte.gz")) as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)[:n]
    return sparse.csr_matrix(X), np.where(y < 5, 1.0, -1.0)


def landsat(folder: str) -> tuple[Any, Any]:
    """Return classes 1-3 against the rest, features standardised."""
    a = np.loadtxt(Path(folder, "landsat", "sat.trn"))
    X = a[:, :36]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(a[:, 36] <= 3, 1.0, -1.0)


def objective(X: Any, y: Any, strength: float) -> Callable[[Any], float]:
    """F(w) = mean log loss + strength norm1, computed independently of both sides."""
    return lambda w: float(np.logaddexp(0.0, -y * (X @ w)).mean() + strength * np.abs(w).sum())


def sgd(strength: float, epochs: int, **options: Any) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(
        loss="log_loss", penalty="l1", alpha=strength, max_iter=epochs, tol=None, fit_intercept=False, **options
    )


SCHEDULES: list[dict[str, Any]] = [
    {"learning_rate": "optimal"},
    *({"learning_rate": "constant", "eta0": e} for e in (0.01, 0.03, 0.1)),
    *({"learning_rate": "invscaling", "eta0": e, "power_t": p} for e in (0.1, 1.0) for p in (0.1, 0.25, 0.5)),
    {"learning_rate": "adaptive", "eta0": 0.1},
]


def best_sgd(X: Any, y: Any, strength: float, epochs: int, **options: Any) -> tuple[float, dict[str, Any]]:
    """Return the objective of SGDClassifier's best schedule, and that schedule."""
    value = objective(X, y, strength)
    found = [(value(sgd(strength, epochs, **s, **options).fit(X, y).coef_[0]), k) for k, s in enumerate(SCHEDULES)]
    best, k = min(found)
    return best, SCHEDULES[k]


def ours(X: Any, y: Any, strength: float, epochs: int, **options: Any) -> Callable[[], Any]:
    return lambda: last(OnlineProximal(X, y, penalty=L1(strength), epochs=epochs, random_state=0, **options)).theta


def at_once(function: Callable[[], Any]) -> None:
    """Run the function in two threads that only share the machine."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: function(), range(2)))


# --- the parts -------------------------------------------------------------------------------------------


def bench_zipf(n: int = 1_000_000, d: int = 1_000_000) -> None:
    table = Table(f"Zipf {n:,} x {d:,}, l1-logistic 1e-6, one pass in the order of the rows")
    X, y = zipf(n, d)
    value = objective(X, y, 1e-6)
    best, schedule = best_sgd(X, y, 1e-6, 1, shuffle=False)
    mine, peer = race(
        ours(X, y, 1e-6, 1, shuffle=False),
        lambda: sgd(1e-6, 1, shuffle=False, **schedule).fit(X, y).coef_[0],
        repeats=3,
    )
    table.add("CPU seconds (SGDClassifier, shuffle=False)", mine.seconds, peer.seconds, "ratio >= 1",
              mine.seconds <= peer.seconds)  # fmt: skip
    table.add("million rows a second", n / mine.seconds / 1e6, n / peer.seconds / 1e6)
    table.add(f"objective (its best: {schedule['learning_rate']})", value(mine.result), best, "below its best, .411",
              value(mine.result) < min(best, 0.411))  # fmt: skip
    alone, pair = ours(X, y, 1e-6, 1, shuffle=False), ours(X, y, 1e-6, 1, shuffle=False, n_jobs=2)
    one, two, both = turns(alone, pair, lambda: at_once(alone))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = 2.0 * float(np.median(one / both))
    gain = float(np.median(one / two))
    table.add(f"two threads: gain over one, median of turns ({cores} cores; peer: two fits at once)", gain, limit,
              ".9 of the machine's limit", gain >= 0.9 * limit)  # fmt: skip
    table.add("two threads, objective (peer: one thread)", value(pair()), value(alone()), "within 1 %",
              value(pair()) <= 1.01 * value(alone()))  # fmt: skip


def turns(*functions: Callable[[], Any], count: int = 15) -> Any:
    """Return wall seconds of each function per turn; ratios are taken within a turn."""
    seconds = np.empty((len(functions), count))
    for turn in range(count):
        for k, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            seconds[k, turn] = time.perf_counter() - begin
    return seconds


def bench_shuffled(n: int = 300_000, d: int = 1_000_000) -> None:
    """Time a pass over shuffled rows, the default of both sides."""
    table = Table(
        f"Zipf {n:,} x {d:,}, l1-logistic 1e-6, one pass over shuffled rows",
        settings="Ours: `OnlineClassifier(penalty=L1(1e-6), epochs=1)`. SGDClassifier: the same loss and strength, "
        "learning_rate 'optimal'. Best of seven runs in turns.",
    )
    X, y = zipf(n, d)
    mine, peer, ordered = race(
        ours(X, y, 1e-6, 1),
        lambda: sgd(1e-6, 1, learning_rate="optimal", random_state=0).fit(X, y).coef_[0],
        ours(X, y, 1e-6, 1, shuffle=False),
        repeats=7,
    )
    table.add("CPU seconds (SGDClassifier, shuffle=True)", mine.seconds, peer.seconds, "ratio >= 1.5",
              1.5 * mine.seconds <= peer.seconds)  # fmt: skip
    table.add("CPU seconds (peer: ours in the order of the rows)", mine.seconds, ordered.seconds)


def bench_polarity() -> None:
    folder = data_folder()
    if folder is None:
        return
    from sklearn.linear_model import LogisticRegression

    X, y = polarity(folder)
    strength, optimum = 1e-4, 0.38888
    value = objective(X, y, strength)
    table = Table("polarity, l1-logistic 1e-4, ten passes, default settings")
    best, schedule = best_sgd(X, y, strength, 10, random_state=0)
    mine, peer = race(
        ours(X, y, strength, 10), lambda: sgd(strength, 10, random_state=0, **schedule).fit(X, y).coef_[0], repeats=15
    )
    table.add("objective (SGDClassifier's best schedule)", value(mine.result), best, "<= .395",
              value(mine.result) <= 0.395)  # fmt: skip
    table.add("CPU seconds (SGDClassifier)", mine.seconds, peer.seconds, "ratio >= 1", mine.seconds <= peer.seconds)

    table = Table("polarity, to 0.1 % of the optimum .38888")
    passes = next(
        s.counters.examples // len(y)
        for s in OnlineProximal(X, y, penalty=L1(strength), epochs=100, random_state=0, objective=True)
        if s.objective <= 1.001 * optimum
    )
    linear = LogisticRegression(
        penalty="l1", solver="liblinear", C=1 / (len(y) * strength), fit_intercept=False, random_state=0
    )
    mine, peer = race(ours(X, y, strength, passes), lambda: linear.fit(X, y).coef_[0], repeats=7)
    assert value(mine.result) <= 1.001 * optimum
    table.add(f"CPU seconds, {passes} passes (liblinear, default tol)", mine.seconds, peer.seconds, "ratio >= 1",
              mine.seconds <= peer.seconds)  # fmt: skip
    saga = LogisticRegression(
        penalty="l1", solver="saga", C=1 / (len(y) * strength), fit_intercept=False, max_iter=30, random_state=0
    )
    slow = measure(lambda: saga.fit(X, y).coef_[0], repeats=1, warm=False)
    table.add(f"CPU seconds (saga, 30 passes: only at {value(slow.result):.4f})", mine.seconds, slow.seconds,
              "ratio >= 20", slow.seconds >= 20 * mine.seconds)  # fmt: skip


GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RULES = (steps.InverseSqrt, steps.Constant, steps.AdaGrad)


def bench_auto() -> None:
    """Compare step='auto' with the best eta0 of a grid for each rule: objective after ten passes."""
    folder = data_folder()
    sets: list[tuple[str, Any, Any, float]] = [("zipf 20,000 x 20,000", *zipf(20_000, 20_000), 1e-5)]
    if folder is not None:
        sets += [
            ("polarity", *polarity(folder), 1e-4),
            ("mnist, 4,000", *mnist(folder, 4_000), 1e-3),
            ("landsat", *landsat(folder), 1e-3),
        ]
    table = Table("step='auto' against the best of a grid of eta0 (objective after 10 passes; peer: the grid's best)")
    for name, X, y, strength in sets:
        value = objective(X, y, strength)

        def run(step: Any, X: Any = X, y: Any = y, strength: float = strength, **options: Any) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    return ours(X, y, strength, 10, step=step, **options)()
                except FloatingPointError:
                    return np.full(X.shape[1], 1e6)

        for rule in RULES:
            best = min(value(run(rule(eta), update="forward-backward")) for eta in GRID)
            for update in ("auto", "forward-backward"):
                found = value(run("auto", update=update))
                goal = update == "auto"
                table.add(f"{name}: {update} / {rule.__name__}", found, best, "within 5 %" if goal else "",
                          found <= 1.05 * best if goal else None)  # fmt: skip


def bench_dimension(rounds: int = 400, largest: int = 1_000_000) -> None:
    """Compare what mirror descent learns with p='auto' and with the Euclidean map: sparse truth, dense features.

    The bound of the p-norm map grows with log d and that of the Euclidean one with d. Shown is the fraction of the loss
    at zero that has been removed in the second half of the rounds, each map with the best step of its own grid.
    """
    from spom.mirror import PNorm

    table = Table(f"dense +-1 features, 5 relevant, {rounds} rounds: share of the loss learnt (ours p-norm, peer l2)")
    found: list[tuple[int, float, float]] = []
    for d in [d for d in (1_000, 10_000, 100_000, 1_000_000) if d <= largest]:
        power = _learnt(d, rounds, PNorm("auto"), (0.03, 0.1, 0.3))
        euclidean = _learnt(d, rounds, None, (0.1 / d, 0.3 / d, 1.0 / d, 3.0 / d))
        found.append((d, power, euclidean))
        table.add(f"d = {d:,}", power, euclidean)
    falls = [found[0][k] / max(found[-1][k], 1e-4) for k in (1, 2)]
    table.add("first d over last d: how far it falls", falls[0], falls[1], "p-norm falls less", falls[0] < falls[1])
    _plot(found)


def _learnt(d: int, rounds: int, mirror: Any, grid: tuple[float, ...]) -> float:
    def blocks() -> Any:
        for seed in range(rounds // 20):
            X = np.random.default_rng(seed).integers(0, 2, size=(20, d), dtype=np.int8) * 2.0 - 1.0
            yield X, np.sign(X[:, :5].sum(axis=1))

    best = 0.0
    for eta in grid:
        run = OnlineProximal(blocks(), mirror=mirror, step=eta, shuffle=False, update="forward-backward")
        losses = [state.loss for state in run]
        best = max(best, 1.0 - float(np.mean(losses[len(losses) // 2 :])) / np.log(2.0))
    return best


def _plot(found: list[tuple[int, float, float]]) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return
    figure, axes = pyplot.subplots(figsize=(5, 3.5))
    d, power, euclidean = zip(*found, strict=True)
    axes.semilogx(d, power, "o-", label="p-norm, p = 1 + 1/log d")
    axes.semilogx(d, euclidean, "s-", label="Euclidean")
    axes.set(xlabel="features", ylabel="share of the loss learnt", ylim=(0, 1))
    axes.legend()
    folder = Path(__file__).parents[1] / "build"
    folder.mkdir(exist_ok=True)
    figure.savefig(folder / "dimension.png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    print("  plot: build/dimension.png")


FIRST = """
import time, numpy as np
from spom.penalties import L1
from spom.solvers import OnlineProximal
from scipy import sparse
X = sparse.random(2000, 5000, 0.01, random_state=0, format="csr")
y = np.where(np.arange(2000) % 2, 1.0, -1.0)
begin = time.process_time()
for state in OnlineProximal(X, y, penalty=L1(1e-3), epochs=2):
    pass
print(time.process_time() - begin)
"""


def bench_first() -> None:
    """Time the first fit of a new process, with the compiled cache warm and cold."""
    table = Table("first fit of a new process, CPU seconds")

    def fit(**extra: str) -> float:
        out = subprocess.run(
            [sys.executable, "-c", FIRST], env={**os.environ, **extra}, capture_output=True, text=True, check=True
        )
        return float(out.stdout)

    fit()
    warm = min(fit() for _ in range(3))
    table.add("cache warm", warm, target="< 1 s", reached=warm < 1)
    with tempfile.TemporaryDirectory() as folder:
        cold = fit(NUMBA_CACHE_DIR=folder)
    table.add("cache cold", cold, target="< 20 s", reached=cold < 20)


def bench_file(rows: int = 200_000) -> None:
    """Time an svmlight file in one pass, against vw on the same content in its own format."""
    from spom.data import read_svmlight

    table = Table(f"text file with {rows:,} rows, one pass, thousand rows a second (wall)")
    X, y = zipf(rows, 200_000)
    with tempfile.TemporaryDirectory() as folder:
        light, vowpal = Path(folder, "data.svm"), Path(folder, "data.vw")
        _write(X, y, light, vowpal)

        def mine() -> Any:
            blocks = read_svmlight(light, n_features=X.shape[1])
            return last(OnlineProximal(blocks, penalty=L1(1e-6), shuffle=False)).theta

        begin = time.perf_counter()
        mine()
        first = time.perf_counter() - begin
        seconds = min(first, measure(mine, repeats=2, wall=True, warm=False).seconds)
        peer = _vw(vowpal)
        table.add(f"{light.stat().st_size / 1e6:.0f} MB (vw --ftrl)", rows / seconds / 1e3, rows / peer / 1e3,
                  "at least vw's", seconds <= peer)  # fmt: skip


def _write(X: Any, y: Any, light: Path, vowpal: Path) -> None:
    with open(light, "w") as a, open(vowpal, "w") as b:
        for i in range(X.shape[0]):
            row = X.indices[X.indptr[i] : X.indptr[i + 1]]
            sign = "1" if y[i] > 0 else "-1"
            a.write(sign + " " + " ".join(f"{j + 1}:1" for j in row) + "\n")
            b.write(sign + " | " + " ".join(str(j) for j in row) + "\n")


def _vw(path: Path) -> float:
    import vowpalwabbit

    begin = time.perf_counter()
    options = f"--quiet -d {path} --loss_function logistic --ftrl --l1 1e-6 --noconstant -b 20"
    vowpalwabbit.Workspace(options).finish()
    return time.perf_counter() - begin


PARTS: dict[str, Callable[[], None]] = {
    "first": bench_first,
    "polarity": bench_polarity,
    "auto": bench_auto,
    "dimension": bench_dimension,
    "zipf": bench_zipf,
    "shuffled": bench_shuffled,
    "file": bench_file,
}


def main(part: str | None = None) -> None:
    warnings.filterwarnings("ignore", module="sklearn")
    for name, function in PARTS.items():
        if part in (None, name):
            function()


if __name__ == "__main__":
    main()
