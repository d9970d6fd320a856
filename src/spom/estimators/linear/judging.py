"""How well scores fit held-out rows, and whether one choice is surely better than another.

Classes are judged by the log-loss after the scores were multiplied by the best number, real targets by their loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel


@dataclass(frozen=True)
class Trial:
    """One strength on the path: its multiple, and its results on the held-out rows."""

    multiple: float
    losses: Floats
    right: Floats
    calibration: float


def judged(multiple: float, y: Any, weight: Floats, loss: Any, scores: Floats) -> Trial:
    """Judge the scores of held-out rows with these targets and weights."""
    if loss.target == "real":
        losses = np.asarray(loss.value(y, scores))
        return Trial(multiple, losses, -losses, 1.0)
    if loss.target == "sign":
        # One score is the difference of two: it is equivalent to two scores of half its size.
        scores, gold = np.column_stack([-0.5 * scores, 0.5 * scores]), (y > 0).astype(np.int64)
    else:
        gold = y.astype(np.int64)
    factor, losses = calibrated(scores, gold, weight)
    return Trial(multiple, losses, (scores.argmax(axis=1) == gold).astype(np.float64), factor)


@kernel("float64(float64[:, ::1], int64[::1], float64[::1], float64[::1])")
def fit_factor(scores: Floats, gold: Ints, share: Floats, losses: Floats) -> float:
    """Return the factor that minimises the log-loss of the scores, and set `losses`; scores become gaps to the top."""
    n, k = scores.shape
    size = 0.0
    for i in range(n):
        top = scores[i, 0]
        for c in range(1, k):
            top = max(top, scores[i, c])
        for c in range(k):
            scores[i, c] -= top
            size -= scores[i, c]
    factor = 1.0 / max(size / (n * k), 1e-12)
    for _ in range(20):
        slope = curve = 0.0
        for i in range(n):
            total = first = second = 0.0
            for c in range(k):
                odds = math.exp(factor * scores[i, c])
                total += odds
                first += odds * scores[i, c]
                second += odds * scores[i, c] * scores[i, c]
            mean = first / total
            slope += share[i] * (mean - scores[i, gold[i]])
            curve += share[i] * (second / total - mean * mean)
        # The best factor for scores that separate all rows is infinite: take a large one.
        new = min(max(factor - slope / max(curve, 1e-300), factor / 4.0), 4.0 * factor, 1e4)
        done = abs(new - factor) <= 1e-6 * factor
        factor = max(new, 1e-6)
        if done:
            break
    for i in range(n):
        total = 0.0
        for c in range(k):
            total += math.exp(factor * scores[i, c])
        losses[i] = math.log(total) - factor * scores[i, gold[i]]
    return float(factor)


def calibrated(scores: Floats, gold: Ints, weight: Floats) -> tuple[float, Floats]:
    """Return the factor that minimises the log-loss of the scores, and the losses there, by Newton's method.

    >>> import numpy as np
    >>> factor, losses = calibrated(np.array([[1.0, 0.0]] * 4), np.array([0, 0, 0, 1]), np.ones(4))
    >>> round(factor, 4), round(float(np.log(3)), 4)
    (1.0986, 1.0986)
    """
    losses = np.empty(gold.size)
    own = np.array(scores, dtype=np.float64, order="C")
    return float(fit_factor(own, gold, weight / weight.sum(), losses)), losses


def best_trial(trials: Sequence[Trial], default: float, weight: Floats, errors: float = 1.0) -> Trial:
    """Return the trial nearest to the default multiple among those that are not surely worse than the best."""
    best = min(trials, key=lambda trial: float(weight @ trial.losses))
    kept = [trial for trial in trials if not surely_better(trial.losses, best.losses, weight, errors)]
    return min(kept, key=lambda trial: abs(math.log(trial.multiple / default)))


def surely_better(high: Floats, low: Floats, weight: Floats, errors: float = 1.0) -> bool:
    """Tell whether the mean of `high` exceeds that of `low` by more than `errors` standard errors of the difference.

    >>> import numpy as np
    >>> surely_better(np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0]), np.ones(4))
    True
    """
    share = weight / weight.sum()
    gap = high - low
    mean = float(share @ gap)
    return mean > errors * math.sqrt(float(share**2 @ (gap - mean) ** 2))
