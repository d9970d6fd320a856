"""Working sets: solve a sparse problem on the few blocks that matter, chosen by the gradient."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.errors import DataError, Unsupported
from spom.losses import Logistic, MulticlassLogistic, Squared
from spom.penalties import L1, GroupLasso
from spom.solvers import examples
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.duality import linear_gap
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.batch.working_set.blocks import blocks_of, row_blocks
from spom.solvers.batch.working_set.models import inner_for
from spom.solvers.batch.working_set.store import Store


@register(
    "solver",
    "working-set",
    examples=lambda: [WorkingSet(examples.least_squares(), omega) for omega in (L1(0.1), GroupLasso(0.05, 2))],
    cost="one gradient and one small problem per round",
)
class WorkingSet:
    """minimise f(theta) + Omega(w) over a set of blocks that grows until all others are optimal at zero.

    f is a `LinearSmooth` with the squared, the logistic or the multiclass logistic loss. Omega is one of L1,
    ElasticNet, GroupLasso, SparseGroupLasso (of a matrix: with its rows as groups). Each round takes the blocks that
    are not zero, and as many more that violate the optimality conditions most. It solves the problem on them by
    coordinate descent with Newton steps on the support. If the loss is not squared, this is a quadratic model of the
    loss, with a line search.

    Iterating yields one `State` per round; `internal["gap"]` is its duality gap, `internal["residual"]` the largest
    violation of the optimality conditions. Iteration ends when rounding allows no progress.

    >>> import numpy as np
    >>> from spom.losses import Squared
    >>> from spom.penalties import L1
    >>> from spom.solvers.iterate import halt, last, small
    >>> f = LinearSmooth(np.eye(3), np.array([3.0, 0.6, -1.5]), Squared())
    >>> state = last(halt(WorkingSet(f, L1(0.3)), small("gap", 1e-12)))
    >>> state.theta.round(6)
    array([ 2.1,  0. , -0.6])
    """

    def __init__(
        self,
        smooth: LinearSmooth,
        penalty: Any,
        *,
        first: int | None = None,
        start: State | Floats | None = None,
        store: Store | None = None,
    ) -> None:
        several = smooth.outputs is not None
        losses = (MulticlassLogistic, Squared) if several else (Squared, Logistic)
        if type(smooth.loss) not in losses:
            names = " and ".join(loss.__name__ for loss in losses)
            raise Unsupported(
                f"a working set of {'a matrix' if several else 'one score'} supports the losses {names}, not "
                f'{type(smooth.loss).__name__}; solver="fista" supports any smooth loss'
            )
        self.smooth, self.penalty, self.first, self.store = smooth, penalty, first, store
        theta = start.theta if isinstance(start, State) else start
        self.theta = np.zeros(smooth.shape) if theta is None else np.array(theta, dtype=np.float64)
        if self.theta.shape != smooth.shape:
            raise DataError(f"start must have shape {smooth.shape}; it has {self.theta.shape}")
        p = smooth.X.shape[1]
        blocks = row_blocks(penalty, p) if several else blocks_of(penalty, p)
        self.blocks = blocks.with_free(p) if smooth.fit_intercept else blocks

    def __iter__(self) -> Iterator[State]:
        smooth, blocks, begin, k = self.smooth, self.blocks, time.perf_counter(), 0
        theta = self.theta.copy()
        inner = inner_for(smooth, blocks, self.store)
        scores: Floats | None = None
        stop = no_progress()
        while True:
            here = smooth.at(theta, scores)
            w, g = blocks.arranged(theta), blocks.arranged(here.gradient)
            objective = here.loss + blocks.value(w)
            gap = linear_gap(smooth, self.penalty, objective, here)
            violations = blocks.violations(w, g)
            worst = float(violations.max(initial=0.0))
            yield State(
                k=k,
                theta=theta.copy(),
                objective=objective,
                loss=here.loss,
                counters=Counters(gradients=k + 1),
                seconds=time.perf_counter() - begin,
                internal={"gap": np.array(gap), "residual": np.array(worst)},
            )
            if stop(worst):
                return
            chosen = inner.choose(blocks.used(w), violations, self.first)
            if chosen.size > inner.largest:
                yield from BatchProximal(smooth, self.penalty, start=theta)
            # If no other block violates, this round may be the last one.
            whole = np.count_nonzero(violations) == np.count_nonzero(violations[chosen])
            scores = inner.solve(chosen, theta, here, worst, whole)
            k += inner.steps


def no_progress() -> Callable[[float], bool]:
    """Return a rule that stops when the largest violation has not fallen for 20 rounds, as only rounding remains."""
    best, since = math.inf, 0

    def stop(violation: float) -> bool:
        nonlocal best, since
        since = 0 if violation < 0.999 * best else since + 1
        best = min(best, violation)
        return violation == 0.0 or since >= 20

    return stop
