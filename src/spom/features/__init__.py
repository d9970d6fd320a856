"""Token columns become integer codes, templates, and ids of features with their blocks. Names come on first use."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "Blocks": "spom.features.rows",
    "DictFeatures": "spom.features.dicts",
    "MatrixFeatures": "spom.features.matrices",
    "Rows": "spom.features.rows",
    "Template": "spom.features.atoms",
    "Templates": "spom.features.templates",
    "Vocabulary": "spom.features.vocabulary",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.features' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
