"""Block scales: sparse rows with block penalties agree with updates of everything, blocks in no group included."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spom.penalties import ElasticNetMKL, GroupLasso, LqMKL, SparseMKL
from spom.solvers import steps
from spom.solvers.iterate import last
from spom.solvers.linear.online import OnlineProximal

RNG = np.random.default_rng(2)
X = sparse.random(200, 30, 0.15, random_state=1, format="csr")
X.data = RNG.standard_normal(X.nnz)
Y = np.sign(X[:, :10] @ RNG.standard_normal(10) + 0.05)
PARTLY = [-1 if j % 7 == 0 else j % 5 for j in range(30)]


@pytest.mark.parametrize(
    "penalty",
    [
        SparseMKL(0.2, 5),
        SparseMKL(5.0, 5),
        SparseMKL(0.2, PARTLY, weights=[0.5, 1.0, 2.0, 1.0, 0.0]),
        GroupLasso(0.05, 5),
        GroupLasso(0.3, PARTLY),
        GroupLasso(0.05, [[0, 5, 7], [1, 2, 29]]),
        LqMKL(0.1, 5, q=1.5),
        ElasticNetMKL(0.2, 5),
    ],
)
@pytest.mark.parametrize("step", [0.3, steps.InverseSqrt(1.0), steps.AdaGrad(0.5, 0.1), "auto"])
def test_block_scales_agree_with_full_updates(penalty, step):
    runs = [
        OnlineProximal(X, Y, loss="logistic", penalty=penalty, step=step, lazy=lazy, epochs=3, random_state=0,
                       fit_intercept=True)
        for lazy in (True, False)
    ]  # fmt: skip
    scaled, full = (last(run) for run in runs)
    assert runs[0].engine.name == "forward-backward, block scales"
    assert runs[1].engine.name == "forward-backward, eager"
    np.testing.assert_allclose(scaled.theta, full.theta, atol=1e-10)
    assert np.array_equal(scaled.block_norms == 0, full.block_norms == 0)


def test_a_wide_problem_switches_blocks_off_and_resumes():
    wide = sparse.random(400, 20_000, 5e-4, random_state=3, format="csr")
    wide.data[:] = 1.0
    y = np.where(np.asarray(wide[:, :4000].sum(axis=1)).ravel() > 1.5, 1.0, -1.0)
    options = {"penalty": SparseMKL(0.05, 2000), "step": "auto", "epochs": 4, "random_state": 0, "every": 150}
    states = list(OnlineProximal(wide, y, **options))
    assert states[-1].block_norms is not None
    assert states[-1].block_norms.argmax() in (0, 1)
    rest = list(OnlineProximal(wide, y, start=states[3], **options))
    assert rest[-1].theta.tobytes() == states[-1].theta.tobytes()
