"""UPOS alone: a chain with few labels, whose scores are added to those of joint labels."""

from __future__ import annotations

import numpy as np

from spom.core.arrays import Ints, Singles
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import Pairs

# The factor of the scores of UPOS alone. On ten treebanks' development files or held-out fifths it adds to UPOS and
# features, with .5: 1.89 and -.18 from 20 sentences, 1.34 and -.01 from 60, .70 and -.06 from 200; with .3: 1.48 and
# -.04, 1.09 and .06, .58 and .01; with 1: 2.11 and -.67, 1.51 and -.29, .71 and -.25.
FACTOR = 0.5


def upos_of(names: list[tuple[str, ...]]) -> Ints:
    """Return the number of each label's UPOS, in the order in which they appear.

    >>> upos_of([("NOUN", "_", "Case=Acc"), ("VERB", "_", "_"), ("NOUN", "_", "_")])
    array([0, 1, 0])
    """
    number: dict[str, int] = {}
    return np.array([number.setdefault(name[0], len(number)) for name in names], dtype=np.int64)


def added(joint: SparseWeights, alone: SparseWeights) -> tuple[SparseWeights, Singles]:
    """Return the joint weights with those of UPOS alone added to the parts that are UPOS, and scores of its steps."""
    from scipy.sparse import csr_matrix

    parts, labels, factor = joint.pairs.parts, joint.chain.shape[1], np.float32(FACTOR)
    shape = joint.pairs.starts.size - 1, parts.total
    own = csr_matrix((joint.values, joint.pairs.labels, joint.pairs.starts), shape=shape)
    more = csr_matrix((alone.values * factor, alone.pairs.labels + labels, alone.pairs.starts), shape=shape)
    found = own + more
    found.sort_indices()
    pairs = Pairs(found.indptr.astype(np.int64), found.indices.astype(np.int32), parts)
    return SparseWeights(pairs, found.data, joint.chain), alone.chain * factor


def with_steps(weights: SparseWeights, steps: Singles | None, names: list[tuple[str, ...]]) -> SparseWeights:
    """Return the weights with scores of steps of UPOS, (UPOS + 2, UPOS), added to those of labels; None for no more."""
    if steps is None:
        return weights
    upos, count = upos_of(names), steps.shape[1]
    rows = np.append(upos, [count, count + 1])
    return SparseWeights(weights.pairs, weights.values, weights.chain + steps[np.ix_(rows, upos)])
