"""The machine of a kernel classifier with `penalty="auto"`: pairs of classes, with kernel weights from held-out rows.

Three folds of the rows compare the weights learnt with the penalty and others (`mkl.candidates`), each at several
values of C, by a support vector machine for each pair of classes (`solvers.mkl.pairs`). The penalty's weights at the
default C are kept unless another choice is right more often, by a sign test of the rows where only one is right.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats, Ints
from spom.estimators.mkl.candidates import Rows, Weights, candidates
from spom.estimators.mkl.model import KernelModel
from spom.solvers.mkl.pairs import duels, pair_machines, votes

# Values of C from strong to weak, the default, and the risk taken to leave it, that of one standard error (see docs,
# defaults).
COSTS, DEFAULT, RISK = (0.125, 0.5, 2.0, 8.0, 32.0, 128.0), 2.0, 0.159
# The maximum number of rows for the choice, and the number of folds; with fewer rows than `FEW` there is no choice.
MOST, FOLDS, FEW = 2000, 3, 10
# With more classes than this the table of pairs would be too large.
MANY_CLASSES = 100
# The last fit ends after a pass in which no margin that could improve was off by more.
TOLERANCE = 1e-6


class Machine(NamedTuple):
    """Weights, C, the number of held-out rows, and the share of these that was right."""

    weights: Weights
    cost: float = DEFAULT
    held: int = 0
    share: float = 0.0

    def told(self) -> str:
        """Describe the choice and its reason."""
        if not self.held:
            return f"{self.weights.told()}, too few rows to compare"
        return f"{self.weights.told()}, C {self.cost:g}: {self.share:.1%} of {self.held} held-out rows right"


def chosen_machine(rows: Rows, learnt: Floats, seed: int) -> Machine:
    """Return the best of the learnt weights, equal weights and a single kernel, and the best C."""
    some = np.flatnonzero(rows.weight > 0.0)
    some = np.sort(np.random.default_rng(seed).permutation(some)[:MOST])
    if some.size < FEW:
        return Machine(Weights("learnt", learnt))
    rows = rows.some(some)
    every = candidates(rows, learnt)
    right = [own for weights in every for own in rights(rows, weights, seed)]
    keys = [(weights, cost) for weights in every for cost in COSTS]
    shares = [float(np.average(own, weights=rows.weight)) for own in right]
    default = COSTS.index(DEFAULT)
    # Ties go to the first weights, and to the C nearest to the default.
    best = max(
        range(len(keys)), key=lambda k: (round(shares[k], 9), -(k // len(COSTS)), -abs(np.log(keys[k][1] / DEFAULT)))
    )
    if chance(right[best], right[default], rows.weight) > RISK:
        best = default
    return Machine(*keys[best], int(some.size), shares[best])


def chance(high: Floats, low: Floats, weight: Floats) -> float:
    """Return how likely `high` is right in so many of the rows where only one is, if both were equally good.

    >>> rows = np.ones(3), np.zeros(3), np.ones(3)
    >>> round(chance(*rows), 6), chance(np.ones(3), np.ones(3), np.ones(3))
    (0.125, 1.0)
    """
    wins, losses = float(weight @ (high > low)), float(weight @ (high < low))
    return float(scipy.special.betainc(wins, losses + 1.0, 0.5)) if wins else 1.0


def folds_of(y: Any, seed: int) -> Ints:
    """Return the fold of each row; folds have the same share of each class, or alike targets."""
    order = np.random.default_rng(seed).permutation(y.size)
    order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(y.size, dtype=np.int64)
    folds[order] = np.arange(y.size) % FOLDS
    return folds


def rights(rows: Rows, weights: Weights, seed: int) -> Floats:
    """Return (costs, rows): whether each row is right at each C, by a machine learnt without it."""
    K, y, folds = rows.sum(weights), rows.y, folds_of(rows.y, seed)
    found = np.zeros((len(COSTS), y.size))
    for fold in range(FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        block = K[np.ix_(test, train)]
        machines = pair_machines(K[np.ix_(train, train)], y[train], rows.weight[train], COSTS)
        found[:, test] = [predicted(block, alpha, y[train]) == y[test] for alpha in machines]
    return found


def predicted(block: Any, alpha: Floats, owner: Ints) -> Ints:
    """Return the class with most votes of each row of a block between rows and training rows of classes `owner`."""
    shift = _shift(alpha, owner)
    return np.asarray(votes(duels(block, alpha, owner) + shift - shift.T).argmax(axis=1))


def _shift(alpha: Floats, owner: Ints) -> Floats:
    """Return the constants: in row a the sum of alpha over the rows of class a."""
    count = alpha.shape[1]
    found = np.zeros((count, count))
    np.add.at(found, owner, alpha)
    return found


def fitted_machine(rows: Rows, machine: Machine, X: Any) -> tuple[KernelModel, Floats]:
    """Return (the model, the norm of each kernel's block) of a machine learnt from all rows."""
    every, width = machine.weights.kernels, machine.weights.width
    alpha = pair_machines(rows.sum(machine.weights), rows.y, rows.weight, [machine.cost], TOLERANCE)[0]
    shift = _shift(alpha, rows.y)
    on, columns = np.flatnonzero(every), np.flatnonzero(alpha.any(axis=1))
    owner, alpha = rows.y[columns], alpha[columns]
    weights, share = every[on], every[on] / rows.sizes[on]
    norms = np.zeros(every.size)
    for m, s, w in zip(on.tolist(), share.tolist(), weights.tolist(), strict=True):
        norms[m] = np.sqrt(s * w * _square(rows.gram(m, width)[np.ix_(columns, columns)], alpha, owner))
    support = None if X is None else X[columns]
    chosen = [rows.kernels[m] for m in on.tolist()] if rows.kernels else []
    if width != 1.0:
        chosen = [kernel.widened(width)[0] for kernel in chosen]
    model = KernelModel(on, chosen, share[:, None, None] * alpha, support, columns)
    model.owner, model.shift = owner, weights[:, None, None] * (shift - shift.T)
    return _as_scores(model) if alpha.shape[1] == 2 else model, norms


def _square(K: Any, alpha: Floats, owner: Ints) -> float:
    """Return the sum over pairs of the squared norms of f_ab without its constant."""
    total = 0.0
    for a in np.unique(owner).tolist():
        own = np.flatnonzero(owner == a)
        total += float((alpha[own] * duels(K[own], alpha, owner)[:, a]).sum())
    return max(total, 0.0)


def _as_scores(model: KernelModel) -> KernelModel:
    """Return the model with two scores, whose difference is f_01, instead of one pair."""
    assert model.owner is not None
    assert model.shift is not None
    sign = np.where(model.owner == 0, 0.5, -0.5)
    own = model.coef.sum(axis=2) * sign
    model.coef = np.ascontiguousarray(np.stack([own, -own], axis=2))
    model.shift = 0.5 * model.shift[:, 0, 1, None] * np.array([1.0, -1.0])
    model.owner = None
    return model
