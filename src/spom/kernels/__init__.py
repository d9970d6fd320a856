"""Kernels and their Gram matrices. Names are imported on first use."""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "BSpline": "spom.kernels.bspline",
    "DenseGram": "spom.kernels.gram",
    "Function": "spom.kernels.function",
    "Gaussian": "spom.kernels.gaussian",
    "Gram": "spom.kernels.gram",
    "Kernel": "spom.kernels.base",
    "KernelProduct": "spom.kernels.combined",
    "KernelSum": "spom.kernels.combined",
    "Laplacian": "spom.kernels.laplacian",
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
__getattr__, __dir__ = lazy(__name__, _NAMES)
