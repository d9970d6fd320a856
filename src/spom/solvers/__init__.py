"""Solvers: each an iterator of states. `iterate` has the combinators over any of them.

Names are imported on first use, so that looking at one solver does not load the others.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "VarianceReduced": "spom.solvers.variance_reduced",
    "Subgradient": "spom.solvers.baselines",
    "Pegasos": "spom.solvers.baselines",
    "BatchProximal": "spom.solvers.batch",
    "FrankWolfeMKL": "spom.solvers.mkl.frank_wolfe",
    "GeneralProximal": "spom.solvers.general",
    "LinearSmooth": "spom.solvers.smooth",
    "OnlineProximal": "spom.solvers.online",
    "WorkingSet": "spom.solvers.working_set",
    "WrapperMKL": "spom.solvers.mkl.wrapper",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.solvers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
