"""The outputs that Frank-Wolfe has found, with their weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, check_range, check_restored
from spom.errors import ModelFileError
from spom.solvers.mkl.frank_wolfe.passes import DECODES, Outputs


class Pool:
    """The outputs found for each sequence, with their weights; space for more is allocated on demand."""

    def __init__(self, offsets: Ints, gold: Ints, weight: Floats) -> None:
        self.offsets, self.lengths = offsets, np.diff(offsets)
        self.counts = np.where((self.lengths > 0) & (weight > 0), 1, 0)
        self._lay(np.full(self.counts.size, 4 * DECODES))
        for i in np.flatnonzero(self.counts):
            self.labels[self.places[i] : self.places[i] + self.lengths[i]] = gold[offsets[i] : offsets[i + 1]]
            self.weights[self.slots[i]] = weight[i]

    def _lay(self, space: Ints) -> None:
        self.space = space
        self.slots = np.concatenate([[0], np.cumsum(space)])[:-1]
        self.places = np.concatenate([[0], np.cumsum(space * self.lengths)])[:-1]
        self.labels = np.zeros(int((space * self.lengths).sum()), dtype=np.int32)
        self.weights = np.zeros(int(space.sum()))
        self.ages = np.zeros(int(space.sum()), dtype=np.int64)

    def outputs(self) -> Outputs:
        """Return the outputs as compiled loops take them."""
        return Outputs(self.labels, self.places, self.weights, self.slots, self.counts, self.ages)

    def make_space(self) -> None:
        """Double the space of sequences that may need more in the next pass."""
        full = self.counts + DECODES > self.space
        if full.any():
            self.restore(self.packed(), np.where(full, 2 * self.space, self.space))

    def packed(self) -> dict[str, Any]:
        """Return the outputs, weights and ages in use, one sequence after another, and their numbers per sequence."""
        slot = np.repeat(self.slots, self.counts) + _within(self.counts)
        size = self.counts * self.lengths
        place = np.repeat(self.places, size) + _within(size)
        return {
            "outputs": self.labels[place],
            "weights": self.weights[slot],
            "ages": self.ages[slot],
            "counts": self.counts.copy(),
        }

    def checked(self, packed: dict[str, Any], labels: int) -> dict[str, Any]:
        """Return `packed` of a saved state, after a check that it fits these sequences and labels."""
        counts = check_restored(packed, {"counts": self.counts})["counts"]
        # Every output was found in a pass: an absurd count is damage, and would take much memory.
        if counts.size and (int(counts.min()) < 0 or int(counts.max()) > packed["weights"].size):
            raise ModelFileError("the saved state has counts of outputs that do not fit: it is damaged")
        total, size = int(counts.sum()), int((counts * self.lengths).sum())
        like = {"weights": np.zeros(total), "ages": np.zeros(total, dtype=np.int64)}
        check_restored(packed, like | {"outputs": np.zeros(size, dtype=np.int32)})
        check_range(packed["outputs"], 0, labels, "outputs")
        return packed

    def restore(self, packed: dict[str, Any], space: Ints | None = None) -> None:
        """Restore the outputs from the result of `packed`."""
        self.counts = np.array(packed["counts"], dtype=np.int64)
        self._lay(np.maximum(4 * DECODES, 2 * self.counts) if space is None else space)
        slot = np.repeat(self.slots, self.counts) + _within(self.counts)
        size = self.counts * self.lengths
        self.labels[np.repeat(self.places, size) + _within(size)] = packed["outputs"]
        self.weights[slot], self.ages[slot] = packed["weights"], packed["ages"]


def _within(counts: Ints) -> Ints:
    """Return 0, 1, .., counts[0] - 1, 0, 1, .., counts[1] - 1, and so on."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(ends - counts, counts))
