"""MIRA and related methods for second-order trees, as an iterator of states, one per epoch."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Ints, Singles, aligned_singles, read_only
from spom.core.registry import register
from spom.errors import Unsupported
from spom.features.arc_spaces import Shorts
from spom.features.arcs import ArcCodes, ArcTemplates
from spom.solvers import examples
from spom.solvers.structured.structures import Loss, loss_code
from spom.solvers.structured.trees.learning import NORM, SUM, Learnt
from spom.solvers.structured.trees.model import mean_into_ball
from spom.solvers.structured.trees.second_order.learning import Lessons, PartModel, learn_parts
from spom.solvers.structured.trees.second_order.model import SecondOrderModel
from spom.solvers.structured.trees.second_order.parts import PartWeights
from spom.solvers.structured.trees.second_order.templates import PARTS, PartTemplates
from spom.solvers.structured.trees.solver import STEPS, ArcSolver
from spom.solvers.structured.trees.space import corpus_of

LOSSES = ("mira", "hinge", "perceptron")


_EXAMPLE: dict[str, Any] = {
    "kept": np.zeros((7, 1), dtype=np.int16),
    "parts": ("g.upos h.upos m.upos", "s.upos h.upos m.upos"),
}


@register(
    "solver",
    "second-order-arcs",
    examples=lambda: [SecondOrderSolver(*examples.two_trees(), **_EXAMPLE, seed=0)],
    cost="O(templates) per arc, sibling and grandparent",
)
class SecondOrderSolver(ArcSolver):
    """min over theta of (1/N) sum_i L(theta; sentence i, tree i), where scores are of arcs, siblings and grandparents.

    `kept` has the heads that each word may have besides the gold one, in the layout of the codes, -1 after the last:
    those that a first-order parser keeps. `loss` is `"mira"`, `"hinge"` or `"perceptron"`: there is a decoder for the
    best tree, but not for sums over all trees. The projection onto the ball of `radius` follows each pass. Everything
    else is as in `ArcSolver`; weights of arcs come first, then those of the templates `parts`.

    >>> from spom.solvers import examples
    >>> solver = SecondOrderSolver(*examples.two_trees(), **_EXAMPLE, seed=0)
    >>> for _ in range(3):
    ...     state = solver.epoch()
    >>> model = solver.model()
    >>> model.parse(solver.codes, True, model.arcs)[0]
    array([0, 2, 3, 0, 0, 0, 1])
    """

    def __init__(
        self,
        templates: ArcTemplates,
        codes: ArcCodes,
        gold: Ints,
        *,
        kept: Shorts,
        parts: tuple[str, ...] = PARTS,
        step: float | None = None,
        start: Any = None,
        **more: Any,
    ) -> None:
        super().__init__(templates, codes, gold, step=step, **{**more, "projective": True})
        loss_code(self.loss, LOSSES, "trees of second order")
        if self.penalty is not None:
            raise Unsupported("trees of second order take no penalty: leave it out, or use update='select'")
        self.kept, self.parts = kept, PartTemplates(templates, parts)
        self.step = STEPS[self.loss] / (len(self.places) + len(parts)) if step is None else self.step
        self.weights = aligned_singles(self.layout.size + self.parts.size)
        self.sums = aligned_singles(self.weights.size)
        if start is not None:
            self.restore(start)

    def _pass(self, order: Ints, size: float) -> float:
        lessons = Lessons(corpus_of(self.codes), read_only(self.gold), read_only(self.kept))
        arcs, parts = (self.weights[: self.layout.size], self.sums[: self.layout.size]), self._of_parts()
        model = PartModel(self._compiled(), read_only(arcs[0]), self.parts.compiled, parts.fixed)
        learnt = Learnt(arcs[0], read_only(arcs[0]), arcs[1], self.blocks)
        loss = Loss(loss_code(self.loss, LOSSES, "trees of second order"), self.cost)
        found = float(learn_parts(lessons, order, size, model, loss, learnt, parts, float(self.rounds)))
        if self.radius < np.inf:
            factor = mean_into_ball(self.weights, self.sums, float(self.blocks[SUM].max()), self.radius)
            self.blocks[NORM] *= factor**2
        return found

    def _of_parts(self) -> PartWeights:
        weights, sums = self.weights[self.layout.size :], self.sums[self.layout.size :]
        return PartWeights(weights, read_only(weights), sums)

    def feed(self, codes: ArcCodes, gold: Ints, guides: Any = None) -> None:
        """Learn from other sentences, with the same vocabularies and templates; `guides` are the kept heads."""
        super().feed(codes, gold)
        self.kept = guides

    def model_of(self, weights: Singles) -> SecondOrderModel:
        """Return these weights as a model."""
        return SecondOrderModel(self.parts, weights, self.limits)

    def mean(self, rounds: float) -> Singles:
        """Return the mean of theta over the rounds; with no rounds, theta."""
        out, size = super().mean(rounds), self.layout.size
        out[size:] = self.weights[size:] - self.sums[size:] / np.float32(rounds) if rounds else self.weights[size:]
        return out
