"""Several scores: rows that are brought up to date late agree with updates of all rows, and with a loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spom.core.state import State
from spom.errors import Unsupported
from spom.penalties import L1, ElasticNet, GroupLasso, GroupLInf, LInf, SparseGroupLasso, SquaredL2, Zero
from spom.solvers import VarianceReduced, steps
from spom.solvers.iterate import last
from spom.solvers.linear.lazy_multiclass import shrink_largest
from spom.solvers.linear.online import OnlineProximal

RNG = np.random.default_rng(1)
X = sparse.random(120, 20, 0.2, random_state=0, format="csr")
X.data = RNG.standard_normal(X.nnz)
Y = np.argmax(X @ RNG.standard_normal((20, 4)) + 0.1 * RNG.standard_normal((120, 4)), axis=1)
WEIGHTS = np.linspace(0.5, 2.0, 20)


@pytest.mark.parametrize(
    "penalty",
    [
        Zero(),
        L1(0.02),
        SquaredL2(0.1),
        ElasticNet(0.05),
        GroupLasso(0.05, "rows"),
        GroupLasso(0.05, "rows", weights=WEIGHTS),
        GroupLInf(0.05, "rows"),
        GroupLInf(0.05, "rows", weights=WEIGHTS),
    ],
)
@pytest.mark.parametrize("loss", ["multiclass-logistic", "multiclass-hinge"])
@pytest.mark.parametrize("step", [0.3, steps.InverseSqrt(1.0)])
def test_lazy_and_eager_rows_agree(penalty, loss, step):
    runs = [
        OnlineProximal(X, Y, loss=loss, penalty=penalty, step=step, lazy=lazy, epochs=3, fit_intercept=True,
                       random_state=0)
        for lazy in (True, False)
    ]  # fmt: skip
    lazy, eager = (last(run).theta for run in runs)
    assert runs[0].engine.name == "forward-backward, lazy rows"
    assert runs[1].engine.name == "forward-backward, eager"
    np.testing.assert_allclose(lazy, eager, atol=1e-10)
    assert np.array_equal(lazy == 0, eager == 0)


def softmax_slope(a, c):
    d = np.exp(a - a.max())
    d /= d.sum()
    d[c] -= 1
    return d


@pytest.mark.parametrize("penalty", [GroupLasso(0.03, "rows"), GroupLInf(0.03, "rows")])
@pytest.mark.parametrize("rule", ["adagrad", "auto"])
def test_adaptive_rows_against_a_loop(penalty, rule):
    step = steps.AdaGrad(0.5, 0.1) if rule == "adagrad" else "auto"
    ours = last(
        OnlineProximal(X, Y, loss="multiclass-logistic", penalty=penalty, step=step, shuffle=False,
                       update="forward-backward")
    ).theta  # fmt: skip
    A = X.toarray()
    W, V, R = np.zeros((20, 4)), np.zeros(20), np.zeros(20)
    for x, c in zip(A, Y, strict=True):
        g = np.outer(x, softmax_slope(x @ W, c))
        for j in range(20):
            if x[j] != 0:
                V[j] += g[j] @ g[j]
                R[j] = max(R[j] or 0.01 / abs(x[j]), np.linalg.norm(W[j]))
            if V[j] == 0:
                continue
            h = 0.5 / (0.1 + np.sqrt(V[j])) if rule == "adagrad" else R[j] / np.sqrt(V[j])
            w = W[j] - h * g[j]
            if isinstance(penalty, GroupLasso):
                n = np.linalg.norm(w)
                W[j] = w * max(0.0, 1 - 0.03 * h / n) if n > 0 else w
            else:
                W[j] = LInf(0.03).prox(w, h)
    np.testing.assert_allclose(ours, W, atol=1e-10)


@pytest.mark.parametrize(
    "penalty",
    [L1(0.01), SquaredL2(0.1), ElasticNet(0.02), GroupLasso(0.03, "rows"), GroupLInf(0.03, "rows", weights=WEIGHTS)],
)
def test_auto_comes_to_the_optimum_of_several_scores(penalty):
    options = {"loss": "multiclass-logistic", "penalty": penalty, "fit_intercept": True, "random_state": 0}
    solver = OnlineProximal(X, Y, epochs=300, objective=True, **options)
    states = list(solver)
    assert solver.engine.name == f"proximal-point, {'ridge' if isinstance(penalty, SquaredL2) else 'rows'}"
    best = last(VarianceReduced(X, Y, tol=1e-7, epochs=3000, **options))
    assert states[-1].objective == pytest.approx(best.objective, abs=1e-5)
    assert states[9].objective <= 1.05 * best.objective


def test_rows_of_proximal_points_resume_to_the_same_bits(tmp_path):
    options = {"loss": "multiclass-logistic", "penalty": GroupLasso(0.02, "rows"), "epochs": 6, "random_state": 4}
    whole = list(OnlineProximal(X, Y, fit_intercept=True, **options))
    whole[2].save(tmp_path / "state.npz")
    rest = list(OnlineProximal(X, Y, fit_intercept=True, start=State.load(tmp_path / "state.npz"), **options))
    assert rest[-1].theta.tobytes() == whole[-1].theta.tobytes()


@pytest.mark.parametrize("cut", [0.0, 1e-18, 1e-16, 1e-3, 0.7])
def test_rows_of_equal_entries_are_capped_in_spite_of_rounding(cut):
    # Caps that round up to the entries, or below those that were out already, once made this go on for ever.
    rng = np.random.default_rng(0)
    rows = [np.full(4, 0.3), np.full(7, 0.1), np.array([0.1, -0.1, 0.1, 0.3]), np.zeros(3)]
    rows += [np.repeat(rng.random(3) * 0.1, 3) for _ in range(200)]
    for row in rows:
        found = row[None].copy()
        shrink_largest(found, 0, cut)
        np.testing.assert_allclose(found[0], LInf(cut).prox(row), rtol=1e-12, atol=1e-15)


def test_zero_rows_come_out_together():
    state = last(
        OnlineProximal(X, Y, loss="multiclass-logistic", penalty=GroupLasso(0.08, "rows"), step=0.3, epochs=20,
                       update="dual-averaging", random_state=0)
    )  # fmt: skip
    zero = (state.theta == 0).all(axis=1)
    assert 0 < zero.sum() < 20
    np.testing.assert_array_equal((state.theta == 0).any(axis=1), zero)


def test_wide_rows_without_a_rule_are_refused_and_classes_are_checked():
    wide = sparse.random(60, 30_000, 1e-4, random_state=0, format="csr")
    y = np.arange(60) % 3
    assert last(OnlineProximal(wide, y, loss="multiclass-hinge", penalty=GroupLasso(0.1, "rows"))).k == 60
    with pytest.raises(Unsupported, match="no lazy update"):
        list(OnlineProximal(wide, y, loss="multiclass-hinge", penalty=SparseGroupLasso(0.1, "rows")))
    with pytest.raises(ValueError, match="pass all classes"):
        list(OnlineProximal(X, Y, loss="multiclass-hinge", outputs=2))
