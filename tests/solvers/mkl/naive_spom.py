"""SPOM as printed, with explicit features and nothing clever: every output is written down, every norm is a norm."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def outputs(length: int, k: int) -> list[tuple[int, ...]]:
    return list(product(range(k), repeat=length))


def naive_run(
    features: list[Array],
    y: Array,
    offsets: Array,
    k: int,
    *,
    loss: str,
    penalty: Any,
    chain: bool,
    learnt: bool,
    orders: list[Array],
    eta: Any,
    cost: float = 1.0,
    radius: float = np.inf,
    weight: Array | None = None,
) -> tuple[list[Array], Array, list[Array], Array]:
    """(weights of each block, transitions, their averages over all rounds)."""
    W = [np.zeros((X.shape[1], k)) for X in features]
    T = np.zeros((k, k))
    W_sum, T_sum = [w.copy() for w in W], T.copy()
    strength = getattr(penalty, "strength", 0.0)
    t = 0
    for order in orders:
        for q in order:
            t += 1
            step = eta(t)
            a, b = int(offsets[q]), int(offsets[q + 1])
            gold = y[a:b]
            unary = sum(X[a:b] @ w for X, w in zip(features, W, strict=True))
            every = outputs(b - a, k)
            score = np.array(
                [
                    sum(unary[i, x] for i, x in enumerate(out))
                    + (sum(T[pair] for pair in pairwise(out)) if chain else 0.0)
                    for out in every
                ]
            )
            wrong = np.array([sum(x != g for x, g in zip(out, gold, strict=True)) for out in every])
            if loss == "log":
                p = np.exp(score - score.max())
                p /= p.sum()
            else:
                total = score + (cost * wrong if loss == "hinge" else 0.0)
                p = np.zeros(len(every))
                p[int(total.argmax())] = 1.0
            D, S = np.zeros((b - a, k)), np.zeros((k, k))
            for share, out in [*zip(p, every, strict=True), (-1.0, tuple(gold))]:
                for i, x in enumerate(out):
                    D[i, x] += share
                for pair in pairwise(out):
                    S[pair] += share
            w = 1.0 if weight is None else float(weight[q])
            W = [v - step * w * X[a:b].T @ D for X, v in zip(features, W, strict=True)]
            if chain:
                T = T - step * w * S
            norms = np.array([np.linalg.norm(v) for v in W] + ([np.linalg.norm(T)] if chain and learnt else []))
            new = penalty.prox(norms, step)
            ratio = np.divide(new, norms, out=np.zeros_like(norms), where=norms > 0)
            W = [r * v for r, v in zip(ratio, W, strict=False)]
            if chain:
                T = ratio[-1] * T if learnt else T / (1.0 + step * strength)
            size = np.sqrt(sum(float((v**2).sum()) for v in W) + float((T**2).sum()))
            if size > radius:
                W, T = [v * radius / size for v in W], T * radius / size
            W_sum = [s + v for s, v in zip(W_sum, W, strict=True)]
            T_sum = T_sum + T
    return W, T, [s / t for s in W_sum], T_sum / t
