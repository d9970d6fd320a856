"""Weights that score arcs: the result of learning, used for parsing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, Singles, aligned_singles, read_only
from spom.features.arc_spaces import AT, LENGTHS, START, WIDE, Shorts
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates
from spom.solvers.structured.trees.scoring import parse_sentences
from spom.solvers.structured.trees.space import Layout, corpus_of, layout_of


class Entries(NamedTuple):
    """Non-zero weights: their places, in increasing order, and values, as stored in a model file."""

    places: Ints
    values: Singles


@dataclass(frozen=True)
class ArcModel:
    """Templates, their weights, and the filter of arcs. It has no mutable state, so threads may share it.

    `stored` has all weights in their memory layout, or `Entries`; parsing then only makes the folded table.
    """

    templates: ArcTemplates
    layout: ArcLayout
    limits: Shorts
    stored: Singles | Entries

    @cached_property
    def weights(self) -> Singles:
        """All weights in their memory layout."""
        if not isinstance(self.stored, Entries):
            return self.stored
        weights = aligned_singles(self.layout.size)
        for f, slot, rows, columns, values in self._parts(self.stored):
            block_view(weights, self.layout, f, slot)[rows, columns] = values
        return weights

    @cached_property
    def compiled(self) -> tuple[Layout, Shorts, Singles]:
        """(layout, limits, folded weights) as kernels take them."""
        layout, weights = self.folded
        return layout_of(self.templates, layout), read_only(self.limits), read_only(weights)

    @cached_property
    def folded(self) -> tuple[ArcLayout, Singles]:
        """The same scores with one weight per family and arc, the sum of up to three."""
        active = self.templates.active
        finest = np.zeros_like(active)
        finest[np.arange(active.shape[0]), 2 - np.argmax(active[:, ::-1], axis=1)] = True
        layout = self.layout.with_slots(finest)
        weights = aligned_singles(layout.size)
        if isinstance(self.stored, Entries):
            for f, slot, rows, columns, values in self._parts(self.stored):
                into = int(np.argmax(finest[f]))
                times = LENGTHS[into] // LENGTHS[slot]
                for k in range(times):
                    block_view(weights, layout, f, into)[rows, columns * times + k] += values
            return layout, weights
        for f, slot in self.templates.places:
            into = int(np.argmax(finest[f]))
            # A direction covers six bins of distance.
            times = LENGTHS[into] // LENGTHS[slot]
            block_view(weights, layout, f, into)[:] += np.repeat(
                block_view(self.stored, self.layout, f, slot), times, 1
            )
        return layout, weights

    def _parts(self, entries: Entries) -> Iterator[tuple[int, int, Ints, Ints, Singles]]:
        """Yield the family and slot of each template, and the rows, columns and values of its weights."""
        begin, counts = 0, self.layout.counts
        for f, slot in self.templates.places:
            end = begin + counts[f] * LENGTHS[slot]
            part = slice(*np.searchsorted(entries.places, [begin, end]))
            yield f, slot, *np.divmod(entries.places[part] - begin, LENGTHS[slot]), entries.values[part]
            begin = end

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("weights", "folded", "compiled")}

    def parse(
        self,
        codes: ArcCodes,
        projective: bool = False,
        guides: Ints | None = None,
        n_jobs: int = 1,
        bounds: tuple[int, int] | None = None,
    ) -> tuple[Ints, int]:
        """Return (heads in the layout of the codes, number of scored arcs); `bounds` are the sentences from and to."""
        begin, end = (0, codes.first.size) if bounds is None else bounds
        out = np.zeros(codes.codes.shape[1], dtype=np.int64)
        corpus, nowhere = corpus_of(codes, guides), np.empty((0, 0))

        def part(bounds: tuple[int, int]) -> int:
            return int(parse_sentences(corpus, np.arange(*bounds), *self.compiled, projective, out, nowhere))

        return out, sum(in_threads(part, begin, end, n_jobs))

    def scores(self, codes: ArcCodes, sentence: int, guides: Ints | None = None) -> Floats:
        """Return the scores of a sentence, head by modifier, -inf for pairs that are not arcs or are filtered out."""
        n = int(codes.sizes[sentence])
        matrix = np.full((n + 1, n + 1), -np.inf)
        if n:
            heads, one = np.zeros(codes.codes.shape[1], dtype=np.int64), np.array([sentence])
            parse_sentences(corpus_of(codes, guides), one, *self.compiled, False, heads, matrix)
        return matrix

    def block_norms(self) -> Floats:
        """Return the Euclidean norm of the weights of each template."""
        blocks = (block_view(self.weights, self.layout, f, slot) for f, slot in self.templates.places)
        return np.array([float(np.sqrt(np.einsum("ij,ij->", b, b, dtype=np.float64))) for b in blocks])

    def entries(self) -> Entries:
        """Return all weights that are not zero, one template after another, each row by row.

        Places do not depend on the memory layout of weights.
        """
        if isinstance(self.stored, Entries):
            return self.stored
        places, values, begin = [], [], 0
        for f, slot in self.templates.places:
            block = block_view(self.stored, self.layout, f, slot)
            flat = block.reshape(-1)
            found = np.flatnonzero(flat)
            places.append(begin + found)
            values.append(flat[found])
            begin += block.size
        return Entries(np.concatenate(places), np.concatenate(values))

    def kept(self, blocks: Ints) -> ArcModel:
        """Return the model of only some templates, without tables of families that have none of them."""
        templates = self.templates.keep(blocks)
        layout = templates.layout()
        weights = aligned_singles(layout.size)
        before = {family.name: f for f, family in enumerate(self.templates.families)}
        for f, slot in templates.places:
            old = before[templates.families[f].name]
            block_view(weights, layout, f, slot)[:] = block_view(self.weights, self.layout, old, slot)
        return ArcModel(templates, layout, self.limits, weights)


def in_threads(part: Callable[[tuple[int, int]], int], begin: int, end: int, n_jobs: int) -> list[int]:
    """Return part(bounds) for ranges of sentences between begin and end, in threads if there are enough sentences."""
    if n_jobs <= 1 or end - begin < 2 * n_jobs:
        return [part((begin, end))]
    cuts = np.linspace(begin, end, 4 * n_jobs + 1).astype(np.int64).tolist()
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(part, itertools.pairwise(cuts)))


def mean_into_ball(weights: Singles, sums: Singles, rounds: float, radius: float) -> float:
    """weights <- min(1, radius / norm) weights; returns the factor. rounds * weights - sums does not change.

    The latter is the sum of the weights over the rounds, from which solvers compute the mean.

    >>> weights, sums = np.array([3, 4], dtype=np.float32), np.array([1, 1], dtype=np.float32)
    >>> mean_into_ball(weights, sums, 2.0, 2.5), weights, 2.0 * weights - sums
    (0.5, array([1.5, 2. ], dtype=float32), array([5., 7.], dtype=float32))
    """
    size = float(np.sqrt(np.einsum("i,i->", weights, weights, dtype=np.float64)))
    if size <= radius:
        return 1.0
    factor = radius / size
    sums -= np.float32(rounds * (1.0 - factor)) * weights
    weights *= np.float32(factor)
    return factor


def block_view(weights: Singles, layout: ArcLayout, f: int, slot: int) -> Singles:
    """Return the weights of one template, (rows, entries of its slot), without a copy."""
    rows = layout.counts[f]
    start, wide, at = (int(layout.families[f, k]) for k in (START, WIDE, AT + slot))
    return weights[start : start + rows * wide].reshape(rows, wide)[:, at : at + LENGTHS[slot]]


def weight_count(templates: ArcTemplates, layout: ArcLayout) -> int:
    """Return the number of weights of the templates; padding does not count."""
    rows = layout.counts
    return sum(rows[f] * LENGTHS[slot] for f, slot in templates.places)
