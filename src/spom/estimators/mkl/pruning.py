"""`prune=` of estimators with kernels: fewer kernels that do as well on held-out rows, or selection by knockoffs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spom.core.arrays import Floats, Ints
from spom.errors import Unsupported
from spom.estimators.mkl.pairs import FOLDS, folds_of
from spom.estimators.mkl.training import Blocks
from spom.estimators.pruning import FEWEST, Dropping, asked_rate, good_enough
from spom.solvers.mkl.knockoffs import MOST, KernelSelection, select_kernels

# Shares of the kernels in use that are tried, after the best kernel alone.
SHARES = (1 / 3, 1 / 2, 2 / 3)


@dataclass(frozen=True)
class HeldOutSelection:
    """The kernels `kept`, the mean weight of each as `evidence`, the rows that judged, and a line per comparison."""

    kept: Ints
    evidence: Floats
    rows: int
    seconds: float
    tried: tuple[str, ...]


@dataclass
class KernelPruning(Dropping):
    """The dropped kernels, the evidence, and the cost of the selection."""

    selection: KernelSelection | HeldOutSelection

    def __str__(self) -> str:
        found = self.selection
        head = (
            f"{len(self.dropped)} of {len(self.names)} kernels dropped, from {found.rows} rows in {found.seconds:.2f} s"
        )
        tried, heading = (found.tried, "weight") if isinstance(found, HeldOutSelection) else ((), "evidence")
        rows = [f"  {e:>8.2f}" for e in found.evidence]
        return "\n".join([*self._promise("kernels"), head, *tried, *self._table(("kernel", f"  {heading:>8}"), rows)])


@dataclass(frozen=True)
class Task:
    """What a kernel estimator learns: its kernels, rows (None with given Gram matrices), targets and weights."""

    model: Any
    blocks: Blocks
    X: Any
    y: Any
    weight: Floats

    def some(self, kept: Ints, rows: Ints, columns: Ints) -> Any:
        """Return the input of these kernels alone for some rows; Gram matrices have the columns of training rows."""
        if self.blocks.kernels:
            return self.X[rows]
        return [self.blocks.block(m, None, rows, columns) for m in kept.tolist()]

    def fitted(self, kept: Ints, rows: Ints) -> Any:
        """Return the estimator learnt from these rows with these kernels."""
        seed = self.model.random_state if isinstance(self.model.random_state, (int, np.integer)) else 0
        found = clone(self.model).set_params(prune=None, callbacks=None, verbose=0, random_state=seed)
        given = found.get_params(deep=False)
        found.set_params(**{name: off for name, off in _OFF.items() if name in given})
        vars(found).pop("_skl_callbacks", None)
        if self.blocks.kernels:
            found.set_params(kernels=[self.model.blocks_[self.blocks.order[m]] for m in kept.tolist()])
        return found.fit(self.some(kept, rows, rows), self.y[rows], self.weight[rows])

    def size(self, kept: Ints) -> int:
        """Return how many kernel values a prediction takes if these kernels are learnt from all rows."""
        found = self.fitted(kept, np.flatnonzero(self.weight > 0.0))
        return int(found.n_support_ * np.count_nonzero(found.block_weights_))

    def goodness(self, kept: Ints, rows: Ints, held: Ints) -> tuple[Floats, Floats]:
        """Return (the share of each held-out row in accuracy or R2, the weight of each kernel)."""
        model, y = self.fitted(kept, rows), self.y[held]
        found = model.predict(self.some(kept, held, rows))
        weights = np.zeros(len(self.blocks.grams))
        weights[kept] = model.block_weights_
        if hasattr(model, "classes_"):
            return (found == y).astype(np.float64), weights
        variance = float(np.average((self.y - np.average(self.y, weights=self.weight)) ** 2, weights=self.weight))
        return 1.0 - (found - y) ** 2 / (variance or 1.0), weights


# Parameters that a fit on a part of the rows does without.
_OFF: dict[str, Any] = {"class_weight": None, "probability": False, "patience": None}


def pruned(prune: Any, task: Task, targets: Floats, seed: int) -> tuple[Blocks, KernelPruning | None]:
    """Return the blocks that `prune` keeps, and the report; all blocks without it. `targets` go to `select_kernels`."""
    blocks = task.blocks
    if prune is None:
        return blocks, None
    auto = isinstance(prune, str) and prune == "auto"
    if not auto and not isinstance(prune, dict):
        raise ValueError(f"prune must be 'auto', {{'false_discovery_rate': a number below 1}} or None; it is {prune!r}")
    rate = 0.0 if auto else asked_rate(prune)
    if blocks.explicit:
        raise Unsupported(
            "prune= chooses among kernels, and these are explicit features: give more memory, or set prune=None"
        )
    if auto:
        found: KernelSelection | HeldOutSelection = selected_on_held_out(task, seed)
    else:
        found = select_kernels(
            lambda m, rows: blocks.block(m, task.X, rows, rows), len(blocks.grams), targets, rate, seed
        )
        found.check_some("kernels")
    names = tuple(repr(kernel) for kernel in blocks.kernels) or tuple(map(str, range(len(blocks.grams))))
    return blocks.some(found.kept), KernelPruning(names, found)


def selected_on_held_out(task: Task, seed: int) -> HeldOutSelection:
    """Return the fewest of the kernels with the largest weights that are good enough on held-out rows.

    The rule is that of `estimators.pruning`, row by row; at most 2,000 rows are used. The model of all rows must not
    be larger than that with every kernel: with other kernels beside it, a kernel may need fewer support vectors.
    """
    begin, count = time.perf_counter(), len(task.blocks.grams)
    rows = np.flatnonzero(task.weight > 0.0)
    rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MOST])
    every = np.arange(count)
    if rows.size < FEWEST or count < 2:
        told = f"all are kept: {rows.size} rows are too few to compare" if count > 1 else "there is one kernel"
        return HeldOutSelection(every, np.full(count, 1.0 / count), 0, time.perf_counter() - begin, (told,))
    folds = folds_of(task.y[rows], seed)
    if hasattr(task.model, "classes_"):
        # A row that is alone in its class is in all parts that are learnt from.
        _, first, sizes = np.unique(task.y[rows], return_index=True, return_counts=True)
        folds[first[sizes == 1]] = -1
    parts = [(rows[folds != k], rows[folds == k]) for k in range(FOLDS)]
    share = task.weight[np.concatenate([held for _, held in parts])]
    share = share / share.sum()

    def judged(kept: Ints) -> tuple[Floats, Floats]:
        found = [task.goodness(kept, learnt, held) for learnt, held in parts]
        return np.concatenate([own for own, _ in found]), np.mean([weights for _, weights in found], axis=0)

    full, weights = judged(every)
    order, used = np.argsort(-weights, kind="stable"), int(np.count_nonzero(weights))
    kept, tried, whole = every, [], 0
    for size in sorted({1, *(max(1, round(s * used)) for s in SHARES), used} - {0, count}):
        some = np.sort(order[:size])
        smaller = judged(some)[0]
        before, after = float(share @ full), float(share @ smaller)
        error = float(np.sqrt(share**2 @ (full - smaller - before + after) ** 2))
        good, told = good_enough(before, after, error)
        if good:
            whole, own = whole or task.size(every), task.size(some)
            good, told = own <= whole, f"{told}; {own} kernel values per prediction, {whole} with all"
        tried.append(f"{size} of {count}: {told}: {'taken' if good else 'refused'}")
        if good:
            kept = some
            break
    return HeldOutSelection(kept, weights, int(rows.size), time.perf_counter() - begin, tuple(tried))
