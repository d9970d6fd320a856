"""spom: learn sparse, structured and multiple-kernel predictors online.

Public names are imported on first use: `import spom` loads no numpy and compiles nothing.
"""

from __future__ import annotations

from spom.core.lazy import lazy

__version__ = "0.1.0"

_PACKAGES = (
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
_NAMES = {
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

__all__ = ["__version__", *_PACKAGES, *_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES, _PACKAGES)
