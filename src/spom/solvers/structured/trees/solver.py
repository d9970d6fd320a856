"""SPOM, MIRA and related methods for arc-factored parsers, as an iterator of states, one per epoch."""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np

from spom.core.arrays import (
    Floats,
    Ints,
    Singles,
    aligned_singles,
    check_positive,
    check_radius,
    read_only,
)
from spom.core.jit import kernel
from spom.core.registry import register
from spom.core.state import State
from spom.errors import Unsupported
from spom.features.arc_spaces import AT, BASE, LENGTHS, START, WIDE, Shorts
from spom.features.arcs import ArcCodes, ArcTemplates
from spom.penalties import Zero
from spom.solvers import examples
from spom.solvers.structured.structures import Loss, loss_code
from spom.solvers.structured.trees.learner import TreeLearner
from spom.solvers.structured.trees.learning import NORM, SCALE, SUM, Learnt, Task, TreeRule, learn
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.space import Layout, arc_limits, layout_of, places_of

# The first step of each loss times the number of templates; for MIRA the largest step. It was not recorded how flat the
# optimum is.
STEPS = {"mira": 1.0, "hinge": 0.3, "perceptron": 1.0, "log": 1.0}


@kernel("void(Layout, Learnt, float64, float32[::1])")
def averages(layout: Layout, learnt: Learnt, rounds: float, out: Singles) -> None:
    """out = (S w - u) / rounds, the mean of theta over the rounds; with no rounds, theta. `out` must be zero."""
    families, weights, sums, blocks = layout.families, learnt.weights, learnt.sums, learnt.blocks
    for f in range(families.shape[0]):
        end = families[f + 1, BASE] if f + 1 < families.shape[0] else layout.rows
        for slot in range(3):
            if families[f, AT + slot] < 0:
                continue
            factor = blocks[SUM, f, slot] if rounds > 0.0 else blocks[SCALE, f, slot]
            for row in range(end - families[f, BASE]):
                begin = families[f, START] + row * families[f, WIDE] + families[f, AT + slot]
                for i in range(begin, begin + LENGTHS[slot]):
                    if rounds > 0.0:
                        out[i] = np.float32((factor * weights[i] - sums[i]) / rounds)
                    else:
                        out[i] = np.float32(factor * weights[i])


@register(
    "solver",
    "arcs",
    examples=lambda: [ArcSolver(*examples.two_trees(), seed=0)],
    cost="O(templates) per arc",
)
class ArcSolver(TreeLearner):
    """min over theta of Omega(theta) + (1/N) sum_i L(theta; sentence i, tree i), one sentence at a time.

    `loss` is `"mira"` (the smallest step that makes the cost-augmented hinge zero, at most `step`), `"hinge"`,
    `"perceptron"` or `"log"` (a random field over trees). `penalty` is None or one of the block norms (`SparseMKL`:
    SPOM, `GroupLasso`, `LqMKL`, `ElasticNetMKL`, ...), with a block per template. `step` defaults to a multiple of 1
    over the number of templates, and falls as 1 over the square root of the epoch for all losses except MIRA. Each
    round ends with the projection onto the ball of `radius` (Algorithm 3 of SPOM); `spom.theory.structured_radius`
    gives one that contains the optimum. Iterating yields a `State` after each epoch, without end: its `theta` is the
    iterate (a copy unless `copies=False`), `internal` has the sums of the average. `start` resumes from a state, with
    the same bits.

    >>> from spom.solvers import examples
    >>> solver = ArcSolver(*examples.two_trees(), seed=0)
    >>> for _ in range(3):
    ...     state = solver.epoch()
    >>> solver.model().parse(solver.codes)[0]
    array([0, 2, 3, 0, 0, 0, 1])
    """

    def __init__(
        self,
        templates: ArcTemplates,
        codes: ArcCodes,
        gold: Ints,
        *,
        loss: str = "mira",
        penalty: Any = None,
        step: float | None = None,
        cost: float = 1.0,
        projective: bool = False,
        guides: Ints | None = None,
        limits: Shorts | None = None,
        shuffle: bool = True,
        seed: Any = 0,
        radius: float = np.inf,
        copies: bool = True,
        start: State | None = None,
    ) -> None:
        loss_code(loss, list(STEPS), "trees")
        self.templates, self.codes, self.gold = templates, codes, gold
        self.loss, self.projective, self.shuffle, self.copies = loss, projective, shuffle, copies
        self.layout = templates.layout()
        self.places = places_of(templates)
        self.cost, self.radius = check_positive(cost, "cost"), check_radius(radius)
        self.step = STEPS[loss] / len(self.places) if step is None else check_positive(step, "step", zero=False)
        self.guides = guides
        self.limits = arc_limits(templates, codes, gold, limits)
        self.penalty, self.on_norms = penalty, _on_norms(penalty, len(self.places))
        self.random = np.random.default_rng(seed)
        self.weights = aligned_singles(self.layout.size)
        self.sums = aligned_singles(self.layout.size)
        self.blocks = Learnt.of(templates.active, self.weights, self.sums).blocks
        if start is not None:
            self.restore(start)

    def epoch(self, only: Ints | None = None) -> State:
        """Make one pass over all sentences, or over some, in a new random order."""
        if self.templates.guided and self.guides is None:
            raise Unsupported("templates of a second stage need the tree of a first one: second_stage=True has its own")
        begin = time.perf_counter()
        chosen = np.arange(self.codes.first.size) if only is None else np.asarray(only, dtype=np.int64)
        order = self.random.permutation(chosen) if self.shuffle else chosen
        size = self.step if self.loss == "mira" else self.step / np.sqrt(self.k + 1.0)
        loss = self._pass(order, size)
        self.k += 1
        self.rounds += int((self.codes.sizes[order] > 0).sum())
        self.seconds += time.perf_counter() - begin
        return self._state(loss / max(order.size, 1), size)

    def _pass(self, order: Ints, size: float) -> float:
        """Run one round per sentence of `order`, and return the sum of the losses."""
        task = Task.of(self.codes, self.gold, self.limits, self.guides)
        return float(learn(task, order, np.full(order.size, size), self._compiled(), self._rule(), self._learnt()))

    def _compiled(self) -> Layout:
        return layout_of(self.templates, self.layout)

    def _learnt(self) -> Learnt:
        return Learnt(self.weights, read_only(self.weights), self.sums, self.blocks)

    def _rule(self) -> TreeRule:
        loss = Loss(loss_code(self.loss, list(STEPS), "trees"), self.cost)
        norms = None if self.penalty is None else self.on_norms
        return TreeRule.of(self.templates, loss, self.projective, norms, self.radius)

    def feed(self, codes: ArcCodes, gold: Ints, guides: Ints | None = None) -> None:
        """Learn from other sentences, with the same vocabularies and templates."""
        self.limits = arc_limits(self.templates, codes, gold, self.limits)
        self.codes, self.gold, self.guides = codes, gold, guides

    def model(self, averaged: bool = True) -> Any:
        """Return the weights as a model: their mean over all rounds, or the last ones."""
        return self.model_of(self.mean(float(self.rounds) if averaged else 0.0))

    def model_of(self, weights: Singles) -> Any:
        """Return these weights as a model."""
        return ArcModel(self.templates, self.layout, self.limits, weights)

    def mean(self, rounds: float) -> Singles:
        """Return the mean of theta over the rounds; with no rounds, theta."""
        out = aligned_singles(self.weights.size)
        averages(self._compiled(), self._learnt(), rounds, out)
        return out

    @property
    def norms(self) -> Floats:
        """The norm of each template's block."""
        squared = self.blocks[NORM][self.places[:, 0], self.places[:, 1]]
        return cast("Floats", np.sqrt(np.maximum(squared, 0.0)))

    def _kept(self) -> dict[str, Any]:
        return {"sums": self.sums, "blocks": self.blocks, "limits": self.limits}

    def _state(self, loss: float, size: float) -> State:
        norms = self.norms
        penalty = 0.0 if self.penalty is None else self.on_norms.value(norms)
        return self._saved(step=size, loss=loss, objective=loss + penalty, block_norms=norms)

    def restore(self, state: State) -> None:
        """Resume from a state, with the same bits."""
        # Earlier models share these limits.
        self.limits = self.limits.copy()
        super().restore(state)


def _on_norms(penalty: Any, count: int) -> Any:
    """Return the penalty as a function of block norms."""
    found = Zero() if penalty is None else penalty.on_norms(count)
    if found is None:
        name = type(penalty).__name__
        raise Unsupported(
            f"{name} is no penalty on block norms; for trees take SparseMKL, GroupLasso or the like, for penalties of "
            "single weights SparseArcSolver"
        )
    return found
