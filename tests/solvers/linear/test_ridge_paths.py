"""Paths of several parts in one call are the runs of a solver for each part that starts from the state before."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from spom.errors import Diverged
from spom.losses import Logistic, MulticlassLogistic, MulticlassPowerHinge, PowerHinge, Squared
from spom.penalties import SquaredL2
from spom.solvers.iterate import last
from spom.solvers.linear.data import as_rows
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.linear.ridge_paths import RidgePaths

KINDS = (np.asarray, sparse.csr_matrix)
STRENGTHS = (3.0, 1.0, 0.1, 0.01)
LOSSES = [MulticlassLogistic(), MulticlassPowerHinge(2.0), Logistic(), PowerHinge(2.0), Squared()]


def problem(loss, rows, kind):
    rng = np.random.default_rng(rows)
    X = rng.standard_normal((rows, 7)) * (rng.random((rows, 7)) < 0.5)
    y = X @ rng.standard_normal((7, 3)) + rng.standard_normal((rows, 3))
    y = {"class": y.argmax(axis=1), "sign": np.sign(y[:, 0]), "real": y[:, 0]}[loss.target]
    return kind(X), y, rng.random(rows) + 0.5


def parts_of(X, y, weight, held):
    """Return the arguments of `RidgePaths` for these rows held out, each in turn."""
    others = [np.setdiff1d(np.arange(y.size), part) for part in held]
    shares = np.concatenate([weight[part] / weight[part].mean() for part in others])
    every, apart = np.concatenate(others), np.concatenate(held)
    ends, starts = (np.cumsum([0, *map(len, parts)]) for parts in (others, held))
    rows = as_rows(X[every], y[every], shares, "real", mean=False)
    return rows, ends, as_rows(X[apart], y[apart], None, "real"), starts


def one_by_one(data, loss, outputs, intercept, factor):
    """Return the weights of a run for each strength, each from the state of the one before."""
    X, y, weight = data
    state, found = None, []
    for k, strength in enumerate(STRENGTHS):
        solver = OnlineProximal(
            X,
            y,
            loss=loss,
            penalty=SquaredL2(factor * strength),
            epochs=k + 2,
            fit_intercept=intercept,
            sample_weight=weight,
            outputs=outputs,
            random_state=5,
            start=state,
        )
        state = last(solver)
        found.append(state.theta)
    return found


# With 1,500 rows passes are compared on a part of them.
@pytest.mark.parametrize(("loss", "rows", "kind"), list(product(LOSSES, (60, 1500), KINDS)))
@pytest.mark.parametrize("intercept", [True, False])
def test_the_passes_are_those_of_one_run_after_another(loss, rows, kind, intercept):
    X, y, weight = problem(loss, rows, kind)
    outputs, factors = 3 if loss.target == "class" else None, [1, 2]
    held = [np.arange(0, rows, 7), np.arange(3, rows, 5)]
    run = RidgePaths(*parts_of(X, y, weight, held), loss, outputs, intercept=intercept, seed=5)
    expected = []
    for part, factor in zip(held, factors, strict=True):
        rest = np.setdiff1d(np.arange(rows), part)
        thetas = one_by_one((X[rest], y[rest], weight[rest]), loss, outputs, intercept, factor)
        with_one = sparse.csr_matrix(X).toarray()[part]
        with_one = np.column_stack([with_one, np.ones(part.size)]) if intercept else with_one
        expected.append([with_one @ theta for theta in thetas])
    for k, strength in enumerate(STRENGTHS):
        scores = run.scores(strength * np.array(factors, dtype=float), 1 if k else 2)
        np.testing.assert_allclose(scores, np.concatenate([part[k] for part in expected]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), MulticlassLogistic()])
def test_scores_that_are_not_finite_are_an_error(loss):
    X, y, weight = problem(loss, 60, np.asarray)
    rows, ends, apart, starts = parts_of(X, y, weight, [np.arange(10)])
    apart.data[:] = np.inf
    outputs = 3 if loss.target == "class" else None
    run = RidgePaths(rows, ends, apart, starts, loss, outputs, intercept=True, seed=0)
    with pytest.raises(Diverged, match="scale X"):
        run.scores(np.ones(1))
