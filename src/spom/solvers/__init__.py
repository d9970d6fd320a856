"""Solvers: each an iterator of states. `iterate` has the combinators over any of them.

Names are imported on first use, so that looking at one solver does not load the others.
"""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "VarianceReduced": "spom.solvers.linear.variance_reduced",
    "Subgradient": "spom.solvers.linear.baselines",
    "Pegasos": "spom.solvers.linear.baselines",
    "BatchProximal": "spom.solvers.batch.proximal_gradient",
    "FrankWolfeMKL": "spom.solvers.mkl.frank_wolfe.solver",
    "GeneralProximal": "spom.solvers.batch.general_proximal",
    "KernelRegression": "spom.solvers.mkl.regression",
    "LinearSmooth": "spom.solvers.batch.datafit",
    "OnlineProximal": "spom.solvers.linear.online",
    "QuasiNewton": "spom.solvers.batch.quasi_newton",
    "WorkingSet": "spom.solvers.batch.working_set.solver",
    "WrapperMKL": "spom.solvers.mkl.wrapper",
}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
