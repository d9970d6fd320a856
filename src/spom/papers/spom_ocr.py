"""Handwritten words with kernels: code shared by the SPOM experiments on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.data import load
from spom.decoders.viterbi import viterbi
from spom.kernels import BSpline, Gaussian, Linear, Polynomial, build
from spom.kernels.gram import DenseGram, SparseGram
from spom.penalties import SparseMKL, SquaredL2
from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.problem import KernelProblem

LABELS = 26
DUAL = "dual averaging"  # in place of a step rule: our default solver


@dataclass(frozen=True)
class Words:
    """A sequence of words: letters as rows of pixels, their labels, and where each word begins."""

    X: Any
    y: Ints
    offsets: Ints

    def __len__(self) -> int:
        return int(self.offsets.size - 1)

    def part(self, chosen: Any) -> tuple[Words, Ints]:
        """Return some of the words, and the indices of their letters."""
        spans = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in chosen]
        letters = np.concatenate(spans)
        offsets = np.concatenate([[0], np.cumsum([span.size for span in spans])])
        return Words(self.X[letters], self.y[letters], offsets), letters


@cache
def _data() -> Any:
    return load("ocr")


def words(chosen: Any = None, most: int | None = None) -> Words:
    """Return at most `most` words for which `chosen`, a function of the folds, is true."""
    data = _data()
    mask = np.ones(len(data.y), dtype=bool) if chosen is None else chosen(data.folds)
    where = np.flatnonzero(mask)
    if most is not None and most < where.size:
        # Spread over all of them, because neighbours are by the same writer.
        where = where[np.linspace(0, where.size - 1, most).round().astype(np.int64)]
    X, y = data.X[where], data.y[where]
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in y])])
    classes = np.asarray(data.classes)
    return Words(np.concatenate(list(X)), np.searchsorted(classes, np.concatenate(list(y))), offsets)


def base_kernels(X: Any) -> list[Any]:
    """Return linear and quadratic with unit diagonal, Gaussian with variance 5, spline with 95 % zeros, and linear."""
    return [Linear(normalize=True), Polynomial(2, normalize=True), Gaussian(5.0), BSpline().fitted(X), Linear()]


@dataclass(frozen=True)
class Model:
    """A row of Table 1: each block is a weighted sum of base kernels; several blocks are learnt as MKL.

    `learnt` says whether the weight of the transitions is learnt too; `rate` has the paper's accuracy, its deviation
    and its seconds.
    """

    name: str
    blocks: tuple[tuple[tuple[int, float], ...], ...]
    learnt: bool = False
    rate: tuple[float, float, float] | None = None


def _sum(kernels: Sequence[int], weight: float) -> tuple[tuple[tuple[int, float], ...], ...]:
    return (tuple((k, weight) for k in kernels),)


def _mkl(kernels: Sequence[int]) -> tuple[tuple[tuple[int, float], ...], ...]:
    return tuple(((k, 1.0),) for k in kernels)


TABLE: tuple[Model, ...] = (
    Model("Linear (L)", _mkl([0]), rate=(71.8, 3.9, 6)),
    Model("Linear, not normalised", _mkl([4])),
    Model("Quadratic (Q)", _mkl([1]), rate=(85.5, 0.3, 116)),
    Model("Gaussian (G)", _mkl([2]), rate=(84.1, 0.4, 123)),
    Model("Average (L+Q+G)/3", _sum([0, 1, 2], 1 / 3), rate=(84.3, 0.3, 118)),
    Model("Sum L+Q+G", _sum([0, 1, 2], 1.0)),
    Model("MKL L, Q, G", _mkl([0, 1, 2]), rate=(87.5, 0.3, 279)),
    Model("MKL beta0, L, Q, G", _mkl([0, 1, 2]), learnt=True, rate=(87.5, 0.4, 282)),
    Model("B1-spline (B)", _mkl([3]), rate=(75.4, 0.9, 8)),
    Model("Average (L+B)/2", _sum([0, 3], 1 / 2), rate=(83.0, 0.3, 15)),
    Model("Sum L+B", _sum([0, 3], 1.0)),
    Model("MKL L, B", _mkl([0, 3]), rate=(85.2, 0.3, 15)),
    Model("MKL beta0, L, B", _mkl([0, 3]), learnt=True, rate=(85.2, 0.3, 16)),
)


def grams_of(base: Sequence[Any], model: Model, letters: Ints | None = None) -> list[Any]:
    """Return the Gram matrix of each block of a model, for all letters or for some."""
    return [_mixed(base, block, letters) for block in model.blocks]


def _mixed(base: Sequence[Any], block: Sequence[tuple[int, float]], letters: Ints | None) -> Any:
    parts = [(_cut(base[k], letters), weight) for k, weight in block]
    if len(parts) == 1 and parts[0][1] == 1.0:
        return parts[0][0]
    total = sum(weight * _dense(gram) for gram, weight in parts)
    return DenseGram(np.ascontiguousarray(total, dtype=np.float32))


def _cut(gram: Any, letters: Ints | None) -> Any:
    if letters is None:
        return gram
    if isinstance(gram, SparseGram):
        return SparseGram(gram.matrix[letters][:, letters].tocsr())
    return DenseGram(np.ascontiguousarray(gram.values[np.ix_(letters, letters)]))


def _dense(gram: Any) -> Any:
    return gram.matrix.toarray() if isinstance(gram, SparseGram) else gram.values


@dataclass(frozen=True)
class Fitted:
    """The result of a run: coefficients of the training letters for each base kernel, the transitions, and the cost."""

    coef: dict[int, Any]
    transitions: Floats
    norms: Floats
    seconds: float
    setup: float = 0.0  # the seconds spent on choosing a step, included in `seconds`

    @property
    def beta(self) -> Floats:
        """The weights of the blocks, without transitions."""
        norms = self.norms[:-1]
        return np.asarray(norms / max(float(norms.sum()), 1e-300))


def solver(grams: Sequence[Any], train: Words, model: Model, C: float, **options: Any) -> Any:
    """Return SPOM on these words, C = 1 / (strength N), or dual averaging with `step=DUAL`."""
    problem = KernelProblem.of(grams, train.y, LABELS, train.offsets, check=False)
    strength = 1.0 / (C * len(train))
    options["penalty"] = SparseMKL(strength) if len(model.blocks) > 1 else SquaredL2(strength)
    options["transitions"] = "learnt" if model.learnt else "fixed"
    if options.get("step") == DUAL:
        return DualAveragingKernels(problem, **{**options, "step": "auto"})
    return OnlineKernels(problem, **options)


def fit(
    grams: Sequence[Any],
    train: Words,
    model: Model,
    C: float,
    *,
    step: Any = "auto",
    epochs: int = 20,
    seed: int = 0,
) -> Iterator[Fitted]:
    """Run SPOM on these words, C = 1 / (strength N); yield the result after each pass, with the CPU seconds so far.

    `grams` are those of the model, from `grams_of`.
    """
    begin = time.thread_time()
    run = solver(grams, train, model, C, step=step, epochs=epochs, random_state=seed)
    spent = setup = time.thread_time() - begin
    begin = time.thread_time()
    for state in run:
        spent += time.thread_time() - begin
        A, _, T = run.parts() if isinstance(run, DualAveragingKernels) else run.parts(state.theta)
        coef: dict[int, Any] = {}
        for block, a in zip(model.blocks, A, strict=True):
            for k, weight in block:
                coef[k] = coef.get(k, 0.0) + weight * a
        norms = np.zeros(0) if state.block_norms is None else state.block_norms
        yield Fitted(coef, T.copy(), norms, spent, setup)
        begin = time.thread_time()


def accuracies(
    fitted: Sequence[Fitted], kernels: Sequence[Any], train: Any, test: Words, block: int = 4000
) -> list[float]:
    """Return each model's accuracy per letter; each base kernel of test and training letters is computed once."""
    right = np.zeros(len(fitted), dtype=np.int64)
    used = sorted({k for f in fitted for k in f.coef})
    stacked = {k: np.concatenate([f.coef[k] for f in fitted if k in f.coef], axis=1).astype(np.float32) for k in used}
    where = {k: [i for i, f in enumerate(fitted) if k in f.coef] for k in used}
    first = 0
    while first < len(test):
        end = int(np.searchsorted(test.offsets, test.offsets[first] + block, side="right")) - 1
        end = min(max(end, first + 1), len(test))
        a, b = int(test.offsets[first]), int(test.offsets[end])
        scores = np.zeros((len(fitted), b - a, LABELS))
        for k in used:
            values = kernels[k].block(test.X[a:b], train)
            # Single precision is twice as fast, and scores of letters are not close enough for it to matter.
            values = values.astype(np.float32) if hasattr(values, "tocsr") else np.asarray(values, dtype=np.float32)
            products = np.asarray(values @ stacked[k])
            for place, i in enumerate(where[k]):
                scores[i] += products[:, place * LABELS : (place + 1) * LABELS]
        offsets = test.offsets[first : end + 1] - a
        for i, f in enumerate(fitted):
            right[i] += int((decoded(scores[i], offsets, f.transitions) == test.y[a:b]).sum())
        first = end
    return [float(count) / test.y.size for count in right]


def decoded(scores: Floats, offsets: Ints, transitions: Floats) -> Ints:
    """Return the best labels of each word."""
    out = np.empty(len(scores), dtype=np.int64)
    none = np.zeros(LABELS)
    for a, b in pairwise(offsets.tolist()):
        viterbi(scores[a:b], transitions, none, none, out[a:b])
    return out


def cross_validated(
    base: Sequence[Any],
    train: Words,
    model: Model,
    grid: Sequence[float],
    rule: str,
    *,
    parts: int,
    epochs: int,
    seed: int,
) -> list[float]:
    """Return the accuracy on held-out words for each C of the grid, mean over the parts.

    The paper's rule chooses eta0 once for each C, on all the words, and not again in each part.
    """
    order = np.random.default_rng(seed).permutation(len(train))
    whole = grams_of(base, model)
    steps = [
        solver(whole, train, model, C, step=rule, random_state=seed).step if rule == "paper" else rule for C in grid
    ]
    total = np.zeros(len(grid))
    for part in range(parts):
        held, held_letters = train.part(np.sort(order[part::parts]))
        rest, letters = train.part(np.sort(np.setdiff1d(order, order[part::parts])))
        grams = grams_of(base, model, letters)
        across = {k: _between(base[k], held_letters, letters) for block in model.blocks for k, _ in block}
        for place, C in enumerate(grid):
            *_, last = fit(grams, rest, model, C, step=steps[place], epochs=epochs, seed=seed)
            scores = sum(np.asarray(across[k] @ a) for k, a in last.coef.items())
            labels = decoded(np.ascontiguousarray(scores, dtype=np.float64), held.offsets, last.transitions)
            total[place] += float(np.mean(labels == held.y)) / parts
    return [float(value) for value in total]


def _between(gram: Any, rows: Ints, columns: Ints) -> Any:
    if isinstance(gram, SparseGram):
        return gram.matrix[rows][:, columns]
    return gram.values[np.ix_(rows, columns)]


def gram_matrices(train: Words) -> tuple[list[Any], list[Any]]:
    """Return (base kernels, their Gram matrices) for the training letters."""
    kernels = base_kernels(train.X)
    return kernels, list(build(kernels, train.X))
