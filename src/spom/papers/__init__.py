"""Every table and figure of the four papers as a command: `spom reproduce ID`.

One file holds one experiment: the settings of the full and of the quick run, what is computed, the table with the
paper's figure beside ours, and the drawing. `list_experiments` knows them all without importing one.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES: dict[str, str] = {
    "Experiment": "spom.papers.experiment",
    "Result": "spom.papers.result",
    "Row": "spom.papers.result",
    "draw": "spom.papers.running",
    "list_experiments": "spom.papers.catalogue",
    "run": "spom.papers.running",
    "run_all": "spom.papers.running",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'spom.papers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
