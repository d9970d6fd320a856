"""Learning of chains written down plainly: every sequence is listed, theta is one dense vector, nothing is lazy."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np


def problem(seed: int, sentences: int = 7, k: int = 3, features: int = 11, values: bool = False) -> Any:
    """Random sentences, an empty one and one of a token among them; three blocks of features, one of them empty."""
    rng = np.random.default_rng(seed)
    lengths = [0, 1, *rng.integers(1, 5, sentences - 2)]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = [rng.permutation(features)[: rng.integers(0, 5)] for _ in range(offsets[-1])]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate(rows)
    x = rng.standard_normal(indices.size) if values else np.zeros(0)
    y = rng.integers(0, k, offsets[-1])
    starts = np.array([0, 4, 4, features])
    return SimpleNamespace(
        rows=SimpleNamespace(indptr=indptr, indices=indices, values=x, offsets=offsets),
        y=y,
        k=k,
        features=features,
        blocks=SimpleNamespace(starts=starts, names=("a", "none", "b")),
    )


def dense(p: Any, i: int) -> np.ndarray:
    """Return the tokens of sentence i as dense rows."""
    r = p.rows
    out = np.zeros((r.offsets[i + 1] - r.offsets[i], p.features))
    for t in range(out.shape[0]):
        for e in range(r.indptr[r.offsets[i] + t], r.indptr[r.offsets[i] + t + 1]):
            out[t, r.indices[e]] += r.values[e] if r.values.size else 1.0
    return out


def parts(path: Any, X: np.ndarray, k: int) -> np.ndarray:
    """phi(x, y): features times labels, then steps, beginnings and ends."""
    W, chain = np.zeros((X.shape[1], k)), np.zeros((k + 2, k))
    for t, label in enumerate(path):
        W[:, label] += X[t]
        if t:
            chain[path[t - 1], label] += 1
    chain[k, path[0]] += 1
    chain[k + 1, path[-1]] += 1
    return np.concatenate([W.ravel(), chain.ravel()])


def loss_and_gradient(name: str, theta: np.ndarray, X: np.ndarray, y: Any, k: int, cost: float) -> Any:
    """(loss, gradient, the marginal P(gold label) of each token) by the list of all sequences."""
    paths = list(itertools.product(range(k), repeat=len(y)))
    phi = np.array([parts(path, X, k) for path in paths])
    gold = parts(tuple(y), X, k)
    scores = phi @ theta
    if name in ("hinge", "softmax-margin"):
        scores = scores + cost * np.array([sum(a != b for a, b in zip(path, y, strict=True)) for path in paths])
    if name in ("hinge", "perceptron"):
        # Of equals the decoder takes the one with the lower label at the last token where they differ.
        equals = np.flatnonzero(scores >= scores.max() - 1e-6)
        best = min(equals, key=lambda i: paths[i][::-1])
        return scores[best] - gold @ theta, phi[best] - gold, None
    top = scores.max()
    p = np.exp(scores - top)
    log_partition = top + np.log(p.sum())
    p /= p.sum()
    sure = np.array([sum(q for q, path in zip(p, paths, strict=True) if path[t] == y[t]) for t in range(len(y))])
    return log_partition - gold @ theta, p @ phi - gold, sure


def token_squares(name: str, theta: np.ndarray, X: np.ndarray, y: Any, k: int, cost: float) -> np.ndarray:
    """Return squared gradients of single tokens, as AdaGrad's rates sum them; those of the chain as a whole."""
    gradient = loss_and_gradient(name, theta, X, y, k, cost)[1]
    squares = np.zeros_like(gradient)
    size = X.shape[1] * k
    squares[size:] = gradient[size:] ** 2
    residual = np.zeros((len(y), k))
    for t in range(len(y)):
        # The derivative in the unary scores of token t: a feature of its own there.
        marked = np.zeros((len(y), X.shape[1] + 1))
        marked[:, :-1], marked[t, -1] = X, 1.0
        longer = np.concatenate([theta[:size], np.zeros(k), theta[size:]])
        residual[t] = loss_and_gradient(name, longer, marked, y, k, cost)[1][size : size + k]
    table = squares[:size].reshape(X.shape[1], k)
    for t in range(len(y)):
        for j in np.flatnonzero(X[t]):
            table[j] += (X[t, j] * residual[t]) ** 2
    return squares
