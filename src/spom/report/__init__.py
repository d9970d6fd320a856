"""One self-contained HTML page of a run: `write_page(run, path)`. Writing it needs the extra `report`."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "Contents": "spom.report.contents",
    "contents_from_run": "spom.report.runs",
    "contents_of": "spom.report.fitted",
    "write_page": "spom.report.page",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
