r"""Arc-factored parsers with single weights that are exactly zero: dual averaging of l1 norm1 + l2/2 norm2^2.

    theta_t = inside * soft(u_t, l1 A_t) / (1 + l2 A_t),   u_t = -(sum of step times gradient),   A_t = sum of the steps

The step of a round is that of `ArcSolver` (for MIRA it is smaller than the one that A counts), so without a penalty
this is `ArcSolver`. A mean of weights has no zeros. So the model uses the means of u and A instead, which is dual
averaging with decreasing weights of the rounds, and without a penalty the mean of the weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from spom.core.arrays import Floats, Ints, Singles, check_restored
from spom.core.jit import kernel
from spom.core.registry import register
from spom.core.state import State
from spom.errors import Unsupported
from spom.features.arc_spaces import (
    AT,
    BIN,
    BY_PAIR,
    BY_SET,
    HEAD_OF,
    MASK,
    MODIFIER_OF,
    PAIR,
    SET,
    SIDE,
    START,
    WIDE,
    longest_sentence,
    sentence_of,
)
from spom.features.arcs import ArcCodes, ArcTemplates
from spom.penalties import L1
from spom.penalties.forms import Elastic
from spom.solvers import examples
from spom.solvers.structured.structures import MIRA, Parts, residual
from spom.solvers.structured.trees.learning import SUM, Learnt, Task, TreeRule, change_arcs, step_size
from spom.solvers.structured.trees.scoring import find_places, to_matrix
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.space import WEIGHTS, Layout, Places, Space, index_of, make_space, prepare

# Entries of `passed`: the sum of the steps so far, its sum over rounds, and the factor that brings the weights into
# the ball.
STEPS, STEP_SUM, INSIDE = range(3)


class Shrunk(NamedTuple):
    """Weights as sums w: theta = factor * soft(w, cut)."""

    weights: Annotated[Singles, WEIGHTS]
    cut: Annotated[np.float32, "float32"]
    factor: Annotated[np.float32, "float32"]


@kernel("float32(float32, float32)")
def soft(w: np.float32, cut: np.float32) -> np.float32:
    """sign(w) max(abs(w) - cut, 0)."""
    zero = np.float32(0.0)
    return np.float32(max(w - cut, zero) + min(w + cut, zero))


@kernel("void(Layout, int64, Space, int64, Shrunk, float32[::1])")
def add_shrunk_sets(layout: Layout, f: int, space: Space, count: int, of: Shrunk, out: Singles) -> None:
    """Add the weights of a family with a set of words between, for each arc."""
    family, arcs, k = layout.families[f], space.arcs, index_of(layout.sets, layout.families[f, SET])
    for a in range(count):
        h, m = arcs[HEAD_OF, a], arcs[MODIFIER_OF, a]
        row, side = space.heads[f, h] + space.modifiers[f, m], 0 if h < m else 1
        if family[PAIR] >= 0:
            row += space.pairs[family[PAIR], a] * family[BY_PAIR]
        for t in range(space.counts[k, h, m]):
            at = row + space.tags[k, h, side, t] * family[BY_SET]
            i = family[START] + (at & family[MASK]) * family[WIDE]
            for slot in range(3):
                if family[AT + slot] >= 0:
                    j = i + family[AT + slot] + (0 if slot == 0 else arcs[1 + slot, a])
                    out[a] += soft(of.weights[j], of.cut)


@kernel("void(Layout, int64, Space, uint64[::1], int64, Shrunk, float32[::1])")
def add_shrunk(layout: Layout, f: int, space: Space, places: Places, count: int, of: Shrunk, out: Singles) -> None:
    """Add the weights of any other family for each arc, up to three."""
    family, sides, bins, weights, cut = layout.families[f], space.arcs[SIDE], space.arcs[BIN], of.weights, of.cut
    if family[AT] >= 0:
        at = np.uint64(family[AT])
        for a in range(count):
            out[a] += soft(weights[places[a] + at], cut)
    if family[AT + 1] >= 0:
        at = np.uint64(family[AT + 1])
        for a in range(count):
            out[a] += soft(weights[places[a] + at + np.uint64(sides[a])], cut)
    if family[AT + 2] >= 0:
        at = np.uint64(family[AT + 2])
        for a in range(count):
            out[a] += soft(weights[places[a] + at + np.uint64(bins[a])], cut)


@kernel("void(Layout, Space, int64, Shrunk, float32[::1])")
def shrunk_scores(layout: Layout, space: Space, count: int, of: Shrunk, out: Singles) -> None:
    """out[a] = the sum over templates of theta of arc a; a family is summed while the next one is being loaded."""
    places, turn, waiting = np.empty((2, count), dtype=np.uint64), 0, -1
    out[:count] = 0.0
    for f in range(layout.families.shape[0]):
        family = layout.families[f]
        if family[SET] >= 0:
            add_shrunk_sets(layout, f, space, count, of, out)
            continue
        heads, modifiers = space.heads[f], space.modifiers[f]
        find_places(family, space.arcs, heads, modifiers, space.pairs, count, of.weights, places[turn])
        turn = 1 - turn
        if waiting >= 0:
            add_shrunk(layout, waiting, space, places[turn], count, of, out)
        waiting = f
    if waiting >= 0:
        add_shrunk(layout, waiting, space, places[1 - turn], count, of, out)
    for a in range(count):
        out[a] *= of.factor


@kernel("void(float32[::1], float32, float32)")
def shrink(w: Singles, cut: np.float32, factor: np.float32) -> None:
    """w <- factor * soft(w, cut)."""
    for i in range(w.size):
        if w[i] != 0.0:
            w[i] = factor * soft(w[i], cut)


@kernel("float64(Task, int64[::1], float64[::1], Layout, TreeRule, UniTuple(float64, 2), Learnt, float64[::1])")
def sparse_rounds(
    task: Task,
    order: Ints,
    steps: Floats,
    layout: Layout,
    rule: TreeRule,
    elastic: tuple[float, float],
    to: Learnt,
    passed: Floats,
) -> float:
    """Run one round per sentence of `order`, with its step (for MIRA the largest step); return the sum of losses."""
    space = make_space(longest_sentence(task.corpus, order), layout.families.shape[0], layout.sets.size)
    nothing, scratch, total = np.empty((0, 0)), np.empty(0), 0.0
    for t in range(order.size):
        sentence = sentence_of(task.corpus, order[t])
        n, at = sentence.n, sentence.first
        if n == 0:
            continue
        parts, change = Parts(np.empty((n + 1, n + 1)), nothing), Parts(np.empty((n + 1, n + 1)), nothing)
        count = prepare(sentence, layout, task.limits, space)
        scores, factor = np.empty(count, dtype=np.float32), passed[INSIDE] / (1.0 + elastic[1] * passed[STEPS])
        now = Shrunk(to.fixed, np.float32(elastic[0] * passed[STEPS]), np.float32(factor))
        shrunk_scores(layout, space, count, now, scores)
        to_matrix(space.arcs, count, scores, parts.unary)
        value = residual(rule.structure, rule.loss, parts, task.gold[at : at + n + 1].copy(), scratch, change)
        step = step_size(layout, space, count, steps[t], value, rule.loss, change)
        if step > 0.0:
            total += value
            change_arcs(layout, space, count, step, change, to)
        passed[STEPS] += step if rule.loss.code == MIRA else steps[t]
        passed[STEP_SUM] += passed[STEPS]
        to.blocks[SUM] += 1.0
    return total


@register(
    "solver",
    "sparse-arcs",
    examples=lambda: [SparseArcSolver(*examples.two_trees(), penalty=L1(0.01), seed=0)],
    cost="O(templates) per arc",
)
class SparseArcSolver(ArcSolver):
    """min over theta of l1 norm1(theta) + l2/2 norm2(theta)^2 + (1/N) sum_i L(theta; sentence i, tree i).

    Dual averaging: `penalty` is `L1`, `ElasticNet` or a sum of such, and weights that explain too little are exactly
    zero, in each iterate and in `model()`. The projection onto the ball of `radius` follows each pass. Everything
    else is as in `ArcSolver`; `internal` of a state has the sums behind the weights.

    >>> from spom.solvers import examples
    >>> solver = SparseArcSolver(*examples.two_trees(), penalty=L1(0.01), seed=0)
    >>> for _ in range(3):
    ...     state = solver.epoch()
    >>> solver.model().parse(solver.codes)[0]
    array([0, 2, 3, 0, 0, 0, 1])
    """

    def __init__(
        self, templates: ArcTemplates, codes: ArcCodes, gold: Ints, *, penalty: Any, start: Any = None, **more: Any
    ) -> None:
        super().__init__(templates, codes, gold, **more)
        found = penalty.elastic()
        if found is None:
            raise Unsupported(f"{penalty!r} is no penalty of single weights, such as L1 or ElasticNet")
        self.penalty, self.elastic = penalty, Elastic(float(found.l1), float(found.l2))
        self.passed = np.array([0.0, 0.0, 1.0])
        if start is not None:
            self.restore(start)

    def _pass(self, order: Ints, size: float) -> float:
        task = Task.of(self.codes, self.gold, self.limits, self.guides)
        steps, rule, to, (l1, l2) = np.full(order.size, size), self._rule(), self._learnt(), self.elastic
        found = sparse_rounds(task, order, steps, self._compiled(), rule, (l1, l2), to, self.passed)
        if self.radius < np.inf:
            self.passed[INSIDE] = 1.0
            self.passed[INSIDE] = self._inside(self.mean(0.0))
        return float(found)

    def _inside(self, weights: Singles) -> float:
        """Return the factor that brings weights into the ball."""
        size = float(np.sqrt(np.einsum("i,i->", weights, weights, dtype=np.float64)))
        return min(1.0, self.radius / size) if size > 0.0 else 1.0

    def mean(self, rounds: float) -> Singles:
        """Return the weights of the mean sums over the rounds; with no rounds, theta."""
        out = super().mean(rounds)
        steps = self.passed[STEP_SUM] / rounds if rounds > 0.0 else self.passed[STEPS]
        factor = (1.0 if rounds > 0.0 else self.passed[INSIDE]) / (1.0 + self.elastic.l2 * steps)
        shrink(out, np.float32(self.elastic.l1 * steps), np.float32(factor))
        if rounds > 0.0 and self.radius < np.inf:
            out *= np.float32(self._inside(out))
        return out

    @property
    def norms(self) -> Floats:
        """The norm of each template's block."""
        return cast("Floats", self.model(averaged=False).block_norms())

    def _state(self, loss: float, size: float) -> State:
        found, theta, (l1, l2) = super()._state(loss, size), self.mean(0.0), self.elastic
        passed = self.passed.copy() if self.copies else self.passed
        omega = l1 * float(np.abs(theta).sum(dtype=np.float64)) + 0.5 * l2 * float(np.vdot(theta, theta))
        internal = {**found.internal, "duals": found.theta, "passed": passed}
        return replace(found, theta=theta, objective=loss + omega, internal=internal)

    def restore(self, state: State) -> None:
        """Resume from a state, with the same bits."""
        todo = "resume with the data and templates that the state was made with"
        like = {"duals": self.weights, "passed": self.passed}
        kept = check_restored(dict(state.internal), like, todo)
        super().restore(replace(state, theta=kept["duals"]))
        self.passed[:] = kept["passed"]
