"""Trees, solved to the optimum of the log loss under a penalty, as an iterator of states with a duality gap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, Singles, aligned_singles, check_restored
from spom.core.registry import register
from spom.core.state import State
from spom.errors import Unsupported
from spom.features.arc_spaces import AT, START, WIDE, Shorts
from spom.features.arcs import ArcCodes, ArcTemplates
from spom.penalties import L1, SparseMKL, Zero
from spom.penalties.forms import Split
from spom.solvers import examples
from spom.solvers.structured.accelerated import Smooth, accelerate, prox_of_blocks
from spom.solvers.structured.gap import Part, certify, soft
from spom.solvers.structured.structures import block_norms
from spom.solvers.structured.trees.gap import At, TreeField
from spom.solvers.structured.trees.model import ArcModel, block_view
from spom.solvers.structured.trees.select import count_arcs
from spom.solvers.structured.trees.space import arc_limits

# Iterations of the accelerated method between two certificates. Not tuned.
ROUNDS = 20


@register(
    "solver",
    "batch-arcs",
    examples=lambda: [BatchArcs(*examples.two_trees(), penalty=penalty) for penalty in (L1(1e-3), SparseMKL(1e-3))],
    cost="O(templates) per arc, for each iteration of a round",
)
class BatchArcs:
    r"""min over theta of Omega(theta) + (1/N) sum_i (log Z_i(theta) - score_i(gold tree)), with a certificate.

    Accelerated proximal gradient over the weights that occur in arcs of these sentences. Iterating yields a `State` at
    the start and after every `ROUNDS` iterations: `theta` has these weights, one template after another; `objective`
    and `internal["gap"]` refer to them; the gap is the difference to the best lower bound so far. Weights and gradients
    are tables in single precision, so the gap does not get much below 1e-5 of the objective.

    `penalty` is one of single weights, of block norms, or both, such as `L1`, `GroupLasso`, `SparseMKL` and
    `SparseGroupLasso`; all are solved as they are, without a prior selection. `start` is a state to resume, or weights
    as in `ArcModel.weights`; other arguments are those of `ArcSolver`.

    >>> from spom.penalties import SparseMKL
    >>> from spom.solvers import examples
    >>> solver = iter(BatchArcs(*examples.two_trees(), penalty=SparseMKL(0.1)))
    >>> bool(next(solver).internal["gap"] < 1e-6)
    True
    """

    def __init__(
        self,
        templates: ArcTemplates,
        codes: ArcCodes,
        gold: Ints,
        *,
        penalty: Any,
        projective: bool = False,
        limits: Shorts | None = None,
        start: State | Singles | None = None,
    ) -> None:
        form = penalty.split(len(templates.blocks))
        if form is None:
            raise Unsupported(f"{penalty!r} is no exact sum of penalties of single weights and of block norms")
        self.form: Split = form
        self.templates, self.layout = templates, templates.layout()
        self.limits = arc_limits(templates, codes, gold, limits)
        self.field = TreeField(templates, codes, gold, self.limits, projective=projective)
        self.count, self.table = max(1, codes.first.size), aligned_singles(self.layout.size)
        self.places, self.starts = self._alive()
        self.theta = np.zeros(self.places.size)
        self.k, self.seconds, self.best, self.curvature = 0, 0.0, 0.0, 1.0
        self.resumed = isinstance(start, State)
        if isinstance(start, State):
            self.restore(start)
        elif start is not None:
            self.theta = start[self.places].astype(np.float64)

    def _alive(self) -> tuple[Ints, Ints]:
        """Return the places of weights that occur in arcs, grouped by template, and the start of each template."""
        field, counts = self.field, self.field.table(aligned_singles(self.layout.size))
        count_arcs(field.task, np.arange(field.sentences), field.layout, counts)
        found, starts = [], [0]
        for f, slot in self.templates.places:
            rows, columns = np.nonzero(block_view(counts.weights, self.layout, f, slot))
            begin, wide, at = (int(self.layout.families[f, k]) for k in (START, WIDE, AT + slot))
            found.append(begin + rows * wide + at + columns)
            starts.append(starts[-1] + rows.size)
        return np.concatenate(found), np.array(starts)

    def __iter__(self) -> Iterator[State]:
        """Yield the state at the start, unless this run resumes one, then one after each round of iterations."""
        if not self.resumed:
            yield self._state(self._at(self.theta))
        while True:
            begin = time.perf_counter()
            problem = Smooth(self._loss, self._prox)
            self.theta, self.curvature = accelerate(problem, self.theta, self.curvature, ROUNDS)
            self.k += 1
            found = self._at(self.theta)
            self.seconds += time.perf_counter() - begin
            yield self._state(found)

    def _at(self, theta: Floats) -> At:
        self.table[self.places] = theta
        return self.field.at(self.table)

    def _loss(self, theta: Floats) -> tuple[float, Floats]:
        found = self._at(theta)
        return float(found.losses.sum()) / self.count, self._mean_gradient(found)

    def _mean_gradient(self, found: At) -> Floats:
        return np.asarray(found.gradient[self.places].astype(np.float64) / self.count)

    def _prox(self, theta: Floats, step: float) -> Floats:
        """Apply the prox of single weights, then that of block norms; in this order the result is exact."""
        (l1, l2), norms = self.form
        out: Floats = soft(theta, step * l1) / (1.0 + step * l2)
        return out if isinstance(norms, Zero) else prox_of_blocks(out, self.starts, norms, step)

    def _state(self, found: At) -> State:
        norms = None if isinstance(self.form.norms, Zero) else self.form.norms
        part = Part(self.theta[:, None], self._mean_gradient(found)[:, None], self.form.elastic, norms, self.starts)
        bounds = certify(found.losses, found.entropies, [part])
        self.best = max(self.best, bounds.dual)
        gap = np.array(max(bounds.primal - self.best, 0.0))
        return State(
            k=self.k,
            theta=self.theta.copy(),
            objective=bounds.primal,
            loss=float(found.losses.sum()) / self.count,
            block_norms=block_norms(self.theta, self.starts),
            seconds=self.seconds,
            internal={"gap": gap, "bounds": np.array([self.best, self.curvature])},
        )

    def restore(self, state: State) -> None:
        """Resume from a state, with the same bits."""
        like = {"theta": self.theta, "bounds": np.zeros(2)}
        kept = check_restored({"theta": state.theta, **state.internal}, like, "resume with the same sentences")
        self.theta, (self.best, self.curvature) = kept["theta"].copy(), (float(v) for v in kept["bounds"])
        self.k, self.seconds = state.k, state.seconds

    def model(self) -> ArcModel:
        """Return the weights as a model."""
        weights = aligned_singles(self.layout.size)
        weights[self.places] = self.theta
        return ArcModel(self.templates, self.layout, self.limits, weights)
