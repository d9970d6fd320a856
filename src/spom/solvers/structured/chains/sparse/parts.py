"""Parts that labels share, such as a part of speech: they have weights of their own."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Singles
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Ids


class Parts(NamedTuple):
    """Label y has the parts rows[y], which increase and end with -1; parts are numbered after the labels.

    The score of a label is its own plus those of its parts. `total` is the number of labels and parts; they are
    the first places of an array of scores. Place total + n has the sum of two earlier places, sums[n]; that of all
    parts of label y is at place ends[y]. Labels whose first parts are the same share their sums.
    """

    rows: Annotated[Ids, "int32[:, ::1]"]
    sums: Annotated[Ids, "int32[:, ::1]"]
    ends: Annotated[Ids, "int32[::1]"]
    total: Annotated[int, "int64"]

    @classmethod
    def of(cls, rows: Any, labels: int) -> Parts:
        """Return the parts of each label, one row per label; none by default.

        >>> Parts.of([[2, 4], [2, 5]], 2).sums.tolist(), Parts.of([[2, -1], [2, 3]], 2).ends.tolist()
        ([[2, 4], [2, 5]], [2, 4])
        """
        found = np.zeros((labels, 0)) if rows is None else np.asarray(rows)
        rows = np.ascontiguousarray(found, dtype=np.int32)
        total = max(labels, int(rows.max(initial=-1)) + 1)
        place: dict[tuple[int, int], int] = {}
        ends = [_end([p for p in row if p != -1], labels, total, place) for row in rows.tolist() if row]
        if rows.shape[0] != labels:
            raise ValueError(f"parts must have a row for each of {labels} labels; there are {rows.shape[0]}")
        sums = np.array(list(place), dtype=np.int32).reshape(-1, 2)
        return cls(rows, sums, np.array(ends, dtype=np.int32), total)

    @property
    def places(self) -> int:
        """The size of an array of scores with room for sums."""
        return self.total + len(self.sums)


def _end(row: list[int], labels: int, total: int, place: dict[tuple[int, int], int]) -> int:
    """Return the place of the sum of these parts; new sums are added to `place`."""
    if not row or row[0] < labels or any(a >= b for a, b in pairwise(row)):
        raise ValueError(f"parts of a label must increase from {labels} on, before any -1; found {row}")
    end = row[0]
    for part in row[1:]:
        end = place.setdefault((end, part), total + len(place))
    return end


@kernel("void(Parts, float32[::1])")
def add_parts(parts: Parts, scores: Singles) -> None:
    """Add to each label's score those of its parts."""
    sums, ends = parts.sums, parts.ends
    for n in range(sums.shape[0]):
        scores[parts.total + n] = scores[np.uint64(sums[n, 0])] + scores[np.uint64(sums[n, 1])]
    for y in range(ends.size):
        scores[y] += scores[np.uint64(ends[y])]


@kernel("int64(Parts, int64, int64)")
def unshared(parts: Parts, a: int, b: int) -> int:
    """Count the parts that only one of two labels has."""
    rows, width = parts.rows, parts.rows.shape[1]
    i, j, found = 0, 0, 0
    while True:
        p = rows[a, i] if i < width else np.int32(-1)
        q = rows[b, j] if j < width else np.int32(-1)
        if p < 0 and q < 0:
            return found
        if q < 0 or 0 <= p < q:
            i, found = i + 1, found + 1
        elif p < 0 or q < p:
            j, found = j + 1, found + 1
        else:
            i, j = i + 1, j + 1
