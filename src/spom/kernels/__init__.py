"""Kernels and their Gram matrices. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "BSpline": "spom.kernels.bspline",
    "DenseGram": "spom.kernels.gram",
    "Function": "spom.kernels.function",
    "Gaussian": "spom.kernels.gaussian",
    "Gram": "spom.kernels.gram",
    "Kernel": "spom.kernels.base",
    "KernelProduct": "spom.kernels.combined",
    "KernelSum": "spom.kernels.combined",
    "Linear": "spom.kernels.linear",
    "Normalized": "spom.kernels.combined",
    "Nystroem": "spom.kernels.features",
    "Polynomial": "spom.kernels.polynomial",
    "Precomputed": "spom.kernels.precomputed",
    "RandomFourier": "spom.kernels.features",
    "RowGram": "spom.kernels.gram",
    "SparseGram": "spom.kernels.gram",
    "as_gram": "spom.kernels.gram",
    "build": "spom.kernels.building",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.kernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
