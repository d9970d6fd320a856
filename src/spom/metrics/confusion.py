"""Confusion counts: how often each label was predicted as each other one."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.errors import DataError


def confusion_counts(gold: Any, predicted: Any) -> tuple[list[Any], Ints]:
    """Return (the sorted labels, counts of gold labels as rows against predicted labels as columns).

    Labels are given per row, as sequences of labels, or as the last column of `Columns`.

    >>> confusion_counts([["a", "b"], ["b"]], [["a", "a"], ["b"]])
    (['a', 'b'], array([[1, 0],
           [1, 1]]))
    """
    flat = [_flat(labels) for labels in (gold, predicted)]
    if len(flat[0]) != len(flat[1]):
        raise DataError(f"there are {len(flat[0])} gold labels and {len(flat[1])} predicted ones")
    labels = sorted({*flat[0], *flat[1]})
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, tuple([place[label] for label in part] for part in flat), 1)
    return labels, counts


def _flat(labels: Any) -> list[Any]:
    if hasattr(labels, "strings"):
        labels = labels.strings(-1)
    found = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if found and isinstance(found[0], (list, tuple, np.ndarray)):
        found = [label for sequence in found for label in sequence]
    return [label.item() if isinstance(label, np.generic) else label for label in found]
