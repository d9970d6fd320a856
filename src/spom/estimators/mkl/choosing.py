"""The strength of a kernel classifier's penalty, from rows held out in turn.

Strengths are given as C = 1 / (strength N). Rows are held out as for linear models (`estimators.linear.strength`) and
judged by the log-loss of their scores times the best single factor. The default C is kept unless another one is better
by more than half a standard error of the difference, row by row.

With `penalty="auto"` each kernel is also tried alone. The penalty weighs kernels by how well they fit the training
rows, and a kernel that fits these less well may do better on others. The best single kernel is chosen if it is right
more often than all kernels together by more than two standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from spom.core.arrays import Floats, Ints
from spom.estimators.linear.judging import Trial, best_trial, calibrated, surely_better
from spom.estimators.linear.strength import Examples, held_out
from spom.kernels.gram import as_gram
from spom.penalties.base import with_strength
from spom.solvers.mkl.problem import chosen_penalty

# C from strong to weak, the default, and the number of standard errors needed to leave it. On rows held out from the
# training rows of nine tables, this rule was better than the best single kernel by .0035 on average and worse by .0025
# at most; with one table left out at a time it was chosen for seven of nine (docs: defaults).
COSTS, DEFAULT, ERRORS = (0.03, 0.125, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0), 8.0, 0.5
# Standard errors by which a single kernel must be better. On rows held out from eight tables, with one to three seeds,
# one error is worse on average than two, and log-loss is worse than accuracy, which changes only adult, by .012.
ALONE = 2.0
# The C that corresponds to the strength of `chosen_penalty`.
UNIT = 2.0
# The maximum numbers of rows and passes for the choice: the best C hardly depends on them.
MOST, EPOCHS = 2000, 20
# The number of worse values of C in a row that ends the path.
PATIENCE = 2

# With more kernels the choice would cost many times a fit: C is `UNIT`, which was measured with 100 and 1,000 kernels.
MANY = 20

# Maps (rows, columns) to a block of each Gram matrix.
Grams = Callable[[Ints, Ints], list[Any]]


class Chosen(NamedTuple):
    """A penalty, the number of held-out rows (0: a default), their result for each C, and the single kernel, if any."""

    penalty: Any
    held: int
    trials: list[Trial]
    only: int | None = None


def at_cost(given: str, count: int, total: float, cost: float) -> Any:
    """Return the penalty of that name at C, for `count` blocks and examples of this total weight.

    >>> at_cost("auto", 2, 100.0, 8.0)
    SparseMKL(strength=0.00125)
    """
    found = chosen_penalty(given, count, total)
    strength = getattr(found, "strength", None)
    return found if strength is None else with_strength(found, strength * UNIT / cost)


def chosen_on_held_out(model: Any, grams: Grams, y: Ints, weight: Floats, seed: int, alone: bool = False) -> Chosen:
    """Return the penalty that `model.penalty` names, with a C from held-out rows; `alone` also tries single kernels."""
    some = np.flatnonzero(weight > 0.0)
    count = len(grams(some[:1], some[:1]))
    some = np.sort(np.random.default_rng(seed).permutation(some)[:MOST])
    plain = chosen_penalty(model.penalty, count, float(weight.sum()))
    if count > MANY or not hasattr(plain, "strength"):
        return Chosen(plain, 0, [])
    parts = held_out(Examples(np.empty((some.size, 0)), y[some], None, None, False), seed)
    if not parts:
        return Chosen(_rounded(at_cost(model.penalty, count, float(weight.sum()), DEFAULT)), 0, [])
    pairs = [(np.delete(some, part), some[part]) for part in parts]
    # Parts of checked matrices need no check.
    machines = [(a, b, [as_gram(gram, check=False) for gram in grams(a, a)], grams(b, a)) for a, b in pairs]
    share = weight[np.concatenate([test for _, test in pairs])]
    trials = list(_trials(model, machines, y, weight))
    best, only = best_trial(trials, DEFAULT, share, ERRORS), None
    if alone and count > 1:
        first = [next(_trials(model, _one(machines, m), y, weight, (DEFAULT,))) for m in range(count)]
        m = int(np.argmin([float(share @ trial.losses) for trial in first]))
        own = list(_trials(model, _one(machines, m), y, weight))
        rival = best_trial(own, DEFAULT, share, ERRORS)
        if surely_better(rival.right, best.right, share, ALONE):
            best, only, trials, count = rival, m, own, 1
    penalty = _rounded(at_cost(model.penalty, count, float(weight.sum()), best.multiple))
    return Chosen(penalty, share.size, trials, only)


def _rounded(penalty: Any) -> Any:
    return with_strength(penalty, float(f"{penalty.strength:.3g}"))


def _one(machines: list[Any], m: int) -> list[Any]:
    """Return the same machines with kernel m alone."""
    return [(train, test, learnt[m : m + 1], blocks[m : m + 1]) for train, test, learnt, blocks in machines]


def _trials(model: Any, parts: list[Any], y: Ints, weight: Floats, costs: tuple[float, ...] = COSTS) -> Iterator[Trial]:
    """Yield the result of each C on the held-out rows, until it gets worse twice in a row."""
    least, worse = np.inf, 0
    rows = np.concatenate([part[1] for part in parts])
    for cost in costs:
        scores = np.concatenate([_scores(model, part, y, weight, cost) for part in parts])
        factor, losses = calibrated(scores, y[rows], weight[rows])
        yield Trial(cost, losses, (scores.argmax(axis=1) == y[rows]).astype(np.float64), factor)
        mean = float(np.average(losses, weights=weight[rows]))
        worse = 0 if mean < least else worse + 1
        least = min(least, mean)
        if worse == PATIENCE:
            return


def _scores(model: Any, part: Any, y: Ints, weight: Floats, cost: float) -> Floats:
    """Return the scores of the held-out rows of a part; a class without training rows gets the lowest score."""
    train, _, learnt, blocks = part
    machine = clone(model).set_params(kernels="precomputed", callbacks=None, verbose=0, class_weight=None)
    epochs = EPOCHS if isinstance(model.epochs, str) else min(EPOCHS, model.epochs)
    machine.set_params(probability=False, prune=None, patience=None, solver="auto", random_state=0, epochs=epochs)
    vars(machine).pop("_skl_callbacks", None)
    machine.penalty = at_cost(model.penalty, len(learnt), float(weight[train].sum()), cost)
    scores = machine.fit(learnt, y[train], weight[train])._scores(blocks)
    found = np.full((scores.shape[0], int(y.max()) + 1), float(scores.min()) - 1.0)
    found[:, machine.classes_] = scores
    return found
