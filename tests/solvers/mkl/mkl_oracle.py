"""The optimum of a tiny problem by a cone solver, in the primal, with every output written down."""

from __future__ import annotations

import itertools
from typing import Any

import cvxpy as cp
import numpy as np

from spom.solvers.mkl.problem import KernelProblem


def tiny(seed: int = 0, sequences: int = 6, labels: int = 3, kernels: int = 3, chain: bool = True) -> Any:
    """Return (problem, features), with explicit features that the solver gets as Gram matrices."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, sequences) if chain else np.ones(sequences, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    y = rng.integers(0, labels, n)
    features = [rng.standard_normal((n, 2)) for _ in range(kernels)]
    # The first block knows something of the labels, the last is noise.
    features[0][:, 0] += y
    features[1][:, 1] -= 0.5 * y
    grams = [X @ X.T for X in features]
    problem = KernelProblem.of(grams, y, labels, offsets, transitions=chain)
    return problem, features


def optimum(
    problem: KernelProblem, features: list[Any], omega: Any, strength: float, learnt: bool = False
) -> tuple[float, Any]:
    """(objective, block norms) at the optimum; `omega(norms)` is the penalty as a cvxpy expression of block norms.

    With `learnt` the norm of the transitions is the last of the norms; else they have a penalty of their own.
    """
    k = problem.n_labels
    W = [cp.Variable((k, X.shape[1])) for X in features]
    T = cp.Variable((k, k))
    losses = []
    for i in range(problem.n_sequences):
        tokens = range(problem.offsets[i], problem.offsets[i + 1])
        gold = [int(problem.y[u]) for u in tokens]

        outputs = list(itertools.product(range(k), repeat=len(gold)))
        scores = [_score(labels, tokens, W, T, features, problem.transitions) for labels in outputs]
        wrong = [sum(a != b for a, b in zip(labels, gold, strict=True)) for labels in outputs]
        right = scores[outputs.index(tuple(gold))]
        weight = problem.weight[i] if problem.weight.size else 1.0
        losses.append(weight * (cp.max(cp.hstack(scores) + np.array(wrong)) - right))
    norms = [cp.norm(w, "fro") for w in W]
    if learnt:
        norms = [*norms, cp.norm(T, "fro")]
    penalty = omega(norms)
    if problem.transitions and not learnt:
        penalty = penalty + 0.5 * strength * cp.sum_squares(T)
    goal = cp.Problem(cp.Minimize(penalty + sum(losses) / problem.n_sequences))
    goal.solve(solver="CLARABEL")
    return float(goal.value), np.array([float(n.value) for n in norms])


def _score(labels: Any, tokens: Any, W: Any, T: Any, features: Any, chain: bool) -> Any:
    places = list(zip(labels, tokens, strict=True))
    s = sum(cp.sum(cp.multiply(w[y], X[u])) for w, X in zip(W, features, strict=True) for y, u in places)
    return s + sum(T[a, b] for a, b in itertools.pairwise(labels)) if chain else s
