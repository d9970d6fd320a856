"""Token columns as integer codes, templates, and feature ids with their blocks. Names are imported on first use."""

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
