"""The history of a run, in whichever of its forms, as epochs and paths of block weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from spom.report.contents import Epoch, Number, Paths

# Older or other names of what an epoch tells.
_NAMES = {
    "objective": ("objective",),
    "loss": ("loss",),
    "dev": ("dev",),
    "blocks_kept": ("blocks_kept",),
    "nonzeros": ("nonzeros", "nnz"),
    "per_second": ("per_second",),
    "seconds": ("seconds",),
}


def entries_of(history: Any) -> list[dict[str, Any]]:
    """One dict an epoch, from a list of them, a `History` of an online solver, or a dict of columns.

    >>> entries_of({"k": [1, 2], "objective": [3.0, 2.0]})
    [{'k': 1, 'objective': 3.0}, {'k': 2, 'objective': 2.0}]
    """
    if history is None:
        return []
    if isinstance(history, list):
        return [dict(entry) for entry in history]
    if isinstance(history, dict):
        columns = dict(history)
    else:
        # Here k counts examples; there is an entry an epoch.
        norms = list(history.block_norms)
        kept = [None if row is None else int(np.count_nonzero(row)) for row in norms]
        columns = {
            **history.as_dict(),
            "k": list(range(1, len(history) + 1)),
            "block_norms": norms,
            "blocks_kept": kept,
        }
    columns = {name: values for name, values in columns.items() if isinstance(values, (list, np.ndarray))}
    rounds = max((len(values) for values in columns.values()), default=0)
    return [{name: values[i] for name, values in columns.items() if i < len(values)} for i in range(rounds)]


def epochs_of(entries: Sequence[dict[str, Any]]) -> list[Epoch]:
    """The numbers of each entry; what is missing, null or not finite is None.

    A history whose count restarts is one of several passes, which become stages; one that never counts beyond its
    first epoch (calls of `partial_fit`) is counted through.

    >>> [(e.stage, e.epoch) for e in epochs_of([{"epoch": 1}, {"epoch": 2}, {"epoch": 1}])]
    [('pass 1', 1), ('pass 1', 2), ('pass 2', 1)]
    """
    found = []
    for i, entry in enumerate(entries):
        numbers = {name: _first(entry, keys) for name, keys in _NAMES.items()}
        count = _first(entry, ("epoch", "k"))
        found.append(Epoch(i + 1 if count is None else int(count), **numbers, stage=str(entry.get("stage") or "")))
    pairs = list(pairwise(found))
    anew = [a.stage == b.stage and b.epoch <= a.epoch for a, b in pairs]
    if not any(anew):
        return found
    if all(anew):
        return [replace(epoch, epoch=i + 1) for i, epoch in enumerate(found)]
    passes = [1, *(1 + n for n in accumulate(anew))]
    return [replace(e, stage=f"{e.stage} pass {n}".strip()) for e, n in zip(found, passes, strict=True)]


def _first(entry: dict[str, Any], keys: tuple[str, ...]) -> Number:
    for key in keys:
        value = entry.get(key)
        if value is not None and math.isfinite(float(value)):
            return float(value)
    return None


def paths_of(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> Paths | None:
    """The weights of the blocks `names` along the entries that have as many, in the last stage that does."""
    told: list[tuple[Epoch, list[Any]]] = []
    for epoch, entry in zip(epochs_of(entries), entries, strict=True):
        row = _shares(entry)
        if row is not None and len(row) == len(names):
            told.append((epoch, row))
    told = [(epoch, row) for epoch, row in told if epoch.stage == told[-1][0].stage]
    if not names or not told:
        return None
    rows = [[None if value is None else float(value) for value in row] for _, row in told]
    return Paths(list(names), [epoch.epoch for epoch, _ in told], rows)


def _shares(entry: dict[str, Any]) -> list[Any] | None:
    weights = entry.get("block_weights")
    if weights is None and entry.get("block_norms") is not None:
        norms = np.asarray(entry["block_norms"], dtype=float)
        total = norms.sum()
        weights = norms / total if total > 0 else norms
    return None if weights is None else list(np.asarray(weights, dtype=object))
