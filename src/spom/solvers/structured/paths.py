"""One label sequence: its score, and its parts."""

from __future__ import annotations

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.solvers.structured.residual import Parts


@kernel("float64(Parts, int64[::1])")
def path_score(scores: Parts, y: Ints) -> float:
    """The score of a path: its labels, steps, beginning and end."""
    unary, chain = scores
    n, k = unary.shape
    s = float(chain[k, y[0]] + chain[k + 1, y[n - 1]])
    for t in range(n):
        s += unary[t, y[t]]
        if t > 0:
            s += chain[y[t - 1], y[t]]
    return s


@kernel("void(int64[::1], float64, Parts)")
def add_path(y: Ints, sign: float, out: Parts) -> None:
    """Add `sign` for each label, each step, the beginning and the end of a path."""
    n, k = out.unary.shape
    for t in range(n):
        out.unary[t, y[t]] += sign
        if t > 0:
            out.shared[y[t - 1], y[t]] += sign
    out.shared[k, y[0]] += sign
    out.shared[k + 1, y[n - 1]] += sign
