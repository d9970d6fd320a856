"""The whole idea in a minute, on data that needs no download: `make demo`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from spom import OnlineClassifier, ProximalClassifier, ProximalClassifierCV
from spom.penalties import L1, GroupLasso, L1Ball, LInf, Simplex


def seconds(run: Callable[[], Any], repeats: int = 1) -> float:
    """The shortest time of a few runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


# --- 1. learn the weights and the features at once ------------------------------------------------------


def digits(quick: bool) -> None:
    """A group lasso ties a pixel's weights for all ten digits, so a pixel is kept or switched off as a whole."""
    heading("1. Which pixels does it take to read a digit?")
    X, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X / 16, y, test_size=0.3, stratify=y, random_state=0)
    models = {
        "scikit-learn LogisticRegression": LogisticRegression(max_iter=1000),
        "spom GroupLasso(0.001)": ProximalClassifier(penalty=GroupLasso(0.001, groups="rows")),
        "spom GroupLasso(0.003)": ProximalClassifier(penalty=GroupLasso(0.003, groups="rows")),
        "spom GroupLasso(0.01)": ProximalClassifier(penalty=GroupLasso(0.01, groups="rows")),
        "spom GroupLasso(0.04)": ProximalClassifier(penalty=GroupLasso(0.04, groups="rows")),
    }
    if not quick:
        models["strength by cross-validation:"] = None
        models["scikit-learn LogisticRegressionCV"] = LogisticRegressionCV(
            max_iter=1000, cv=3, scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False
        )
        models["spom ProximalClassifierCV"] = ProximalClassifierCV(
            penalty=GroupLasso(groups="rows"), cv=3, n_strengths=15
        )

    print(f"{'':34}{'pixels kept':>12}{'accuracy':>10}{'seconds':>9}")
    for name, model in models.items():
        if model is None:
            print(name)
            continue
        took = seconds(lambda model=model: model.fit(train, y_train))
        kept = f"{np.count_nonzero(np.abs(model.coef_).max(axis=0))} of 64"
        print(f"{name:34}{kept:>12}{np.mean(model.predict(test) == y_test):10.3f}{took:9.2f}")

    print("\nThe pixels that were kept, darker where they weigh more:\n")
    maps = [(name.removeprefix("spom "), m.block_weights_.reshape(8, 8)) for name, m in models.items() if "(0." in name]
    print("   " + " ".join(f"{name:18}" for name, _ in maps))
    for row in range(8):
        print("   " + "   ".join("".join(shade(w) for w in weights[row]) for _, weights in maps))


def shade(weight: float) -> str:
    """Two characters for a pixel."""
    return "· " if weight == 0 else "░░" if weight < 0.02 else "▒▒" if weight < 0.04 else "██"


# --- 2. online, on rows that are sparse and wide --------------------------------------------------------


def wide(rows: int, features: int) -> None:
    """Skipped proximal steps have a closed form, so a row costs what its non-zeros cost."""
    heading(f"2. Online: {features:,} features, {rows:,} sparse rows, 50 features that matter")
    rng = np.random.default_rng(0)
    common = rng.standard_normal((rows, 50)) * (rng.random((rows, 50)) < 0.5)
    y = common @ rng.standard_normal(50) + 0.3 * rng.standard_normal(rows) > 0
    rare = rng.integers(0, features - 50, rows * 60), np.arange(0, rows * 60 + 1, 60)
    noise = sparse.csr_matrix((rng.standard_normal(rows * 60), *rare), shape=(rows, features - 50))
    X = sparse.hstack([sparse.csr_matrix(common), noise], format="csr")
    half = rows // 2

    print(f"{'':34}{'weights kept':>12}{'accuracy':>10}{'seconds':>9}")
    for name, model in (
        ("scikit-learn SGDClassifier(l1)", SGDClassifier(loss="log_loss", penalty="l1", alpha=1e-3, random_state=0)),
        ("spom OnlineClassifier(L1(1e-3))", OnlineClassifier(penalty=L1(1e-3), random_state=0)),
    ):
        took = seconds(lambda model=model: model.fit(X[:half], y[:half]))
        kept = np.count_nonzero(model.coef_)
        print(f"{name:34}{kept:>12,}{model.score(X[half:], y[half:]):10.3f}{took:9.2f}")


# --- 3. the operators underneath ------------------------------------------------------------------------


def sorted_simplex(w: np.ndarray) -> np.ndarray:
    """The textbook projection onto the simplex, by sorting."""
    falling = np.sort(w)[::-1]
    sums = np.cumsum(falling) - 1.0
    last = np.flatnonzero(falling > sums / np.arange(1, w.size + 1))[-1]
    return np.maximum(w - sums[last] / (last + 1), 0.0)


def operators(n: int) -> None:
    """Thresholds by selection, not by sorting: linear time, and exact."""
    heading(f"3. Proximal operators on {n:,} numbers, beside one numpy.sort of them")
    w = np.random.default_rng(0).standard_normal(n)
    out = np.empty_like(w)
    sort = seconds(lambda: np.sort(w), 3)
    print(f"{'':34}{'ms':>12}{'of a sort':>10}")
    print(f"{'numpy.sort':34}{1e3 * sort:12.1f}{1:10.2f}")
    for penalty in (L1(1.0), GroupLasso(1.0, groups=10), LInf(100.0), L1Ball(100.0), Simplex(1.0)):
        took = seconds(lambda penalty=penalty: penalty.prox(w, out=out), 5)
        print(f"{penalty!r:34}{1e3 * took:12.1f}{took / sort:10.2f}")
    apart = np.abs(Simplex(1.0).prox(w) - sorted_simplex(w)).max()
    print(f"\nLargest difference of Simplex to the textbook's sorted form: {apart:.1e}")


def warm_up() -> None:
    """Compile what the demonstration calls, or load it from the cache of an earlier run; a dot for each part."""
    X, y = np.random.default_rng(0).standard_normal((30, 10)), np.arange(30) % 3
    parts = [
        lambda: ProximalClassifier(penalty=GroupLasso(0.01, groups="rows")).fit(X, y),
        lambda: OnlineClassifier(penalty=L1(0.01), batch_size=1).fit(sparse.csr_matrix(X), y > 0),
        *(lambda p=p: p.prox(X[0]) for p in (L1(), GroupLasso(1.0, groups=10), LInf(), L1Ball(), Simplex())),
    ]
    for part in parts:
        part()
        print(".", end="", flush=True)


@threadpool_limits.wrap(limits=1)  # one thread for everybody, so that the times can be compared
def main(quick: bool = False) -> None:
    begin = time.perf_counter()
    print("spom: learn the weights, and at the same time which features they need.")
    print("Compiling; later runs load it: ", end="", flush=True)
    print(f" {seconds(warm_up):.1f} s")
    digits(quick)
    wide(*((2_000, 5_000) if quick else (40_000, 200_000)))
    operators(10_000 if quick else 1_000_000)
    print(f"\nDone in {time.perf_counter() - begin:.0f} s. To try next:")
    print("  another strength, or SparseGroupLasso, in digits() of examples/demo.py")
    print("  make docs, then docs/_build/html/index.html: the guide and every operator")
    print("  make bench: times beside those of other packages")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller data: a few seconds")
    main(**vars(parser.parse_args()))
