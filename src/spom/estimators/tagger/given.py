"""Labels that are known before decoding: all others of those tokens are ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import DataError


def forbid_others(unary: Floats, given: Sequence[Any], classes: Sequence[Any], offsets: Ints) -> None:
    """Set the score of every label but the given one to -inf, in place; None leaves a token free.

    >>> scores = np.zeros((2, 2))
    >>> forbid_others(scores, [["N", None]], ["D", "N"], np.array([0, 2]))
    >>> scores
    array([[-inf,   0.],
           [  0.,   0.]])
    """
    if len(given) != offsets.size - 1:
        raise DataError(f"given has {len(given)} sentences and X has {offsets.size - 1}: there must be labels for each")
    place = {label: c for c, label in enumerate(classes)}
    for i, labels in enumerate(given):
        first, last = int(offsets[i]), int(offsets[i + 1])
        if len(labels) != last - first:
            raise DataError(
                f"given, sentence {i}: {len(labels)} labels for {last - first} tokens; None leaves one free"
            )
        for t, label in enumerate(labels):
            if label is None:
                continue
            if label not in place:
                known = ", ".join(map(str, classes[:10]))
                raise DataError(f"given, sentence {i}, token {t}: the model has no label {label!r}; it has {known}")
            kept = unary[first + t, place[label]]
            unary[first + t] = -np.inf
            unary[first + t, place[label]] = kept
