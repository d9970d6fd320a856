"""Estimators with scikit-learn's interface. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "DependencyParser": "spom.estimators.parser",
    "ProximalClassifier": "spom.estimators.proximal",
    "ProximalClassifierCV": "spom.estimators.proximal_cv",
    "ProximalRegressor": "spom.estimators.proximal",
    "ProximalRegressorCV": "spom.estimators.proximal_cv",
    "MKLClassifier": "spom.estimators.mkl",
    "OnlineClassifier": "spom.estimators.online",
    "OnlineRegressor": "spom.estimators.online",
    "SequenceTagger": "spom.estimators.tagger",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.estimators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
