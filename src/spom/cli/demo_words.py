"""The first part of the demonstration: words of handwritten digits, and which kernels read them best."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from spom.cli.warmup import compiling
from spom.core.arrays import Floats, Ints, offsets_of
from spom.data.generated import Words, digit_words
from spom.decoders import Chain, ChainParts
from spom.kernels import Gaussian, Linear, Polynomial, build
from spom.penalties import SparseMKL, SquaredL2
from spom.solvers.iterate import last
from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels
from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.problem import KernelProblem

NOISE = 0.5
EPOCHS = 20


@dataclass(frozen=True)
class Task:
    """Flat tokens of training and test words, and the kernels by name."""

    X: Floats
    y: Ints
    offsets: Ints
    X_test: Floats
    y_test: Ints
    test_offsets: Ints
    kernels: dict[str, Any]
    grams: dict[str, Any]


def make_task(quick: bool, seed: int) -> Task:
    """Make training words from one half of scikit-learn's digits, and test words from the other half."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(labels.size)
    parts = order[: labels.size // 2], order[labels.size // 2 :]
    counts = (100, 100) if quick else (500, 500)
    words = [
        digit_words(images[part] / 16, labels[part], count, seed=2 * seed + k + 1, noise=NOISE)
        for k, (part, count) in enumerate(zip(parts, counts, strict=True))
    ]
    (X, y, offsets), test = _flat(words[0]), _flat(words[1])
    width = Gaussian().fitted(X).variance or 1.0
    kernels: dict[str, Any] = {
        "linear": Linear(normalize=True),
        "quadratic": Polynomial(2, normalize=True),
        "cubic": Polynomial(3, normalize=True),
        "Gaussian, wide": Gaussian(4 * width),
        "Gaussian": Gaussian(width),
        "Gaussian, narrow": Gaussian(width / 8),
    }
    grams = dict(zip(kernels, build(list(kernels.values()), X), strict=True))
    return Task(X, y, offsets, *test, kernels, grams)


def _flat(words: Words) -> tuple[Floats, Ints, Ints]:
    offsets = offsets_of([word.size for word in words.y])
    return np.concatenate(words.X), np.concatenate(words.y), offsets


def learn(task: Task, names: list[str], penalty: Any, exact: bool = False, chain: bool = True) -> dict[str, Any]:
    """Learn with these kernels, and score: accuracy by digit and by word, CPU seconds, beta."""
    begin = time.process_time()
    offsets = task.offsets if chain else None
    problem = KernelProblem.of([task.grams[name] for name in names], task.y, 10, offsets, check=False)
    strength = penalty(1.0 / problem.n_sequences)
    solver: Any
    if exact:
        solver = FrankWolfeMKL(problem, strength, tol=0.01, random_state=0).solve()
        (coefficients, _, pairs), beta = solver.parts(), solver.beta
    elif penalty is SparseMKL:
        solver = DualAveragingKernels(problem, penalty=strength, epochs=EPOCHS, random_state=0)
        beta = _shares(last(solver), len(names))
        coefficients, _, pairs = solver.parts()
    else:
        solver = OnlineKernels(problem, penalty=strength, epochs=EPOCHS, random_state=0)
        state = last(solver)
        beta = _shares(state, len(names))
        coefficients, _, pairs = solver.parts(state.theta)
    seconds = time.process_time() - begin
    scores = sum(
        np.asarray(task.kernels[name].block(task.X_test, task.X)) @ coefficients[m] for m, name in enumerate(names)
    )
    right = _decoded(np.asarray(scores), pairs if chain else np.zeros((10, 10)), task) == task.y_test
    words = [bool(right[a:b].all()) for a, b in pairwise(task.test_offsets.tolist())]
    return {
        "accuracy": float(right.mean()),
        "words": float(np.mean(words)),
        "seconds": seconds,
        "beta": dict(zip(names, np.asarray(beta).tolist(), strict=True)),
    }


def _shares(state: Any, count: int) -> Floats:
    norms = np.asarray(state.block_norms)[:count]
    return np.asarray(norms / norms.sum())


def _decoded(scores: Floats, pairs: Floats, task: Task) -> Ints:
    decoder, ends = Chain(), np.zeros(10)
    bounds = pairwise(task.test_offsets.tolist())
    return np.concatenate(
        [decoder.best(ChainParts(np.ascontiguousarray(scores[a:b]), pairs, ends, ends)) for a, b in bounds]
    )


def show(quick: bool, seed: int, say: Callable[..., None]) -> dict[str, Any]:
    """Print the table of single kernels, their sum and MKL, and return its rows."""
    task = make_task(quick, seed)
    every = list(task.kernels)
    say(heading("1. Which kernels read words of digits best?"))
    say(f"{task.offsets.size - 1} words made of scikit-learn's handwritten digits, with noise; the")
    say(f"{task.test_offsets.size - 1} test words are made of other images. C = 1 in each row.\n")
    # Compile, or load from the cache of an earlier run, before anything is timed.
    with compiling():
        for penalty, exact in ((SquaredL2, False), (SparseMKL, False), (SparseMKL, True)):
            learn(_first_words(task, 12), every, penalty, exact)
    say(f"{'':34}{'digits':>8}{'words':>8}{'seconds':>9}   beta")
    rows: dict[str, dict[str, Any]] = {}

    def row(title: str, *arguments: Any, **more: Any) -> None:
        found = rows[title] = learn(task, *arguments, **more)
        shown = (
            "" if len(found["beta"]) == 1 else "  ".join(f"{b:.2f}" if b > 0 else "-" for b in found["beta"].values())
        )
        say(f"{title:34}{found['accuracy']:8.3f}{found['words']:8.3f}{found['seconds']:9.2f}   {shown}")

    for name in every:
        row(name, [name], SquaredL2)
    row("all six, summed", every, SquaredL2)
    row("MKL, online, 20 passes", every, SparseMKL)
    row("MKL, to the optimum", every, SparseMKL, exact=True)
    row("MKL, digit by digit (no chain)", every, SparseMKL, chain=False)
    say("\nbeta: the weight of each kernel, in the order of the first six rows; - is switched off.")
    return rows


def _first_words(task: Task, count: int) -> Task:
    end = int(task.offsets[min(count, task.offsets.size - 1)])
    part, tests = task.X[:end], task.test_offsets[:3]
    grams = dict(zip(task.kernels, build(list(task.kernels.values()), part), strict=True))
    few: dict[str, Any] = {
        "X_test": task.X_test[: int(tests[-1])],
        "y_test": task.y_test[: int(tests[-1])],
        "test_offsets": tests,
    }
    return replace(task, X=part, y=task.y[:end], offsets=task.offsets[: count + 1], grams=grams, **few)


def heading(text: str) -> str:
    """Return the heading of a part, underlined."""
    return f"\n{text}\n{'-' * len(text)}"
