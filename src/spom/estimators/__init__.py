"""Estimators with scikit-learn's interface. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "DependencyParser": "spom.estimators.parser.parser",
    "Pipeline": "spom.estimators.pipeline.pipeline",
    "ProximalClassifier": "spom.estimators.linear.proximal",
    "ProximalClassifierCV": "spom.estimators.linear.proximal_cv",
    "ProximalRegressor": "spom.estimators.linear.proximal",
    "ProximalRegressorCV": "spom.estimators.linear.proximal_cv",
    "MKLClassifier": "spom.estimators.mkl.classifier",
    "MKLRegressor": "spom.estimators.mkl.regressor",
    "OnlineClassifier": "spom.estimators.linear.online",
    "OnlineRegressor": "spom.estimators.linear.online",
    "SequenceTagger": "spom.estimators.tagger.tagger",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.estimators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
