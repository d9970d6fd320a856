"""Readers of files, and loaders of public data sets with checksums. Names are imported on first use."""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {
    "Columns": "spom.data.columns",
    "Dataset": "spom.data.loading",
    "SvmlightFile": "spom.data.svmlight",
    "Treebank": "spom.data.treebank",
    "data_folder": "spom.data.fetching",
    "fetch": "spom.data.fetching",
    "iter_conllu": "spom.data.conllu",
    "load": "spom.data.loading",
    "read_conll": "spom.data.columns",
    "read_conll_blocks": "spom.data.columns",
    "read_conllu": "spom.data.conllu",
    "read_items": "spom.data.items",
    "read_svmlight": "spom.data.svmlight",
    "write_conllu": "spom.data.conllu",
}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
