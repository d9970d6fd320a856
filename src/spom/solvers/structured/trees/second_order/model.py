"""Weights that score arcs, siblings and grandparents: the result of learning, used for parsing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spom.core.arrays import Ints, Singles, aligned_singles, read_only
from spom.features.arc_spaces import Shorts
from spom.features.arcs import ArcCodes
from spom.solvers.structured.trees.model import ArcModel, Entries, in_threads, weight_count
from spom.solvers.structured.trees.second_order.learning import PartModel, parse_parts
from spom.solvers.structured.trees.second_order.pruning import Beam, Filter, leave_all
from spom.solvers.structured.trees.second_order.templates import PartTemplates
from spom.solvers.structured.trees.space import corpus_of

# Scores are in units of the cost of a wrong head. On EWT's dev set 2.5 heads per word remain, and .974 of the gold ones
# are among them. A parser is surer of the trees it was trained on, so learning takes arcs from a wider beam: UAS is
# .859 for widths of 3 to 6 in parsing; with a width of 4 in both it is .854.
BEAM, LEARNING = Beam(3.0, 6), Beam(6.0, 10)


@dataclass(frozen=True)
class SecondOrderModel:
    """Weights of arcs, for the templates of a first-order model, then weights of parts."""

    templates: PartTemplates
    stored: Singles | Entries
    limits: Shorts

    @cached_property
    def weights(self) -> Singles:
        """All weights in their memory layout."""
        if not isinstance(self.stored, Entries):
            return self.stored
        return np.concatenate([self.arcs.weights, self.parts])

    @cached_property
    def arcs(self) -> ArcModel:
        """The model of the arcs alone."""
        layout = self.templates.arcs.layout()
        if isinstance(self.stored, Entries):
            cut = np.searchsorted(self.stored.places, self._before)
            first = Entries(self.stored.places[:cut], self.stored.values[:cut])
            return ArcModel(self.templates.arcs, layout, self.limits, first)
        weights = aligned_singles(layout.size)
        weights[:] = self.stored[: layout.size]
        return ArcModel(self.templates.arcs, layout, self.limits, weights)

    @cached_property
    def parts(self) -> Singles:
        """The weights of parts."""
        if not isinstance(self.stored, Entries):
            return self.stored[self.stored.size - self.templates.size :]
        cut, weights = np.searchsorted(self.stored.places, self._before), aligned_singles(self.templates.size)
        weights[self.stored.places[cut:] - self._before] = self.stored.values[cut:]
        return weights

    @property
    def _before(self) -> int:
        """The number of places that belong to arcs."""
        return weight_count(self.templates.arcs, self.templates.arcs.layout())

    @cached_property
    def compiled(self) -> PartModel:
        """The model as kernels take it."""
        layout, _, weights = self.arcs.compiled
        return PartModel(layout, weights, self.templates.compiled, read_only(self.parts))

    def entries(self) -> Entries:
        """Return all weights that are not zero: those of arcs as in `ArcModel`, then those of parts."""
        if isinstance(self.stored, Entries):
            return self.stored
        places, values = self.arcs.entries()
        found = np.flatnonzero(self.parts)
        return Entries(np.concatenate([places, self._before + found]), np.concatenate([values, self.parts[found]]))

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("weights", "arcs", "parts", "compiled")
        }

    def parse(
        self, codes: ArcCodes, projective: bool, first: ArcModel, n_jobs: int = 1, beam: Beam = BEAM
    ) -> tuple[Ints, int]:
        """Return the heads, in the codes' layout, and the number of arcs that `first` kept; trees are projective."""
        out, corpus, by = np.zeros(codes.codes.shape[1], dtype=np.int64), corpus_of(codes), filter_of(first, beam)

        def part(bounds: tuple[int, int]) -> int:
            return int(parse_parts(corpus, np.arange(*bounds), by, self.compiled, out))

        return out, sum(in_threads(part, 0, codes.first.size, n_jobs))


def filter_of(first: ArcModel, beam: Beam) -> Filter:
    """Return a first-order model as a filter of arcs."""
    return Filter(*first.compiled, beam)


def left_heads(first: ArcModel, codes: ArcCodes, beam: Beam = LEARNING) -> Shorts:
    """Return the heads that a model keeps for learning, in the layout of the codes, -1 after the last of each word."""
    out = np.full((codes.codes.shape[1], beam.most), -1, dtype=np.int16)
    leave_all(corpus_of(codes), np.arange(codes.first.size), filter_of(first, beam), out)
    return out
