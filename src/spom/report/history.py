"""The history of a run as epochs and paths of block weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from spom.report.contents import Epoch, Number, Paths

# The fields of an epoch, with their current and older names.
_NAMES = {
    "objective": ("objective",),
    "loss": ("loss",),
    "dev": ("dev",),
    "blocks_kept": ("blocks_kept",),
    "nonzeros": ("nonzeros", "nnz"),
    "per_second": ("per_second",),
    "seconds": ("seconds",),
}


def epochs_of(entries: Sequence[dict[str, Any]]) -> list[Epoch]:
    """Return the numbers of each entry; a missing, null or non-finite number is None.

    A history whose epoch count restarts has several passes, which become stages. If the count never increases (calls
    of `partial_fit`), the epochs are numbered consecutively.

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
    """Return the weights of the blocks `names` in the entries with as many weights, of the last such stage."""
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
