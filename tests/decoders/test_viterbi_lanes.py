"""Viterbi in lanes gives what plain Viterbi gives, to the bit and in every tie."""

from __future__ import annotations

import numpy as np
import pytest

from spom.decoders.viterbi import viterbi
from spom.decoders.viterbi_lanes import LANES, Lanes, lay_out, viterbi_lanes


@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 22])
@pytest.mark.parametrize("kind", ["real", "ties", "forbidden", "impossible"])
def test_lanes_are_plain_viterbi(k, kind):
    rng = np.random.default_rng(k)
    lanes = -(-k // LANES) * LANES
    lay = Lanes(np.empty((lanes // 4, 4 * lanes)), np.empty((lanes, lanes)), np.empty((2, lanes)))
    value, best = np.empty((9, lanes)), np.empty((9, lanes))
    for n in (1, 2, 9):
        unary, chain = np.zeros((n, lanes)), rng.standard_normal((k + 2, k))
        unary[:, :k] = rng.standard_normal((n, k))
        if kind == "ties":
            unary, chain = np.round(unary), np.round(chain)
        if kind == "forbidden":
            chain[rng.random(chain.shape) < 0.3] = -np.inf
        if kind == "impossible":
            chain[k] = -np.inf
        lay_out(chain, lay)
        plain, ours = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        score = viterbi(np.ascontiguousarray(unary[:, :k]), chain[:k], chain[k], chain[k + 1], plain)
        assert viterbi_lanes(unary, lay, k, value, best, ours) == score
        if np.isfinite(score):
            assert ours.tolist() == plain.tolist()
