"""Estimators with scikit-learn's interface. Names are imported on first use."""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
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
__getattr__, __dir__ = lazy(__name__, _NAMES)
