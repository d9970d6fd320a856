"""Small awkward problems, and the rounds of linear solvers written out on dense arrays, one coordinate after another.

Nothing here is shared with `spom`: losses, proxes and steps are written again, from their formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]


def awkward(seed: int, n: int = 13, d: int = 6, classes: int = 0) -> tuple[Any, Array, Array]:
    """CSR rows with an empty row, an empty column, equal columns and a stored zero; targets; weights, some zero."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < 0.6)
    if n > 4 and d > 3:
        X[2] = 0.0
        X[:, 1] = 0.0
        X[:, 3] = X[:, 0]
        X[1, 0] = X[1, 3] = 7.0
    y = random.integers(classes, size=n) if classes else np.where(random.random(n) < 0.5, 1.0, -1.0)
    weight = random.choice([0.0, 0.5, 1.0, 3.0], size=n, p=[0.1, 0.3, 0.3, 0.3])
    weight[-1] = 2.0
    A = sparse.csr_matrix(np.where(X == 7.0, 1.5, X))
    A.data[A.data == 1.5] = 0.0  # entries that are stored and zero
    return A, y, weight


def soft(w: Any, t: Any) -> Any:
    return np.sign(w) * np.maximum(np.abs(w) - t, 0.0)


def value(loss: str, y: float, a: float) -> float:
    if loss == "logistic":
        return float(np.logaddexp(0.0, -y * a))
    if loss == "hinge":
        return max(0.0, 1.0 - y * a)
    return 0.5 * (a - y) ** 2 if loss == "squared" else max(0.0, 1.0 - y * a) ** 2


def slope(loss: str, y: float, a: float) -> float:
    if loss == "logistic":
        return -y / (1.0 + math.exp(y * a))
    if loss == "hinge":
        return -y if y * a < 1.0 else 0.0
    return a - y if loss == "squared" else -2.0 * y * max(0.0, 1.0 - y * a)


def row_slopes(loss: str, y: int, a: Array) -> tuple[float, Array]:
    """Value and derivatives of a loss of several scores."""
    e = np.eye(a.size)[y]
    if loss == "multiclass-logistic":
        p = np.exp(a - a.max())
        p /= p.sum()
        return float(-np.log(p[y])), p - e
    z = np.maximum(0.0, 1.0 - (2 * e - 1) * a)
    return float((z * z).sum()), -2.0 * (2 * e - 1) * z


class Trajectory:
    """theta after each pass, the mean of the iterates before each round, and the mean loss of each pass."""

    def __init__(self) -> None:
        self.thetas: list[Array] = []
        self.losses: list[float] = []
        self.mean: Any = 0.0
        self.count = 0

    def before(self, theta: Any) -> None:
        """Count an iterate for the average."""
        self.mean = self.mean + np.asarray(theta)
        self.count += 1

    @property
    def average(self) -> Array:
        """The average of the iterates."""
        return np.asarray(self.mean / self.count)


def batches(n: int, size: int) -> list[range]:
    return [range(k, min(k + size, n)) for k in range(0, n, size)]


Prox = Callable[[Array, float], Array]


def forward_backward(
    A: Any, y: Array, weight: Array, loss: str, options: dict[str, Any], l1: float, l2: float
) -> Trajectory:
    """Take steps of each coordinate's own size, with l1 and squared l2; the last coordinate is the intercept.

    `options`: epochs, batch, intercept, and rule: a function of t, or ("adagrad", eta, delta), or ("auto",).
    """
    out, rule = Trajectory(), options["rule"]
    B = np.column_stack([A.toarray(), np.full(A.shape[0], 1.0 if options["intercept"] else 0.0)])
    weight = weight / weight.mean()
    w, V, R, t = np.zeros(B.shape[1]), np.zeros(B.shape[1]), np.zeros(B.shape[1]), 0
    cut = np.append(np.full(A.shape[1], l1), 0.0)
    ridge = np.append(np.full(A.shape[1], l2), 0.0)
    for _ in range(options["epochs"]):
        total = 0.0
        for rows in batches(len(y), options["batch"]):
            t += 1
            out.before(w)
            g = np.zeros_like(w)
            for i in rows:
                a = float(B[i] @ w)
                total += weight[i] * value(loss, y[i], a)
                g += weight[i] * slope(loss, y[i], a) * B[i] / len(rows)
            if callable(rule):
                w = soft(w - rule(t) * g, rule(t) * cut) / (1.0 + rule(t) * ridge)
                continue
            for j in range(w.size):
                if g[j] != 0.0:
                    V[j] += g[j] ** 2
                    if R[j] == 0.0:
                        R[j] = 0.01 / next(abs(B[i, j]) for i in rows if B[i, j] != 0.0)
                    R[j] = max(R[j], abs(w[j]))
                if V[j] > 0.0:
                    h = rule[1] / (rule[2] + math.sqrt(V[j])) if rule[0] == "adagrad" else R[j] / math.sqrt(V[j])
                    w[j] = soft(w[j] - h * g[j], h * cut[j]) / (1.0 + h * ridge[j])
        out.thetas.append(w[: A.shape[1] + options["intercept"]].copy())
        out.losses.append(total / weight.sum())
    out.mean = out.mean[: A.shape[1] + options["intercept"]]
    return out


def tied(A: Any, y: Any, weight: Array, loss: str, options: dict[str, Any], prox: Prox) -> Trajectory:
    """Take steps of one size for all of theta, including intercepts, and the prox of any penalty.

    `options` as above, and `columns`: 0 for a loss of one score. `project` is applied after each prox, `start` is
    where theta starts.
    """
    out, rule, columns = Trajectory(), options["rule"], options.get("columns", 0)
    intercept, d = options["intercept"], A.shape[1]
    B = np.column_stack([A.toarray(), np.full(A.shape[0], 1.0 if intercept else 0.0)])
    weight = weight / weight.mean()
    W = np.zeros((d + 1, max(1, columns)))
    if "start" in options:
        W[: d + intercept] = options["start"].reshape(d + intercept, -1)
    begin, gradients, distance, t = W.copy(), 0.0, 0.0, 0
    for _ in range(options["epochs"]):
        total = 0.0
        for rows in batches(len(y), options["batch"]):
            t += 1
            out.before(W)
            g = np.zeros_like(W)
            for i in rows:
                a = B[i] @ W
                v, s = row_slopes(loss, y[i], a) if columns else (value(loss, y[i], a[0]), slope(loss, y[i], a[0]))
                total += weight[i] * v
                g += np.outer(B[i], np.asarray(s) * weight[i] / len(rows))
            step = rule(t) if callable(rule) else 0.0
            if not callable(rule):
                delta = rule[2] if rule[0] == "adagrad" else 0.01
                gradients += (g * g).sum()
                first = B[rows[0], :d]
                distance = max(distance or delta / math.sqrt(1.0 + first @ first), float(np.linalg.norm(W - begin)))
                if gradients > 0.0:
                    root = math.sqrt(gradients)
                    step = rule[1] / (delta + root) if rule[0] == "adagrad" else distance / root
            W = W - step * g
            if step > 0.0:
                W[:d] = prox(W[:d].reshape(-1) if not columns else W[:d], step).reshape(d, -1)
            if "project" in options:
                W[:d] = options["project"](W[:d].reshape(-1)).reshape(d, -1)
        theta = W[: d + intercept]
        out.thetas.append(theta.copy() if columns else theta[:, 0].copy())
        out.losses.append(total / weight.sum())
    out.mean = out.mean[: d + intercept] if columns else out.mean[: d + intercept, 0]
    return out


def by_rows(A: Any, y: Any, weight: Array, loss: str, options: dict[str, Any], prox: Any) -> Trajectory:
    """Take one example per round, with several scores and one step size per row of theta; `prox(row, step, j)`."""
    out, rule, d = Trajectory(), options["rule"], A.shape[1]
    B = np.column_stack([A.toarray(), np.full(A.shape[0], 1.0 if options["intercept"] else 0.0)])
    weight = weight / weight.mean()
    W, V, R, t = np.zeros((d + 1, options["columns"])), np.zeros(d + 1), np.zeros(d + 1), 0
    for _ in range(options["epochs"]):
        total = 0.0
        for i in range(len(y)):
            t += 1
            v, s = row_slopes(loss, y[i], B[i] @ W)
            total += weight[i] * v
            g = np.outer(B[i], weight[i] * s)
            for j in range(d + 1):
                if callable(rule):
                    h = rule(t)
                else:
                    squares = float(g[j] @ g[j])
                    if squares > 0.0:
                        V[j] += squares
                        R[j] = max(R[j] or 0.01 / abs(B[i, j]), float(np.linalg.norm(W[j])))
                    if V[j] == 0.0:
                        continue
                    h = rule[1] / (rule[2] + math.sqrt(V[j])) if rule[0] == "adagrad" else R[j] / math.sqrt(V[j])
                W[j] -= h * g[j]
                if j < d:
                    W[j] = prox(W[j], h, j)
        out.thetas.append(W[: d + options["intercept"]].copy())
        out.losses.append(total / weight.sum())
    return out


def dual_averaging(
    A: Any, y: Array, weight: Array, loss: str, options: dict[str, Any], l1: float, l2: float
) -> Trajectory:
    """theta from sums of gradients, each coordinate with its own; the last coordinate is the intercept."""
    out, rule = Trajectory(), options["rule"]
    B = np.column_stack([A.toarray(), np.full(A.shape[0], 1.0 if options["intercept"] else 0.0)])
    weight = weight / weight.mean()
    d = B.shape[1]
    G, V, R, S, w, t = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), 0
    cut, ridge = np.append(np.full(d - 1, l1), 0.0), np.append(np.full(d - 1, l2), 0.0)
    for _ in range(options["epochs"]):
        total = 0.0
        for rows in batches(len(y), options["batch"]):
            t += 1
            g = np.zeros(d)
            for i in rows:
                a = float(B[i] @ w)
                total += weight[i] * value(loss, y[i], a)
                g += weight[i] * slope(loss, y[i], a) / len(rows) * B[i]
            for j in range(d):
                if g[j] != 0.0:
                    V[j] += g[j] ** 2
                    if R[j] == 0.0:
                        R[j] = 0.01 / next(abs(B[i, j]) for i in rows if B[i, j] != 0.0)
                    R[j] = max(R[j], abs(w[j]))
                    G[j] += g[j] * (R[j] if rule == ("auto",) else 1.0)
                S[j] += R[j] if rule == ("auto",) else 1.0
                if callable(rule):
                    beta = 1.0 / rule(t)
                else:
                    root = math.sqrt(V[j])
                    beta = (rule[2] + root) / rule[1] if rule[0] == "adagrad" else root
                size = abs(G[j]) - S[j] * cut[j]
                w[j] = 0.0 if size <= 0.0 else -np.sign(G[j]) * size / (beta + S[j] * ridge[j])
        out.thetas.append(w[: A.shape[1] + options["intercept"]].copy())
        out.losses.append(total / weight.sum())
    return out
