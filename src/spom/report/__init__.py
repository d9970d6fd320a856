"""One self-contained HTML page of a run: `write_page(run, path)`. Writing it needs the extra `report`."""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "Contents": "spom.report.contents",
    "contents_from_run": "spom.report.runs",
    "contents_of": "spom.report.fitted",
    "write_page": "spom.report.page",
}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
