"""The base of dependency trees: arcs as an (n + 1, n + 1) matrix with the root as head 0, with or without labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.core.registry import Parameters
from spom.decoders.checking import as_labels, as_scores, bad_entry
from spom.decoders.costs import Cost, as_cost


@kernel("int64(float64[:, :, ::1], float64[:, ::1], int64[:, ::1])")
def best_labels(scores: Floats, out: Floats, labels: Ints) -> int:
    """Find the best label of each arc and its score, -inf for no arc; return the position of a bad score, or -1."""
    N, _, k = scores.shape
    for h in range(N):
        for m in range(N):
            top, at = -np.inf, 0
            if m > 0 and m != h:
                for y in range(k):
                    s = scores[h, m, y]
                    if not (-1e300 <= s <= 1e300) and s != -np.inf:
                        return int((h * N + m) * k + y)
                    if s > top:
                        top, at = s, y
            out[h, m], labels[h, m] = top, at
    return -1


@kernel("void(float64[:, :, ::1], float64[:, ::1], float64[:, ::1])")
def label_sums(scores: Floats, top: Floats, out: Floats) -> None:
    """log sum over labels of exp(score) of each arc, given the largest score of each arc."""
    N, _, k = scores.shape
    for h in range(N):
        for m in range(N):
            total = 0.0
            if top[h, m] > -np.inf:
                for y in range(k):
                    total += math.exp(scores[h, m, y] - top[h, m])
            out[h, m] = top[h, m] + math.log(total) if total > 0.0 else -np.inf


@kernel("void(float64[:, :, ::1], float64[:, ::1], float64[:, ::1], float64[:, :, ::1])")
def label_shares(scores: Floats, top: Floats, arcs: Floats, out: Floats) -> None:
    """P(arc) P(label given the arc)."""
    N, _, k = scores.shape
    for h in range(N):
        for m in range(N):
            total = 0.0
            if arcs[h, m] > 0.0:
                for y in range(k):
                    out[h, m, y] = math.exp(scores[h, m, y] - top[h, m])
                    total += out[h, m, y]
            for y in range(k):
                out[h, m, y] = arcs[h, m] * (out[h, m, y] / total) if total > 0.0 else 0.0


@kernel("int64(int64[::1])")
def first_in_cycle(heads: Ints) -> int:
    """Return the first word (from 1) on a cycle of heads, or 0 if there is none."""
    seen = np.zeros(heads.size + 1, dtype=np.int64)
    for start in range(1, heads.size + 1):
        w = start
        while w != 0 and seen[w] == 0:
            seen[w] = start
            w = heads[w - 1]
        if w != 0 and seen[w] == start:
            return start
    return 0


class Trees(Parameters):
    """Trees over words 1..n with the root 0; subclasses define which trees, their search and their sum."""

    def __init__(self, single_root: bool = False) -> None:
        self.single_root = single_root

    def _best(self, arcs: Floats, heads: Ints) -> int:
        raise NotImplementedError  # each kind of tree has its own search

    def _sums(self, arcs: Floats, out: Floats) -> float:
        raise NotImplementedError  # each kind of tree has its own sum

    def best(self, scores: ArrayLike) -> Any:
        """Return the heads (n) of the best tree; (heads, labels) for labelled scores."""
        return self._decode(*self._scores(scores))

    def best_augmented(self, scores: ArrayLike, gold: Any, cost: Cost | None = None) -> Any:
        """Return the tree with the highest score plus cost (default: Hamming); `gold` is as `best` returns it."""
        cube, labelled = self._scores(scores)
        n, k = cube.shape[0] - 1, cube.shape[2]
        heads, labels = self._output(gold, n, k if labelled else None, "gold")
        added = as_cost(cost).of_arcs(heads, labels, k)
        return self._decode(cube + added.reshape(n + 1, n + 1, -1), labelled)

    def marginals(self, scores: ArrayLike) -> tuple[Floats, float]:
        """Return P(head -> modifier), shaped as the scores, and the log partition."""
        cube, labelled = self._scores(scores)
        top, _ = self._arcs(cube)
        out = np.zeros_like(top)
        if top.shape[0] == 1:
            return np.zeros(np.shape(scores)), 0.0
        arcs = top
        if labelled:
            arcs = np.empty_like(top)
            label_sums(cube, top, arcs)
        log_partition = self._sums(arcs, out)
        if log_partition == -np.inf:
            raise self._nothing()
        if not labelled:
            return out, log_partition
        shares = np.zeros_like(cube)
        label_shares(cube, top, out, shares)
        return shares, log_partition

    def parts(self, output: Any, k: int | None = None) -> Floats:
        """Return 1 for each arc of a tree (with its label, of k), 0 elsewhere; `marginals` is its expectation."""
        n = np.size(output if k is None else output[0])
        heads, labels = self._output(output, n, k, "output")
        words = np.arange(1, n + 1)
        counts = np.zeros((n + 1, n + 1) if k is None else (n + 1, n + 1, k))
        counts[(heads, words) if labels is None else (heads, words, labels)] = 1.0
        return counts

    def score(self, scores: ArrayLike, output: Any) -> float:
        """Return the score of a tree: the sum over its arcs."""
        cube, labelled = self._scores(scores)
        n = cube.shape[0] - 1
        heads, labels = self._output(output, n, cube.shape[2] if labelled else None, "output")
        return float(cube[heads, np.arange(1, n + 1), 0 if labels is None else labels].sum())

    def _decode(self, cube: Floats, labelled: bool) -> Any:
        arcs, labels = self._arcs(cube)
        n = arcs.shape[0] - 1
        heads = np.empty(n, dtype=np.int64)
        if n and not self._best(arcs, heads):
            raise self._nothing()
        return (heads, labels[heads, np.arange(1, n + 1)]) if labelled else heads

    @staticmethod
    def _scores(scores: ArrayLike) -> tuple[Floats, bool]:
        """Return the scores as (n + 1, n + 1, k), and whether they came with labels."""
        a = as_scores(scores, "scores", (2, 3))
        if a.shape[0] != a.shape[1] or a.shape[0] == 0:
            wanted = "(n + 1, n + 1) or (n + 1, n + 1, labels), the root first"
            raise ValueError(f"scores must have shape {wanted}; they have {a.shape}")
        if a.ndim == 3 and a.shape[2] == 0:
            raise ValueError("scores must have at least one label")
        return a.reshape(a.shape[0], a.shape[0], -1), a.ndim == 3

    @staticmethod
    def _arcs(cube: Floats) -> tuple[Floats, Ints]:
        """Return the best score and label of each arc; scores on the diagonal and into the root become -inf."""
        top, labels = np.empty(cube.shape[:2]), np.empty(cube.shape[:2], dtype=np.int64)
        bad = best_labels(cube, top, labels)
        if bad >= 0:
            at = tuple(int(i) for i in np.unravel_index(bad, cube.shape))
            raise bad_entry("scores", at if cube.shape[2] > 1 else at[:2], float(cube[at]))
        return top, labels

    @staticmethod
    def _output(output: Any, n: int, k: int | None, name: str) -> tuple[Ints, Ints | None]:
        """Return checked heads, and labels if k, their number, is given."""
        if k is not None and not (isinstance(output, tuple | list) and len(output) == 2):
            raise ValueError(f"{name} must be (heads, labels) for labelled scores")
        heads = as_labels(output if k is None else output[0], (n,), n + 1, f"{name} heads")
        word = first_in_cycle(heads)
        if word:
            raise ValueError(f"{name} must be a tree: word {word} is in a cycle of heads")
        return heads, None if k is None else as_labels(output[1], (n,), k, f"{name} labels")

    def _nothing(self) -> ValueError:
        kind = " with a single root" if self.single_root else ""
        return ValueError(f"no tree{kind} is admissible: scores of -inf forbid all; allow more arcs")
