"""spom: learn sparse, structured and multiple-kernel predictors online.

Public names are imported on first use: `import spom` loads no numpy and compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "core",
    "data",
    "decoders",
    "errors",
    "estimators",
    "features",
    "kernels",
    "losses",
    "mirror",
    "models",
    "norms",
    "papers",
    "penalties",
    "plot",
    "report",
    "scale",
    "solvers",
)
_NAMES: dict[str, str] = {
    "DependencyParser": "spom.estimators",
    "Pipeline": "spom.estimators",
    "ProximalClassifier": "spom.estimators",
    "ProximalClassifierCV": "spom.estimators",
    "ProximalRegressor": "spom.estimators",
    "ProximalRegressorCV": "spom.estimators",
    "MKLClassifier": "spom.estimators",
    "MKLRegressor": "spom.estimators",
    "OnlineClassifier": "spom.estimators",
    "OnlineRegressor": "spom.estimators",
    "SequenceTagger": "spom.estimators",
    "load_model": "spom.models",
}

__all__ = ["__version__", *_ROOMS, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"spom.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
