"""Model files and run records: one safetensors file per model, written atomically, loaded without running code."""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "FORMAT": "spom.core.container",
    "Header": "spom.core.container",
    "check_indices": "spom.core.container",
    "check_offsets": "spom.core.container",
    "check_shape": "spom.core.container",
    "load_model": "spom.models.loading",
    "read_header": "spom.core.container",
    "read_run": "spom.models.run",
    "replacing": "spom.core.atomic",
    "save_model": "spom.models.loading",
    "write_run": "spom.models.run",
}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
