"""Weights that score arcs, siblings and grandparents: what learning gives and parsing uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spom.core.arrays import Ints, aligned_singles
from spom.features.arc_spaces import Shorts, read_only
from spom.features.arcs import ArcCodes
from spom.solvers.structured.trees.model import ArcModel, corpus_of, in_threads, weight_count
from spom.solvers.structured.trees.second_order.learning import PartModel, parse_parts
from spom.solvers.structured.trees.second_order.pruning import Beam, Filter, leave_all
from spom.solvers.structured.trees.second_order.templates import PartTemplates
from spom.solvers.structured.trees.space import Singles

# Scores are in units of the cost of a wrong head. On EWT's dev set 2.5 heads a word are left, .974 of the gold ones
# among them. A parser is surer of the trees that it learnt from, so that a wider beam leaves the arcs to learn from:
# UAS is .859 for widths of 3 to 6 in parsing; with a width of 4 in both it is .854.
BEAM, LEARNING = Beam(3.0, 6), Beam(6.0, 10)


@dataclass(frozen=True)
class SecondOrderModel:
    """Weights of arcs, for the templates of a first-order model, then weights of parts."""

    templates: PartTemplates
    weights: Singles
    limits: Shorts

    @cached_property
    def arcs(self) -> ArcModel:
        """The arcs alone."""
        layout = self.templates.arcs.layout()
        weights = aligned_singles(layout.size)
        weights[:] = self.weights[: layout.size]
        return ArcModel(self.templates.arcs, layout, self.limits, weights)

    @cached_property
    def compiled(self) -> PartModel:
        """As kernels take it."""
        layout, _, weights = self.arcs.compiled
        parts = self.weights[self.weights.size - self.templates.size :]
        return PartModel(layout, weights, self.templates.compiled, read_only(parts))

    def entries(self) -> tuple[Ints, Singles]:
        """(places, weights) of all that are not zero: those of arcs as `ArcModel` has them, then those of parts."""
        places, values = self.arcs.entries()
        parts = self.weights[self.weights.size - self.templates.size :]
        found, before = np.flatnonzero(parts), weight_count(self.templates.arcs, self.arcs.layout)
        return np.concatenate([places, before + found]), np.concatenate([values, parts[found]])

    @classmethod
    def of(cls, templates: PartTemplates, limits: Shorts, places: Ints, values: Singles) -> SecondOrderModel:
        """The model with these `entries`."""
        layout = templates.arcs.layout()
        before = weight_count(templates.arcs, layout)
        cut = int(np.searchsorted(places, before))
        weights = aligned_singles(layout.size + templates.size)
        weights[: layout.size] = ArcModel.of(templates.arcs, layout, limits, places[:cut], values[:cut]).weights
        weights[layout.size + places[cut:] - before] = values[cut:]
        return cls(templates, weights, limits)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("arcs", "compiled")}

    def parse(
        self,
        codes: ArcCodes,
        projective: bool,
        first: ArcModel,
        n_jobs: int = 1,
        bounds: tuple[int, int] | None = None,
        beam: Beam = BEAM,
    ) -> tuple[Ints, int]:
        """(the heads, laid out as the codes are; how many arcs `first` left); trees are projective always."""
        out, corpus, by = np.zeros(codes.codes.shape[1], dtype=np.int64), corpus_of(codes), filter_of(first, beam)

        def part(bounds: tuple[int, int]) -> int:
            return int(parse_parts(corpus, np.arange(*bounds), by, self.compiled, out))

        begin, end = (0, codes.first.size) if bounds is None else bounds
        return out, sum(in_threads(part, begin, end, n_jobs))


def filter_of(first: ArcModel, beam: Beam) -> Filter:
    """A first-order model as a filter of arcs."""
    return Filter(*first.compiled, beam)


def left_heads(first: ArcModel, codes: ArcCodes, beam: Beam = LEARNING) -> Shorts:
    """The heads to learn from that a model leaves of each word, laid out as the codes are, -1 after the last."""
    out = np.full((codes.codes.shape[1], beam.most), -1, dtype=np.int16)
    leave_all(corpus_of(codes), np.arange(codes.first.size), filter_of(first, beam), out)
    return out
