"""Dual averaging over blocks, written down in the explicit space: every output is enumerated, nothing is cached."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def minimiser(
    G: list[Array], total: float, beta: float, penalty: Any, sizes: Array, fixed: float | None
) -> list[Array]:
    """argmin of -<G, theta> + total Omega(theta) + beta/2 norm(theta)^2 for scaled blocks; the last one is transitions.

    A block of features divided by sqrt(size) has the sum G / sqrt(size); weights for the features as they are have the
    root once more. `fixed` is the strength of a squared penalty on the last block, where it is not one of the others.
    """
    own = len(G) if fixed is None else len(G) - 1
    scaled = [g / np.sqrt(s) for g, s in zip(G, sizes, strict=True)]
    norms = np.array([np.linalg.norm(g) for g in scaled[:own]])
    new = penalty.prox(norms / beta, total / beta)
    found = [(p / n if n > 0 else 0.0) * g / np.sqrt(s) for p, n, g, s in zip(new, norms, scaled, sizes, strict=False)]
    return found if fixed is None else [*found, scaled[-1] / (beta + total * fixed)]


def naive_dual_averaging(
    features: list[Array],
    y: Array,
    offsets: Array,
    k: int,
    orders: list[Array],
    *,
    loss: str,
    penalty: Any,
    limit: float,
    chain: bool = True,
    learnt: bool = False,
    strength: float = 0.0,
    weight: Any = None,
    scaled: bool = True,
    radius: float = np.inf,
) -> tuple[list[Array], list[Array]]:
    """(last, averaged) weights of the blocks, transitions last."""
    sizes = np.array([float((X**2).sum(axis=1).mean()) for X in features] + [1.0])
    sizes = sizes if scaled else np.ones(sizes.size)
    G = [np.zeros((X.shape[1], k)) for X in features] + [np.zeros((k, k))]
    squares, total, kept = 0.0, 0, []
    fixed = None if learnt and chain else strength

    def model(G: list[Array], rounds: float, beta: float) -> list[Array]:
        found = minimiser(G, rounds, beta, penalty, sizes, fixed)
        size = np.sqrt(sum(s * float((w**2).sum()) for w, s in zip(found, sizes, strict=True)))
        return [w * min(1.0, radius / size) if size > 0 else w for w in found]

    for order in orders:
        for q in order:
            a, b = offsets[q], offsets[q + 1]
            theta = model(G, total, np.sqrt(squares) / limit) if squares > 0 else [0.0 * g for g in G]
            gold, every = tuple(y[a:b].tolist()), list(product(range(k), repeat=int(b - a)))

            def parts(out: tuple[int, ...], a: int = a, b: int = b) -> list[Array]:
                hot = np.eye(k)[list(out)]
                steps = sum((np.outer(u, v) for u, v in pairwise(hot)), np.zeros((k, k)))
                return [*(X[a:b].T @ hot for X in features), steps if chain else np.zeros((k, k))]

            score = np.array([sum(float((t * f).sum()) for t, f in zip(theta, parts(o), strict=True)) for o in every])
            if loss == "log":
                p = np.exp(score - score.max())
                p /= p.sum()
            else:
                wrong = np.array([sum(u != v for u, v in zip(o, gold, strict=True)) for o in every])
                p = np.eye(len(every))[int((score + (wrong if loss == "hinge" else 0.0)).argmax())]
            w = 1.0 if weight is None else float(weight[q])
            expected = [
                sum(share * f for share, f in zip(p, block, strict=True))
                for block in zip(*map(parts, every), strict=True)
            ]
            step = [w * (right - e) for right, e in zip(parts(gold), expected, strict=True)]
            G = [g + s for g, s in zip(G, step, strict=True)]
            squares += max(float((s**2).sum()) / size for s, size in zip(step, sizes, strict=True))
            total += 1
        kept.append(([g / total for g in G], np.sqrt(squares) / limit / total))
    j = np.arange(1, len(kept) + 1)
    shares = j * (j + 1) * (j + 2) / (j * (j + 1) * (j + 2)).sum()
    mean = [sum(s * g[m] for s, (g, _) in zip(shares, kept, strict=True)) for m in range(len(G))]
    beta = kept[-1][1]
    return model(G, total, beta * total), model(mean, 1.0, beta)
