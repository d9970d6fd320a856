"""The parts of experiments, against what they stand for."""

from __future__ import annotations

import numpy as np

from spom.losses import Hinge
from spom.papers.synthetic import half_sparse, pegasos
from spom.solvers import Pegasos


def test_pegasos_for_any_loss_is_pegasos_for_the_hinge() -> None:
    X, y = half_sparse(50, 6, seed=0)
    for project, radius in ((False, np.inf), (True, 0.1**-0.5)):
        ours = [w for _, w in pegasos(X, y, Hinge(), 0.1, radius=radius, epochs=3, every=50, seed=4)]
        theirs = [s.theta for s in Pegasos(X, y, 0.1, project=project, epochs=3, random_state=4)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
