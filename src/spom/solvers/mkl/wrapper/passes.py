"""One pass of structured Pegasos with one kernel."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.viterbi import viterbi
from spom.solvers.mkl.frank_wolfe.passes import (
    GRAMS,
    Dual,
    Numbers,
    Sequences,
    Visit,
    Work,
    augmented,
    distance,
    find_near,
    move,
    push,
)


class Pegasos(NamedTuple):
    """The steps before this pass, the largest squared norm of w, and [factor, squared norm of w]: w = factor (A, V)."""

    done: Annotated[int, "int64"]
    largest: Annotated[float, "float64"]
    state: Annotated[Floats, "float64[::1]"]


@kernel("Tuple((int64, float64))(Visit, int64[::1], float64[:, ::1], float64, int32[::1])")
def find_margin(visit: Visit, gold: Ints, steps: Floats, cost: float, both: Any) -> tuple[int, float]:
    """(wrong tokens, score of gold less that of the labels found); gold and found labels go into `both`."""
    n, unary = gold.size, visit.unary
    wrong, margin = 0, 0.0
    for s in range(n):
        both[s], both[n + s] = gold[s], visit.found[s]
        if visit.found[s] != gold[s]:
            wrong += 1
            margin += unary[s, gold[s]] - unary[s, visit.found[s]] + cost
    if wrong == 0:
        return 0, 0.0
    for s in range(1, n):
        margin += steps[both[s - 1], both[s]] - steps[both[n + s - 1], both[n + s]]
    return wrong, margin


def _pegasos(
    order: Ints, sequences: Sequences, K: Any, numbers: Numbers, pegasos: Pegasos, dual: Dual, work: Work
) -> None:
    """w <- (1 - 1/t) w + (1/t) weight (right features - features found), and back into the ball.

    That is Pegasos for 1/2 norm(w)^2 + mean loss.
    """
    offsets, gold, k = sequences.offsets, sequences.gold, dual.F.shape[0]
    factor, squared = pegasos.state[0], pegasos.state[1]
    none, steps = np.zeros(k), np.empty((k, k))
    both = np.empty(2 * work.found.size, dtype=np.int32)
    for place in range(order.size):
        i, t = order[place], pegasos.done + place + 1
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        near = work.square[: n * n].reshape(n, n)
        visit = Visit(near, work.unary[:n], work.change[:n], work.found[:n], numbers.pair)
        augmented(dual.F, factor, gold, begin, numbers.cost, visit.unary)
        for a in range(k):
            for b in range(k):
                steps[a, b] = factor * dual.T[a, b]
        viterbi(visit.unary, steps, none, none, visit.found)
        work.tally[0] += 1
        shrink = 1.0 - 1.0 / t
        squared *= shrink * shrink
        if t == 1 or factor < 1e-20:
            # The factor would become zero, or lose the small entries of A: put it into what it multiplies.
            for array in dual:
                array *= factor * shrink
            factor = 1.0
        else:
            factor *= shrink
        wrong, margin = find_margin(visit, gold[begin : begin + n], steps, numbers.cost, both)
        if wrong == 0:
            continue
        find_near(K, numbers.scale, begin, near)
        g = sequences.weight[i] / t
        squared += 2.0 * g * shrink * margin + g * g * distance(both, 0, n, near, numbers.pair)
        move(both, n, 0, g / factor, visit, dual)
        work.tally[2] += push(visit.change, begin, K, numbers.scale, dual.A, dual.F)
        if squared > pegasos.largest:
            factor *= math.sqrt(pegasos.largest / squared)
            squared = pegasos.largest
    pegasos.state[0], pegasos.state[1] = factor, squared


_REST = "Numbers, Pegasos, Dual, Work)"
pegasos_single = kernel(f"void(int64[::1], Sequences, {GRAMS[0]}, {_REST}")(_pegasos)
pegasos_double = kernel(f"void(int64[::1], Sequences, {GRAMS[1]}, {_REST}")(_pegasos)
