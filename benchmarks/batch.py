"""Batch solvers compared with celer, skglm, adelie, scikit-learn, liblinear and spams, one thread, equal accuracy.

Tolerances mean different things in different tools. So each peer runs with the loosest power of ten at which the
duality gap of its result, computed here, is small enough. The time is that of this run alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import Table, data_folder, measure, race
from benchmarks.group_lasso import groups
from spom.data import load
from spom.losses import Logistic, MulticlassLogistic, Squared
from spom.penalties import L1, GroupLasso
from spom.solvers import WorkingSet
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.iterate import halt, last, small

MNIST_OPTIMUM = 0.43389619


def lasso_gap(A: Any, b: Any, w: Any, strength: float) -> float:
    """Return the duality gap of 1/(2n) norm(A w - b)^2 + strength norm1(w)."""
    n, r = b.size, b - A @ w
    dual = r / n * min(1.0, strength / max(np.abs(A.T @ r).max() / n, 1e-300))
    return float(r @ r / (2 * n) + strength * np.abs(w).sum() - (dual @ b - n / 2 * dual @ dual))


def loosest(run: Callable[[float], Any], gap: Callable[[Any], float], goal: float) -> Callable[[], Any]:
    """Return the run with the loosest tolerance whose result has at most this gap."""
    for tol in 10.0 ** -np.arange(2, 15):
        if gap(run(tol)) <= goal:
            return lambda tol=tol: run(tol)
    raise RuntimeError(f"no tolerance reaches a gap of {goal}")


def ours(A: Any, b: Any, loss: Any, penalty: Any, goal: float) -> Any:
    """Run our working-set solver to this duality gap."""
    return last(halt(WorkingSet(LinearSmooth(A, b, loss), penalty), small("gap", goal))).theta


def lasso() -> None:
    """Run the lasso of section 5.1 of the GPM paper."""
    from celer import Lasso as Celer
    from skglm import Lasso as Skglm
    from sklearn.linear_model import Lasso

    n, p, sigma, goal = 400, 1000, 1e-4, 1e-9
    strength = sigma * np.sqrt(np.log(p) / n)
    table = Table("lasso, n 400, p 1000, strength 1.3e-5, to a duality gap of 1e-9 (seconds)")
    for s in (10, 50, 100):
        rng = np.random.default_rng(s)
        x = np.zeros(p)
        x[rng.choice(p, s, replace=False)] = rng.standard_normal(s)
        A = np.asfortranarray(rng.standard_normal((n, p)))
        b = A @ (x / np.abs(x).sum()) + sigma * rng.standard_normal(n)

        def sklearn(tol: float, A: Any = A, b: Any = b) -> Any:
            return Lasso(strength, fit_intercept=False, tol=tol, max_iter=10**6).fit(A, b).coef_

        def celer(tol: float, A: Any = A, b: Any = b) -> Any:
            return Celer(strength, fit_intercept=False, tol=tol).fit(A, b).coef_

        def gap(w: Any, A: Any = A, b: Any = b) -> float:
            return lasso_gap(A, b, w, strength)

        def mine(A: Any = A, b: Any = b) -> Any:
            return ours(A, b, Squared(), L1(strength), goal)

        assert gap(mine()) <= goal * (1 + 1e-6)
        us, them = race(mine, loosest(celer, gap, goal), repeats=20)
        scikit = measure(loosest(sklearn, gap, goal), repeats=3)
        reached = us.seconds <= 1.5 * them.seconds
        table.add(f"s = {s}, celer", us.seconds, them.seconds, "at most 1.5 times celer's", reached)

        def skglm(tol: float, A: Any = A, b: Any = b) -> Any:
            return Skglm(strength, fit_intercept=False, tol=tol, max_iter=1000).fit(A, b).coef_

        us, them = race(mine, loosest(skglm, gap, goal), repeats=20)
        table.add(f"s = {s}, skglm", us.seconds, them.seconds, "at most skglm's", us.seconds <= them.seconds)
        reached = 10 * us.seconds <= scikit.seconds
        table.add(f"s = {s}, scikit-learn", us.seconds, scikit.seconds, "10 times faster", reached)


def mnist() -> None:
    """Run ten classes with the rows of the weights as groups; spams is the only peer that has this."""
    import spams

    if data_folder() is None:
        return
    X, y = load("mnist").part("train")
    # Exactly k / 255, as for the stored optimum; the loader returns single precision.
    X, y = np.round(255.0 * X[:10_000].astype(np.float64)) / 255.0, y[:10_000]
    f = LinearSmooth(X, y, MulticlassLogistic(), outputs=10)
    penalty, goal = GroupLasso(1e-3, "rows"), MNIST_OPTIMUM + 1e-4

    def mine() -> Any:
        problem = LinearSmooth(X, y, MulticlassLogistic(), outputs=10)
        return last(halt(WorkingSet(problem, penalty), lambda state: state.objective <= goal))

    us = measure(mine, repeats=2)
    A, labels = np.asfortranarray(X), np.asfortranarray(y[:, None].astype(np.float64))
    start = np.zeros((X.shape[1], 10), order="F")
    options = {"loss": "multi-logistic", "regul": "l1l2", "lambda1": 1e-3, "numThreads": 1, "tol": 1e-12}
    for rounds in (300, 350, 400, 500, 800, 1600):
        begin = time.thread_time()
        W = spams.fistaFlat(labels, A, start, False, it0=10**6, max_it=rounds, intercept=False, **options)
        seconds = time.thread_time() - begin
        objective = f.value(np.ascontiguousarray(W)) + penalty.value(np.ascontiguousarray(W))
        print(f"  spams, {rounds} rounds: {objective:.6f} in {seconds:.1f} s", flush=True)
        if objective <= goal:
            break
    table = Table("MNIST, first 10,000, multinomial, l1/l2 rows, strength 1e-3, to 1e-4 of .43389619 (seconds)")
    table.add("spams FISTA", us.seconds, seconds, "10 times faster", 10 * us.seconds <= seconds)


def polarity() -> None:
    """Run l1-logistic on text, against liblinear at its default tolerance."""
    from sklearn.linear_model import LogisticRegression

    if data_folder() is None:
        return
    X, signs = load("polarity").part("train")
    X, signs, n, strength = X.tocsr(), signs.astype(np.float64), X.shape[0], 1e-4
    f = LinearSmooth(X, signs, Logistic())
    peer = LogisticRegression(C=1 / (n * strength), l1_ratio=1, solver="liblinear", fit_intercept=False)

    def liblinear() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return peer.fit(X, signs).coef_[0]

    def value(w: Any) -> float:
        return f.value(w) + strength * float(np.abs(w).sum())

    goal = value(liblinear())

    def mine() -> Any:
        states = WorkingSet(LinearSmooth(X, signs, Logistic()), L1(strength))
        return last(halt(states, lambda state: state.objective <= goal)).theta

    us, them = race(mine, liblinear, repeats=5)
    table = Table(f"sentence polarity, {n} x {X.shape[1]}, l1-logistic, strength 1e-4, to liblinear's objective (s)")
    table.add(f"liblinear, F = {goal:.6f}", us.seconds, them.seconds, "at most liblinear's", us.seconds <= them.seconds)


PARTS = {"lasso": lasso, "groups": groups, "mnist": mnist, "polarity": polarity}


def main(part: str = "") -> None:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        for name, function in PARTS.items():
            if part in ("", name):
                function()


if __name__ == "__main__":
    main()
