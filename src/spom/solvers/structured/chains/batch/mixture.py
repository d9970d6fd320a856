r"""A better lower bound under an l1 penalty: a mixture of the distributions that a minimiser has visited.

Near the optimum the gradients of heavy weights swing around their bounds, so that no single iterate is nearly feasible
for the dual, but a mixture q = sum_k a_k p_k is: its gradient is sum_k a_k g_k, its entropy at least sum_k a_k H(p_k),
and its probability of the gold labels sum_k a_k p_k(gold). The weights a come from a linear program,

    max over a in the simplex, v >= 0 of  sum_k a_k H_k - slope v,   |sum_k a_k g_kj| <= (1 + v) l1_j for all j,

`slope` being what the dual loses when all of q is scaled to be feasible. Only a few of the a_k are not zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from spom.core.arrays import Floats, Ints

# Constraints that the program begins with, and the most rounds of adding those that are violated. On 1,000 sentences of
# CoNLL-2000 the first 200 were all that it ever needed.
FIRST, ROUNDS = 200, 20
# Iterates with a smaller part in the mixture are left out: each costs a pass.
LEAST = 1e-3


class Visited(NamedTuple):
    """The gradient of the sum of losses at a point, losses and entropies of all outputs."""

    gradient: Floats
    losses: Floats
    entropies: Floats


def mixing_weights(visited: list[Visited], l1: Floats) -> Floats:
    """The a_k, summing to one; l1 of each weight is that of a sum of losses.

    >>> import numpy as np
    >>> ends = [Visited(np.array([g]), np.ones(1), np.array([h])) for g, h in ((3.0, 2.0), (-1.0, 1.0))]
    >>> mixing_weights(ends, np.ones(1))
    array([0.5, 0.5])
    """
    G = np.stack([one.gradient / l1 for one in visited])
    entropy = np.array([float(one.entropies.sum()) for one in visited])
    slope = max(1.0, float((visited[-1].entropies - visited[-1].losses).sum()))
    use: Ints = np.argsort(-np.abs(G).max(axis=0), kind="stable")[:FIRST]
    count = len(visited)
    for _ in range(ROUNDS):
        rows, slack = G[:, use].T, np.ones((use.size, 1))
        found = linprog(
            np.append(-entropy, slope),
            A_ub=np.block([[rows, -slack], [-rows, -slack]]),
            b_ub=np.ones(2 * use.size),
            A_eq=np.append(np.ones(count), 0.0)[None],
            b_eq=[1.0],
        )
        if found.x is None:
            return np.asarray(np.eye(count)[-1])
        a = np.where(found.x[:-1] >= LEAST, found.x[:-1], 0.0)
        a /= a.sum()
        over = np.flatnonzero(np.abs(G.T @ found.x[:-1]) > 1.0 + found.x[-1] + 1e-6)
        new = np.setdiff1d(over, use)
        if new.size == 0:
            break
        use = np.append(use, new)
    return np.asarray(a)
