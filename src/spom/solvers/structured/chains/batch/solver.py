"""Chains, solved to the optimum of the log loss under a penalty, as an iterator of states with a duality gap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spom.core.arrays import Floats, Ints
from spom.core.registry import register
from spom.core.state import State
from spom.decoders.schemes import Constraints
from spom.errors import Unsupported
from spom.penalties import L1, SparseMKL
from spom.penalties.forms import Elastic
from spom.solvers import examples
from spom.solvers.structured.accelerated import Smooth, accelerate, prox_of_blocks
from spom.solvers.structured.chains.batch.newton import Objective, Point, dual_step, newton_step
from spom.solvers.structured.chains.batch.screening import Screen
from spom.solvers.structured.chains.data import Singles, as_blocks, as_tokens, check_gold, padded
from spom.solvers.structured.chains.field import Expectations, Field
from spom.solvers.structured.chains.gap import has_bound, parts_of
from spom.solvers.structured.chains.solver import Terms, forbidden_scores, terms_of
from spom.solvers.structured.gap import Part, certify, soft
from spom.solvers.structured.structures import block_norms

# A round has at most STEPS Newton steps. It ends when the model of a step gains less than SMALL_GAIN of the objective,
# and a search for a bound follows. On CoNLL-2000 2e-3 gave a gap below .01 sooner than 5e-4. The gap after a search is
# about the root of the gain, so the next search, at a gain smaller by FINER, finds a seventh of the gap.
STEPS, SMALL_GAIN, FINER = 4, 2e-3, 50.0
# The maximum number of dual steps per search: on CoNLL-2000 each moves gradients closer to their bounds by a factor of
# two to ten. A search ends when scaling them costs less than SMALL_COST of the gap, or when a step leaves more than
# STILL of the excess. .3 in place of .5 took one more step for a gap of .0064 in place of .0085; STILL is not tuned.
DUAL_STEPS, SMALL_COST, STILL = 8, 0.5, 0.7
# Iterations of the accelerated method between two certificates.
ROUNDS = 60
# Up to this many tokens, decoding is exact to all digits. Above it, six digits are three times as fast, and the gap
# does not close below about 1e-5. Not tuned.
SMALL = 20_000


@register(
    "solver",
    "batch-chain",
    examples=lambda: [
        BatchChain(*examples.two_sentences(), penalty=penalty) for penalty in (L1(0.05), SparseMKL(0.05))
    ],
    cost="O(non-zeros + labels^2) per token, for each pass of a round",
)
class BatchChain:
    r"""min over w of Omega(w) + (1/N) sum_i (log Z_i(w) - score_i(gold)), to a certified distance from the optimum.

    Iterating yields a `State` at the start and after every round of steps: `objective`, `internal["gap"]` (the
    difference to the best lower bound so far) and `internal["screened"]`, the number of weights that are certainly
    zero. Elastic penalties are minimised by damped Newton steps over a working set of weights, with steps to a feasible
    point of the dual when the objective hardly changes; others by accelerated proximal gradient.

    Parameters
    ----------
    rows, y, labels, blocks, constraints : as `OnlineChain` takes them; but y without unknown labels.
    penalty : `L1`, `ElasticNet`, `SquaredL2`, or one that `OnlineChain` takes for blocks.
    transitions : `"learnt"`, `"fixed"` or None, as for `OnlineChain`; with `"fixed"` the penalty must have a squared
        part, or there is no certificate.
    support : (features x labels, (labels + 2) x labels) of booleans: the weights that exist. None: all of them.
    start : a `State`, or (weights of features, weights of the chain).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from spom.penalties import L1
    >>> rows = SimpleNamespace(indptr=[0, 1, 2, 3, 4], indices=[0, 1, 0, 1], values=[], offsets=[0, 2, 4])
    >>> solver = iter(BatchChain(rows, [0, 1, 0, 1], 2, penalty=L1(0.1)))
    >>> gaps = [float(next(solver).internal["gap"]) for _ in range(6)]
    >>> gaps[0] > 0.1, gaps[-1] < 1e-6
    (True, True)
    """

    def __init__(
        self,
        rows: Any,
        y: ArrayLike,
        labels: int,
        *,
        blocks: Any = None,
        penalty: Any,
        transitions: str | None = "learnt",
        constraints: Constraints | None = None,
        support: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
        start: State | tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        indices = np.asarray(rows.indices)
        self.blocks = as_blocks(blocks, int(indices.max()) + 1 if indices.size else 0)
        self.tokens = as_tokens(rows, self.blocks.total)
        self.labels, self.penalty, self.transitions = int(labels), penalty, transitions
        self.y: Ints = check_gold(y, self.tokens, self.labels)
        self.forbidden = forbidden_scores(constraints, self.labels)
        self.field = Field(self.tokens, self.y, self.forbidden, exact=self.tokens.total <= SMALL)
        self.terms: Terms = terms_of(penalty, len(self.blocks), transitions)
        self.bounded = has_bound(penalty, len(self.blocks), transitions)
        k, p = self.labels, self.blocks.total
        allowed = self.forbidden > -np.inf
        on, chain_on = (np.ones((p, k), dtype=bool), allowed) if support is None else support
        self.on: NDArray[np.bool_] = on
        self.chain_on: NDArray[np.bool_] = chain_on & allowed & (transitions is not None)
        self.W, self.chain = np.zeros((p, k)), np.zeros((k + 2, k))
        self.k, self.seconds, self.best, self.curvature, self.gain = 0, 0.0, 0.0, 1.0, np.inf
        self.feasible: Expectations | None = None
        self.resumed, self.stale = isinstance(start, State), False
        if start is not None:
            self._start(start)
        self.screen = Screen(self.tokens, self.y, p, k)
        if self.terms.norms is None and self.terms.elastic.l1 > 0.0:
            self.on = self.on & self.screen.by_counts(self.terms.elastic.l1 * len(self.tokens))
            self.W *= self.on

    def _start(self, start: Any) -> None:
        size = self.W.size
        if isinstance(start, State):
            theta = np.asarray(start.theta, dtype=np.float64)
            if theta.shape != (size + self.chain.size,):
                raise ValueError(f"start must have {size + self.chain.size} weights; it has {theta.size}")
            self.W, self.chain = theta[:size].reshape(self.W.shape), theta[size:].reshape(self.chain.shape)
            self.k, self.seconds = start.k, start.seconds
            self.best, self.curvature, self.gain = (float(v) for v in start.internal["bounds"])
            if "on" in start.internal:
                self.on = np.unpackbits(start.internal["on"], count=size).astype(bool).reshape(self.W.shape)
        else:
            W, chain = (np.asarray(a, dtype=np.float64) for a in start)
            self.W, self.chain = W[:, : self.labels] * self.on, np.where(self.chain_on, chain, 0.0)

    def __iter__(self) -> Iterator[State]:
        """Yield the state at the start, unless this run resumes one, then one after each round of iterations."""
        found = self._at(self.W, self.chain)
        if not self.resumed:
            yield self._state(found)
        while True:
            begin = time.perf_counter()
            if self.stale:
                found = self._at(self.W, self.chain)
            found = self._round(found)
            self.k += 1
            self.seconds += time.perf_counter() - begin
            yield self._state(found)

    def weights(self) -> tuple[Singles, Floats]:
        """Return the weights as (features, labels padded to whole vectors) and (labels + 2, labels)."""
        table = np.zeros((self.W.shape[0], padded(self.labels)), dtype=np.float32)
        table[:, : self.labels] = self.W
        return table, self.chain.copy()

    def parts_at_zero(self) -> list[Part]:
        """Return zero weights with their mean gradients, from which the strengths that keep them at zero follow."""
        self.W, self.chain = np.zeros_like(self.W), np.zeros_like(self.chain)
        return self._parts(self._at(self.W, self.chain))

    # --- parts of it ---------------------------------------------------------------------------------------

    def _at(self, W: Floats, chain: Floats) -> Expectations:
        found = self.field.at(W, chain)
        np.multiply(found.gradient, self.on, out=found.gradient)
        np.multiply(found.chain_gradient, self.chain_on, out=found.chain_gradient)
        return found

    def _parts(self, found: Expectations) -> list[Part]:
        n, learnt = max(1, len(self.tokens)), slice(None if self.transitions is not None else 0)
        means = found.gradient / n, (found.chain_gradient / n)[learnt]
        return parts_of((self.W, self.chain[learnt]), means, self.blocks.starts, self.terms)

    def _dual(self, found: Expectations, primal: float) -> float:
        """Return the lower bound from some distributions, and screen the weights that it shows to be zero."""
        parts, elastic = self._parts(found), self.terms.elastic
        dual = certify(found.losses, found.entropies, parts).dual
        if self.terms.norms is None and elastic.l1 > 0.0 and self.bounded:
            n, s = len(self.tokens), min([1.0, *(part.scale() for part in parts)])
            self.on = self.on & self.screen.by_gap(s * found.gradient, n * (primal - dual), n * elastic.l1)
        return dual

    def _state(self, found: Expectations) -> State:
        primal = certify(found.losses, found.entropies, self._parts(found)).primal
        duals = [self._dual(one, primal) for one in (found, self.feasible) if one is not None]
        # If weights are screened that are not yet zero, the next round needs a new pass.
        self.stale = bool((self.W != 0.0)[~self.on].any())
        self.W, self.feasible = self.W * self.on, None
        self.best = max(self.best, *duals) if self.bounded else np.nan
        loss = float(found.losses.sum()) / max(1, len(self.tokens))
        return State(
            k=self.k,
            theta=np.concatenate([self.W.reshape(-1), self.chain.reshape(-1)]),
            objective=primal,
            loss=loss,
            block_norms=block_norms(self.W, self.blocks.starts),
            seconds=self.seconds,
            internal={
                "gap": np.array(max(primal - self.best, 0.0)),
                "bounds": np.array([self.best, self.curvature, self.gain]),
                "screened": np.array(int(self.on.size - self.on.sum())),
                "on": np.packbits(self.on),
            },
        )

    def _round(self, found: Expectations) -> Expectations:
        if self.terms.norms is None:
            return self._newton(found)
        self._accelerated()
        return self._at(self.W, self.chain)

    def _newton(self, found: Expectations) -> Expectations:
        """Take some Newton steps, and dual steps if the last one gained little; the last of these gives a bound."""
        n, (l1, l2), chain = len(self.tokens), self.terms.elastic, self.terms.chain
        forms = Elastic(n * l1, n * l2), Elastic(n * chain.l1, n * chain.l2)
        objective = Objective(self.field, self.on, self.chain_on, forms)
        flat = objective.flat(found.gradient, found.chain_gradient)
        point = objective.point(objective.flat(self.W, self.chain), flat, found)
        enough = min(SMALL_GAIN * point.value, self.gain / FINER)
        for _ in range(STEPS):
            step = newton_step(objective, point, self.curvature, self.field.exact)
            point, self.curvature = step.point, step.factor
            if step.gain < enough:
                break
        dual = self.bounded and l2 == chain.l2 == 0.0 and objective.l1.min(initial=1.0) > 0.0
        if dual and step.gain < enough:
            self.gain = step.gain
            points = self._feasible(objective, point)
            self.feasible = objective.expectations(points[-1])
            # Dual steps often lower the objective as well.
            point = min([point, *points], key=lambda one: one.value)
        self.W, self.chain = objective.tables(point.x)
        return objective.expectations(point)

    def _feasible(self, objective: Objective, point: Point) -> list[Point]:
        """Return points with gradients ever closer to their bounds, until scaling these costs little of the gap."""
        points: list[Point] = []
        value, now, before = point.value, point, np.inf
        for _ in range(DUAL_STEPS):
            now = dual_step(objective, now, self.field.exact)
            points.append(now)
            over = float((np.abs(now.gradient) / objective.l1).max(initial=0.0)) - 1.0
            cost = over * float((now.entropies - now.losses).sum())
            if over > STILL * before or cost < SMALL_COST * max(value - float(now.entropies.sum()), 1e-9 * value):
                break
            before = over
        return points

    def _accelerated(self) -> None:
        n, k, rows = max(1, len(self.tokens)), self.labels, self.blocks.total
        if self.transitions is not None and not self.bounded:
            raise Unsupported("the chain needs a penalty: take transitions='learnt', or a penalty with a squared part")

        def loss(theta: Floats) -> tuple[float, Floats]:
            found = self._at(theta[:rows], theta[rows:])
            return float(found.losses.sum()) / n, np.vstack([found.gradient, found.chain_gradient]) / n

        start = np.vstack([self.W, self.chain])
        theta, self.curvature = accelerate(Smooth(loss, self._prox), start, self.curvature, ROUNDS)
        self.W, self.chain = theta[:rows], theta[rows:].reshape(k + 2, k)

    def _prox(self, theta: Floats, step: float) -> Floats:
        """Return the prox of the penalty on the rows of features, then those of the chain."""
        rows, terms = self.blocks.total, self.terms
        starts = np.append(self.blocks.starts, theta.shape[0]) if terms.together else self.blocks.starts
        out = soft(theta, step * terms.elastic.l1)
        out[:rows] /= 1.0 + step * terms.elastic.l2
        if not terms.together:
            out[rows:] = soft(theta[rows:], step * terms.chain.l1) / (1.0 + step * terms.chain.l2)
        out[: int(starts[-1])] = prox_of_blocks(out[: int(starts[-1])], starts, terms.norms, step)
        return out
