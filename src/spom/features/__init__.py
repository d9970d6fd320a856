"""Token columns become integer codes, templates, and ids of features with their blocks. Names come on first use."""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "Blocks": "spom.features.rows",
    "DictFeatures": "spom.features.dicts",
    "MatrixFeatures": "spom.features.matrices",
    "Rows": "spom.features.rows",
    "Template": "spom.features.streams",
    "Templates": "spom.features.templates",
    "Vocabulary": "spom.features.vocabulary",
}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
