"""Passes of the proximal point method, written out on dense arrays; see `rounds` for what this shares with `spom`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.solvers.linear.rounds import Array, Trajectory, row_slopes, slope, soft, value

SMOOTH = {"logistic": 0.25, "squared": 1.0, "hinge": 1.0, "power-hinge": 2.0}


def implicit(loss: str, y: float, a: float, q: float, old: float) -> float:
    """s = phi'(y, a - q (s - old)); for the logistic loss by two Newton steps for the score, as documented."""
    if loss == "squared":
        return (a - y + q * old) / (1.0 + q)
    if loss == "hinge":
        return slope(loss, y, a) if q == 0.0 else -y * float(np.clip(-y * old + (1.0 - y * a) / q, 0.0, 1.0))
    if loss == "power-hinge":
        s = 2.0 * (a - y + q * old) / (1.0 + 2.0 * q)
        return s if y * (a - q * (s - old)) < 1.0 else 0.0
    b = a
    for _ in range(2):
        p = slope(loss, 1.0, y * b)
        b -= (b - a + q * (y * p - old)) / (1.0 + q * -p * (1.0 + p))
    return slope(loss, y, b)


def scale_of_metric(squares: Array, n: int) -> float:
    features = np.sqrt(squares).sum() ** 2 / squares.sum()
    return 0.5 * math.sqrt(1.0 + n / (5.0 * features))


class Judge:
    """Keeps a pass that does not raise the objective, and makes the metric of the next smaller, else larger."""

    def __init__(self, scale: float) -> None:
        self.scale, self.kept, self.rejected = scale, math.inf, 0

    def keeps(self, objective: float) -> bool:
        if objective <= self.kept:
            self.scale *= 0.8 if objective < self.kept else 1.0
            self.kept = objective
        else:
            self.scale, self.rejected = self.scale * 2.0, self.rejected + 1
        self.scale = min(max(self.scale, 0.02), 8.0)
        return objective == self.kept


def proximal_point(
    A: Any, y: Array, weight: Array, loss: str, l1: float, l2: float, intercept: bool, epochs: int
) -> tuple[Trajectory, Judge]:
    """Run proximal points for one score per example."""
    out, (n, d) = Trajectory(), A.shape
    B = np.column_stack([A.toarray(), np.ones(n)])[:, : d + intercept]
    weight = weight / weight.mean()
    squares = (weight[:, None] * B**2).mean(axis=0)
    if intercept:
        squares[-1] = 1.0
    judge = Judge(scale_of_metric(squares, n))
    metric = SMOOTH[loss] / n * np.sqrt(squares).sum() * np.sqrt(squares)
    metric[metric == 0.0] = 1.0
    cut, ridge = np.zeros(d + intercept), np.zeros(d + intercept)
    cut[:d], ridge[:d] = l1, l2
    anchor, dual, slopes, least = np.zeros(d + intercept), np.zeros(d + intercept), np.zeros(n), 0.0

    def mean_loss(w: Array) -> float:
        return sum(weight[i] * value(loss, y[i], float(B[i] @ w)) for i in range(n)) / n

    for k in range(epochs):
        M = judge.scale * metric
        u, inverse = M * anchor + dual, 1.0 / (M + ridge)
        total = moved = 0.0
        for i in range(n):
            over = soft(u, cut)
            a = float(B[i] @ (over * inverse))
            on = (over != 0.0) | (np.arange(d + intercept) == d)
            s = implicit(loss, y[i], a, weight[i] / n * float((B[i] ** 2 * inverse)[on].sum()), slopes[i])
            total += weight[i] * value(loss, y[i], a)
            moved += abs(s - slopes[i])
            if abs(s - slopes[i]) > least:
                u = u - weight[i] / n * (s - slopes[i]) * B[i]
                slopes[i] = s
        least = 0.4 * moved / n
        dual, point = u - M * anchor, soft(u, cut) * inverse
        omega = float(cut @ np.abs(point) + 0.5 * ridge @ point**2)
        if k == 1:
            judge.kept += mean_loss(anchor)
        if judge.keeps(omega + (mean_loss(point) if k else 0.0)):
            anchor = point
        out.thetas.append(anchor.copy())
        out.losses.append(total / n)
    return out, judge


def by_rows(A: Any, y: Any, weight: Array, loss: str, options: dict[str, Any], prox: Any) -> tuple[Trajectory, Judge]:
    """Several scores; `prox(row, j)` is that of the penalty without its squared l2 part.

    `options`: columns, intercept, epochs, l2, value (of the penalty); `ridge`, which leaves small changes for later; or
    `pairs`, the l1 strength, with what a row of data keeps of its derivatives, a function.
    """
    out, (n, d), columns = Trajectory(), A.shape, options["columns"]
    B = np.column_stack([A.toarray(), np.full(n, float(options["intercept"]))])
    weight = weight / weight.mean()
    squares = np.append((weight[:, None] * A.toarray() ** 2).mean(axis=0), float(options["intercept"]))
    judge, L = Judge(scale_of_metric(squares, n)), 0.5 if loss == "multiclass-logistic" else 2.0
    metric = L / n * np.sqrt(squares).sum() * np.sqrt(squares)
    metric[squares == 0.0] = 1.0
    anchor, dual, slopes = np.zeros((d + 1, columns)), np.zeros((d + 1, columns)), np.zeros((n, columns))
    together = np.zeros((d + 1, columns), bool)
    stored = A.tocoo()
    together[stored.col, y[stored.row]] = True
    least = 0.0
    keep = options.get("keep", lambda s: s)

    def point_of(u: Array, M: Array, may: Any) -> Array:
        w = np.array([prox(u[j], j) / (M[j] + options["l2"]) for j in range(d)] + [u[d] / M[d]])
        w[d] *= options["intercept"]
        return np.where(may, w, 0.0)

    def objective(w: Array) -> float:
        losses = [weight[i] * row_slopes(loss, y[i], B[i] @ w)[0] for i in range(n)]
        return float(sum(losses)) / n + options["value"](w[:d])

    for _ in range(options["epochs"]):
        M = judge.scale * metric
        inverse = 1.0 / (M + np.append(np.full(d, options["l2"]), 0.0))
        if "pairs" in options:
            dual = -(B * weight[:, None]).T @ slopes / n
        u = M[:, None] * anchor + dual
        may = together | (np.abs(u) > options["pairs"]) if "pairs" in options else np.ones_like(u, bool)
        may[d] = True
        total = moved = 0.0
        for i in range(n):
            w = point_of(u, M, may)
            on = w.any(axis=1) | (np.arange(d + 1) == d) | options.get("ridge", False)
            q = weight[i] / n * float((B[i] ** 2 * inverse)[on].sum())
            v, new = row_slopes(loss, y[i], B[i] @ w)
            total += weight[i] * v
            new = row_slopes(loss, y[i], B[i] @ w - q * (new - slopes[i]) / (1.0 + q * L))[1]
            change = float(np.abs(new - slopes[i]).sum())
            moved += change
            if not options.get("ridge", False) or change > least:
                new = keep(new)
                u = u - weight[i] / n * np.outer(B[i], new - slopes[i])
                slopes[i] = new
        least = 0.4 * moved / n
        dual, point = u - M[:, None] * anchor, point_of(u, M, may)
        if judge.keeps(objective(point)):
            anchor = point
        out.thetas.append(anchor[: d + options["intercept"]].copy())
        out.losses.append(total / n)
    return out, judge
