"""The machine of a kernel classifier with `penalty="auto"`: pairs of classes, with kernel weights from held-out rows.

The penalty weighs kernels by how well they fit the training rows, and a kernel that fits these less well may do better
on others. So three folds of the rows compare the weights learnt with the penalty, equal weights, and each kernel
alone, each at several values of C, by a support vector machine for each pair of classes (`solvers.mkl.pairs`).
The penalty's weights at the default C are kept unless another choice is right more often by more than 1.5 standard
errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.estimators.linear.judging import surely_better
from spom.estimators.mkl.model import KernelModel
from spom.solvers.mkl.pairs import duels, pair_machines, votes

# Values of C from strong to weak, the default, and the standard errors needed to leave it (see docs, defaults).
COSTS, DEFAULT, ERRORS = (0.125, 0.5, 2.0, 8.0, 32.0, 128.0), 2.0, 1.5
# The maximum number of rows for the choice, and the number of folds; with fewer rows than `FEW` there is no choice.
MOST, FOLDS, FEW = 2000, 3, 10
# With more classes than this the table of pairs would be too large.
MANY_CLASSES = 100
# The last fit ends after a pass in which no margin that could improve was off by more.
TOLERANCE = 1e-6


class Machine(NamedTuple):
    """Weights of kernels scaled to a mean diagonal of one, their name, C, number of held-out rows, and accuracies."""

    name: str
    weights: Floats
    cost: float
    held: int
    shares: dict[tuple[str, float], float]

    def told(self) -> str:
        """Describe the choice and its reason."""
        kernels = {"learnt": "kernels as the penalty weighs them", "equal": "all kernels alike"}
        what = kernels.get(self.name, f"kernel {self.name}")
        if not self.held:
            return f"{what}, too few rows to compare"
        return f"{what}, C {self.cost:g}: {self.shares[self.name, self.cost]:.1%} of {self.held} held-out rows right"


class Rows(NamedTuple):
    """Gram matrices as arrays, the mean of each diagonal, and the class and weight of each row."""

    grams: list[Any]
    sizes: Floats
    y: Ints
    weight: Floats


def chosen_machine(rows: Rows, learnt: Floats, seed: int) -> Machine:
    """Return the best of the learnt weights, equal weights and a single kernel, and the best C."""
    some = np.flatnonzero(rows.weight > 0.0)
    some = np.sort(np.random.default_rng(seed).permutation(some)[:MOST])
    if some.size < FEW:
        return Machine("learnt", learnt, DEFAULT, 0, {})
    y, weight = rows.y[some], rows.weight[some]
    grams, folds = [gram[np.ix_(some, some)] for gram in rows.grams], folds_of(y, seed)
    names = _candidates(learnt, rows.sizes)
    right: dict[tuple[str, float], Floats] = {}
    for name, weights in names.items():
        own = _right(_sum(grams, weights, rows.sizes), y, weight, folds)
        right |= {(name, cost): found for cost, found in zip(COSTS, own, strict=True)}
    default = ("learnt", DEFAULT)
    shares = {key: float(np.average(own, weights=weight)) for key, own in right.items()}
    # Ties go to the first weights, and to the C nearest to the default.
    best = max(shares, key=lambda key: (round(shares[key], 9), -[*names].index(key[0]), -abs(np.log(key[1] / DEFAULT))))
    name, cost = best if surely_better(right[best], right[default], weight, ERRORS) else default
    return Machine(name, names[name], cost, int(some.size), shares)


def _candidates(learnt: Floats, sizes: Floats) -> dict[str, Floats]:
    """Return weights by name; a kernel that is zero on all rows gets no weight."""
    on = (sizes > 0.0).astype(np.float64)
    equal = on / max(1.0, float(on.sum()))
    learnt = learnt / learnt.sum() if learnt.any() else equal
    if np.count_nonzero(on) < 2:
        return {"learnt": learnt}
    return {"learnt": learnt, "equal": equal, **{f"{m} alone": np.eye(on.size)[m] for m in np.flatnonzero(on)}}


def folds_of(y: Any, seed: int) -> Ints:
    """Return the fold of each row; folds have the same share of each class, or alike targets."""
    order = np.random.default_rng(seed).permutation(y.size)
    order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(y.size, dtype=np.int64)
    folds[order] = np.arange(y.size) % FOLDS
    return folds


def _sum(grams: list[Any], weights: Floats, sizes: Floats) -> Any:
    """Return the weighted sum of Gram matrices scaled to a mean diagonal of one."""
    found = np.zeros_like(grams[0])
    for m in np.flatnonzero(weights).tolist():
        found += grams[m] * grams[m].dtype.type(weights[m] / sizes[m])
    return found


def _right(K: Any, y: Ints, weight: Floats, folds: Ints) -> Floats:
    """Return (costs, rows): whether each row is right at each C, by a machine learnt without it."""
    found = np.zeros((len(COSTS), y.size))
    for fold in range(FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        block = K[np.ix_(test, train)]
        for c, alpha in enumerate(pair_machines(K[np.ix_(train, train)], y[train], weight[train], COSTS)):
            f, shift = duels(block, alpha, y[train]), _shift(alpha, y[train])
            found[c, test] = votes(f + shift - shift.T).argmax(axis=1) == y[test]
    return found


def _shift(alpha: Floats, owner: Ints) -> Floats:
    """Return the constants: in row a the sum of alpha over the rows of class a."""
    count = alpha.shape[1]
    found = np.zeros((count, count))
    np.add.at(found, owner, alpha)
    return found


def fitted_machine(rows: Rows, machine: Machine, kernels: list[Any], X: Any) -> tuple[KernelModel, Floats]:
    """Return (the model, the norm of each kernel's block) of a machine learnt from all rows."""
    K = _sum(rows.grams, machine.weights, rows.sizes)
    alpha = pair_machines(K, rows.y, rows.weight, [machine.cost], TOLERANCE)[0]
    shift = _shift(alpha, rows.y)
    on, columns = np.flatnonzero(machine.weights), np.flatnonzero(alpha.any(axis=1))
    owner, alpha = rows.y[columns], alpha[columns]
    weights, share = machine.weights[on], machine.weights[on] / rows.sizes[on]
    norms = np.zeros(machine.weights.size)
    for m, s, w in zip(on.tolist(), share.tolist(), weights.tolist(), strict=True):
        norms[m] = np.sqrt(s * w * _square(rows.grams[m][np.ix_(columns, columns)], alpha, owner))
    support = None if X is None else X[columns]
    chosen = [kernels[m] for m in on.tolist()] if kernels else []
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
