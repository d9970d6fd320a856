"""The best sequences of many sentences in one compiled call, without a loop in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.decoders.chain import Chain
from spom.decoders.viterbi import viterbi


@kernel("int64(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[::1], int64[::1])")
def viterbi_many(unary: Floats, transition: Floats, begin: Floats, end: Floats, offsets: Ints, out: Ints) -> int:
    """Viterbi for the tokens offsets[i] to offsets[i + 1] - 1 of each i; a sentence that has no sequence, or -1."""
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        if b > a and viterbi(unary[a:b], transition, begin, end, out[a:b]) == -np.inf:
            return i
    return -1


def best_many(chain: Chain, scores: Any, offsets: ArrayLike) -> Ints:
    """The labels of all tokens: `chain.best` of each sentence, with the scores of all sentences in one array.

    `scores` are those of `Chain.best`; sentence i has the rows offsets[i] to offsets[i + 1] - 1 of the unary scores. A
    call holds no lock and keeps no state.

    >>> import numpy as np
    >>> from spom.decoders import Chain
    >>> unary = np.array([[1.0, 0.0], [0.0, 0.4], [0.0, 2.0]])
    >>> stay = np.array([[0.5, 0.0], [0.0, 0.5]])
    >>> best_many(Chain(), (unary, stay), offsets=[0, 2, 3])
    array([0, 0, 1])
    """
    parts = chain._parts(scores)
    n = parts.unary.shape[0]
    bounds = np.ascontiguousarray(offsets, dtype=np.int64)
    if bounds.ndim != 1 or bounds.size == 0 or bounds[0] != 0 or bounds[-1] != n or (np.diff(bounds) < 0).any():
        raise ValueError(f"offsets must rise from 0 to the {n} tokens of the unary scores")
    out = np.empty(n, dtype=np.int64)
    bad = int(viterbi_many(*parts, bounds, out))
    if bad >= 0:
        raise ValueError(f"sentence {bad}: {chain._nothing()}")
    return out
