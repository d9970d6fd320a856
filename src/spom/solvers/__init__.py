"""Solvers: each an iterator of states. `iterate` has the combinators over any of them.

Names are imported on first use, so that looking at one solver does not load the others.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
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
    "WrapperMKL": "spom.solvers.mkl.wrapper.solver",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.solvers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
