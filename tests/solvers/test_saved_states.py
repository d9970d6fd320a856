"""Saved arrays of linear and kernel solvers are checked before compiled loops see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spom.core.state import State
from spom.errors import SpomError
from spom.losses import Logistic
from spom.penalties import L1
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels
from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.problem import KernelProblem

X = np.random.default_rng(0).normal(size=(30, 5))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def linear(start: State | None, **more: Any) -> State:
    solver = OnlineProximal(
        X, Y, loss=Logistic(), penalty=L1(0.01), epochs=2 if start is None else 3, start=start, **more
    )
    return list(solver)[-1]


def kernels(solver: Any) -> Callable[[State | None], State]:
    problem = KernelProblem.of([X @ X.T, (X @ X.T + 1.0) ** 2], y=(Y > 0).astype(int))

    def run(start: State | None) -> State:
        count = {"max_epochs": 6, "passes": 2, "tol": 1e-12} if solver is FrankWolfeMKL else {"epochs": 2}
        if start is not None:
            count |= {"max_epochs": 8} if solver is FrankWolfeMKL else {"epochs": 3}
        return list(solver(problem, **count, start=start))[-1]

    return run


RUNS: dict[str, Callable[[State | None], State]] = {
    "auto": lambda start: linear(start),
    "lazy": lambda start: linear(start, step="adagrad"),
    "eager": lambda start: linear(start, step="adagrad", lazy=False),
    "dual averaging": lambda start: linear(start, step="adagrad", update="dual-averaging"),
    "kernels online": kernels(OnlineKernels),
    "kernels dual averaging": kernels(DualAveragingKernels),
    "kernels frank-wolfe": kernels(FrankWolfeMKL),
}


def damages(a: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Another shape, another dtype, numbers that are not finite, indices that nobody has."""
    found = [np.zeros((2, *a.shape), a.dtype), np.zeros(a.size + 1, a.dtype), a.astype(np.complex64)]
    if a.size and a.dtype.kind == "f":
        found.append(np.full_like(a, np.nan))
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_damaged_state_is_refused(name: str) -> None:
    run = RUNS[name]
    state = run(None)
    run(state)
    # What solvers tell of a run, and do not read again.
    told = ("gap", "relative_gap", "residual", "scale", "transition") if name.startswith("kernels") else ()
    for key, array in state.internal.items():
        if key in told:
            continue
        for bad in damages(array):
            if key == "engine.sample" and bad.ndim == 1 and bad.dtype == array.dtype:
                # Any number of rows can be a sample: what they must be is tested below.
                continue
            with pytest.raises(SpomError):
                run(replace(state, internal={**state.internal, key: bad}))


@pytest.mark.parametrize("key", ["engine.sample", "engine.slopes", "engine.metric"])
def test_places_that_no_row_or_feature_has_are_refused(key: str) -> None:
    state = linear(None)
    array = state.internal[key]
    bad = np.full_like(array, 10**6) if key == "engine.sample" else np.zeros(array.size - 1)
    with pytest.raises(SpomError):
        linear(replace(state, internal={**state.internal, key: bad}))


@pytest.mark.parametrize("key", ["pool.outputs", "pool.counts"])
def test_outputs_that_are_no_labels_are_refused(key: str) -> None:
    run = RUNS["kernels frank-wolfe"]
    state = run(None)
    for number in (-1, 10**6):
        bad = np.full_like(state.internal[key], number)
        with pytest.raises(SpomError):
            run(replace(state, internal={**state.internal, key: bad}))


def test_a_negative_number_of_epochs_is_refused() -> None:
    state = linear(None)
    with pytest.raises(SpomError, match="has made -5 epochs"):
        linear(replace(state, internal={**state.internal, "epoch": np.array(-5)}))
