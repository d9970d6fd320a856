"""Decoders that write down every output: slow, plain, and with no code of the library in them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np


def sequences(unary: Any, transition: Any, begin: Any, end: Any) -> dict[tuple[int, ...], float]:
    """Score of each admissible sequence."""
    n, k = unary.shape
    found = {}
    for y in itertools.product(range(k), repeat=n):
        s = begin[y[0]] + end[y[-1]] + sum(unary[t, y[t]] for t in range(n))
        s += sum(transition[a, b] for a, b in itertools.pairwise(y))
        if s > -math.inf:
            found[y] = float(s)
    return found


def reaches_root(heads: tuple[int, ...]) -> bool:
    for word in range(1, len(heads) + 1):
        at = word
        for _ in heads:
            at = heads[at - 1] if at else 0
        if at:
            return False
    return True


def is_projective(heads: tuple[int, ...]) -> bool:
    """Tell whether no two arcs cross, with the root before the first word."""
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, start=1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def trees(scores: Any, single_root: bool, projective: bool) -> dict[tuple[int, ...], float]:
    """Score of each admissible tree, by its heads."""
    n = scores.shape[0] - 1
    found = {}
    for heads in itertools.product(range(n + 1), repeat=n):
        if not reaches_root(heads) or (single_root and heads.count(0) != 1):
            continue
        if projective and not is_projective(heads):
            continue
        s = float(sum(scores[h, m] for m, h in enumerate(heads, start=1)))
        if s > -math.inf:
            found[heads] = s
    return found


def labelled(scores: Any, found: dict[tuple[int, ...], float]) -> dict[Any, float]:
    """Return every labelling of every tree in `found`, with its score (the scores in `found` are ignored)."""
    out = {}
    for heads in found:
        for y in itertools.product(range(scores.shape[2]), repeat=len(heads)):
            s = float(sum(scores[h, m, y[m - 1]] for m, h in enumerate(heads, start=1)))
            if s > -math.inf:
                out[heads, y] = s
    return out


def log_partition(scores: dict[Any, float]) -> float:
    top = max(scores.values())
    return top + math.log(math.fsum(math.exp(s - top) for s in scores.values()))


def expectation(scores: dict[Any, float], parts: Callable[[Any], Any]) -> Any:
    z = log_partition(scores)
    return sum(math.exp(s - z) * np.asarray(parts(y), dtype=float) for y, s in scores.items())


def arcs_of(heads: tuple[int, ...]) -> Any:
    table = np.zeros((len(heads) + 1, len(heads) + 1))
    for m, h in enumerate(heads, start=1):
        table[h, m] = 1.0
    return table
