"""Kernels and their Gram matrices. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "DenseGram": "spom.kernels.gram",
    "Gram": "spom.kernels.gram",
    "RowGram": "spom.kernels.gram",
    "SparseGram": "spom.kernels.gram",
    "as_gram": "spom.kernels.gram",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.kernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
