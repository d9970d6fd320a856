r"""Weights of sentences and of tokens.

A sentence of weight w counts w times. If the tokens of a sentence have their own weights, its loss is

    sum over levels v_1 < v_2 < ... of (v_j - v_(j-1)) L(labels of the tokens with a weight of v_j or more),

with v_0 = 0 and all other labels unknown (`spom.solvers.structured.structures`). So a token of weight zero has an
unknown label, equal weights are a weight of the sentence, and a token of weight 2 among tokens of weight 1 counts
once more with only its own label known.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import DataError
from spom.solvers.structured.chains.data import Tokens


def check_sample_weight(sample_weight: Any, offsets: Ints) -> list[Floats]:
    """Return one array per sentence, of one weight or of one per token.

    >>> check_sample_weight([2, [1, 0.5]], np.array([0, 3, 5]))
    [array([2.]), array([1. , 0.5])]
    """
    given, lengths = list(sample_weight), np.diff(offsets).tolist()
    if len(given) != len(lengths):
        raise DataError(f"sample_weight has {len(given)} entries for {len(lengths)} sentences: there must be one each")
    found = []
    for i, (one, n) in enumerate(zip(given, lengths, strict=True)):
        try:
            weights = np.atleast_1d(np.asarray(one, dtype=np.float64))
        except (TypeError, ValueError):
            raise DataError(f"sample_weight, sentence {i}: expected a number, or one for each token") from None
        if np.ndim(one) > 1 or (np.ndim(one) == 1 and weights.size != n):
            raise DataError(f"sample_weight, sentence {i}: {weights.size} weights for {n} tokens")
        if not np.isfinite(weights).all() or (weights < 0.0).any():
            raise DataError(f"sample_weight, sentence {i}: weights must be finite and not negative")
        found.append(weights)
    if found and not any(weights.any() for weights in found):
        raise DataError("sample_weight is zero everywhere: no sentence would count")
    return found


def is_per_token(weights: list[Floats]) -> bool:
    """Return whether the weights of the tokens of some sentence differ."""
    return any(w.size > 1 and bool((w != w[0]).any()) for w in weights)


def sentence_weights(weights: list[Floats]) -> Floats:
    """Return one weight per sentence, if its tokens do not differ."""
    return np.array([w[0] if w.size else 0.0 for w in weights])


def levels(weights: Floats, y: Ints) -> list[tuple[Ints, float]]:
    """Return (labels, weight) of each level: labels of tokens below it are unknown.

    >>> levels(np.array([1.0, 3.0]), np.array([0, 1]))
    [(array([0, 1]), 1.0), (array([-1,  1]), 2.0)]
    """
    values = np.unique(np.append(weights[weights > 0.0], 0.0)).tolist()
    return [(np.where(weights >= high, y, -1), high - low) for low, high in pairwise(values)]


def weighted(tokens: Tokens, y: Ints, weights: list[Floats]) -> tuple[Tokens, Ints, Floats]:
    """Return (tokens, labels, weights of sentences): sentences whose tokens differ are repeated for each level."""
    if not is_per_token(weights):
        return tokens, y, sentence_weights(weights)
    which: list[int] = []
    labels: list[Ints] = []
    each: list[float] = []
    for i, (a, b) in enumerate(pairwise(tokens.offsets.tolist())):
        own = np.broadcast_to(weights[i], (b - a,)) if weights[i].size == 1 else weights[i]
        for known, weight in levels(own, y[a:b]):
            which.append(i)
            labels.append(known)
            each.append(weight)
    return tokens.part(which), np.concatenate(labels), np.array(each)
