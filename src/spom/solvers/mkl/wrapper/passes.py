"""One pass of structured Pegasos with one kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.viterbi import viterbi
from spom.solvers.mkl.frank_wolfe.passes import DUAL, GRAMS, WORK, augmented, distance, move, push

# Scale of the kernel, that of transitions, cost of a wrong token, and the largest squared norm.
SETTINGS = "UniTuple(float64, 4)"


def _pegasos(
    order: Ints,
    offsets: Ints,
    gold: Ints,
    weight: Floats,
    K: Any,
    settings: Any,
    done: int,
    numbers: Floats,
    dual: Any,
    work: Any,
) -> None:
    """w <- (1 - 1/t) w + (1/t) weight (right features - features found), and back into the ball.

    That is Pegasos for 1/2 norm(w)^2 + mean loss. w is factor times what A and V say; `numbers` has the factor and
    norm(w)^2.
    """
    scale, pair, cost, largest = settings
    A, F, V, T = dual
    wide, square, labels, tally = work
    factor, squared = numbers[0], numbers[1]
    k = F.shape[0]
    none, steps = np.zeros(k), np.empty((k, k))
    both = np.empty(2 * labels.size, dtype=np.int32)
    for place in range(order.size):
        i, t = order[place], done + place + 1
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        unary, change, found = wide[0, :n], wide[1, :n], labels[:n]
        augmented(F, factor, gold, begin, cost, unary)
        for a in range(k):
            for b in range(k):
                steps[a, b] = factor * T[a, b]
        viterbi(unary, steps, none, none, found)
        tally[0] += 1
        shrink = 1.0 - 1.0 / t
        squared *= shrink * shrink
        if t == 1 or factor < 1e-20:
            # The factor would become zero, or lose the small entries of A: put it into what it multiplies.
            for array in dual:
                array *= factor * shrink
            factor = 1.0
        else:
            factor *= shrink
        wrong, margin = 0, 0.0
        for s in range(n):
            both[s], both[n + s] = gold[begin + s], found[s]
            if found[s] != gold[begin + s]:
                wrong += 1
                margin += unary[s, gold[begin + s]] - unary[s, found[s]] + cost
        if wrong == 0:
            continue
        for s in range(1, n):
            margin += steps[both[s - 1], both[s]] - steps[both[n + s - 1], both[n + s]]
        near = square[: n * n].reshape(n, n)
        for s in range(n):
            for r in range(n):
                near[s, r] = scale * K[begin + s, begin + r]
        g = weight[i] / t
        squared += 2.0 * g * shrink * margin + g * g * distance(both, 0, n, near, pair)
        move(both, n, 0, g / factor, near, pair, unary, change, V, T)
        tally[2] += push(change, begin, K, scale, A, F)
        if squared > largest:
            factor *= math.sqrt(largest / squared)
            squared = largest
    numbers[0], numbers[1] = factor, squared


_REST = f"{SETTINGS}, int64, float64[::1], {DUAL}, {WORK})"
pegasos_single = kernel(f"void(int64[::1], int64[::1], int64[::1], float64[::1], {GRAMS[0]}, {_REST}")(_pegasos)
pegasos_double = kernel(f"void(int64[::1], int64[::1], int64[::1], float64[::1], {GRAMS[1]}, {_REST}")(_pegasos)
