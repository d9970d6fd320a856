r"""Safe screening: two rules for weights of a random field that are zero at the optimum under an l1 penalty.

Counts: whatever the model, the sum of gradients of feature j and label a is at most the larger of the occurrences of j
with a and without a. If this is at most l1, the weight is zero.

Gap: entropy is 1-strongly concave in the l1 norm (Pinsker), so the optimal q* is near the q of a certificate:
sum_i norm1(q_i - q*_i)^2 <= 2 gap, and the sum of gradients of feature j differs by at most

    sqrt(gap / 2) sqrt(sum_i c_ij^2),   c_ij = sum over the tokens of sentence i of |x_tj|.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Tokens


@kernel("void(Tokens, int64[::1], float64[:, ::1], float64[::1])")
def count_features(tokens: Tokens, y: Ints, counts: Floats, squares: Floats) -> None:
    """Add up |x| for each feature and gold label, and sum_i c_ij^2 for each feature."""
    now, last = np.zeros(squares.size), np.full(squares.size, -1)
    for i in range(tokens.offsets.size - 1):
        for t in range(tokens.offsets[i], tokens.offsets[i + 1]):
            for e in range(tokens.indptr[t], tokens.indptr[t + 1]):
                j, x = tokens.indices[e], abs(tokens.values[e]) if tokens.values.size else 1.0
                counts[j, y[t]] += x
                if last[j] != i:
                    squares[j] += now[j] * now[j]
                    now[j], last[j] = 0.0, i
                now[j] += x
    for j in range(squares.size):
        squares[j] += now[j] * now[j]


class Screen:
    """Counts of features, and rules for the weights that can be non-zero."""

    def __init__(self, tokens: Tokens, y: Ints, features: int, labels: int) -> None:
        self.counts, squares = np.zeros((features, labels)), np.zeros(features)
        count_features(tokens, y, self.counts, squares)
        self.lengths = np.sqrt(squares)
        self.signed = bool(tokens.values.size) and bool((tokens.values < 0.0).any())

    def by_counts(self, l1: float) -> NDArray[np.bool_]:
        """Return a mask of the weights that no count rules out; `l1` is the strength for the sum of losses."""
        total = self.counts.sum(axis=1, keepdims=True)
        most = (
            np.broadcast_to(total, self.counts.shape) if self.signed else np.maximum(self.counts, total - self.counts)
        )
        return np.asarray(most > l1)

    def by_gap(self, gradient: Floats, gap: float, l1: float) -> NDArray[np.bool_]:
        """Return a mask of weights that a certificate does not rule out; gradient and gap are sums over sentences."""
        radius = np.sqrt(0.5 * max(gap, 0.0)) * self.lengths
        return np.asarray(np.abs(gradient) + radius[:, None] >= l1)
