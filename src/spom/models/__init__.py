"""Model files and run records: one safetensors file a model, written atomically, loaded without running code."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "FORMAT": "spom.core.container",
    "Header": "spom.core.container",
    "check_indices": "spom.models.checks",
    "check_offsets": "spom.models.checks",
    "check_shape": "spom.models.checks",
    "load_model": "spom.models.loading",
    "read_header": "spom.core.container",
    "read_run": "spom.models.run",
    "replacing": "spom.core.atomic",
    "save_model": "spom.models.loading",
    "write_run": "spom.models.run",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
