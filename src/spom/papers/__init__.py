"""All tables and figures of the four papers as a command: `spom reproduce ID`.

Each file holds one experiment: the settings of the full, the quick and the tiny run, the computation, the table that
compares the paper's numbers with ours, and the figure. `list_experiments` lists them without importing any.
"""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "Experiment": "spom.papers.experiment",
    "Result": "spom.papers.result",
    "Row": "spom.papers.result",
    "draw": "spom.papers.running",
    "list_experiments": "spom.papers.catalogue",
    "run": "spom.papers.running",
    "run_all": "spom.papers.running",
}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
