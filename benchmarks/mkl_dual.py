"""Structured machines with several kernels, at their optimum, on handwritten words.

Ten folds, train on one and test on nine, C = 1, to a gap of 1 %: MKL against single kernels and their sum, each at its
own optimum. The wrappers of SPOM's Fig. 2 are in `spom reproduce spom-fig2`, where each has its best step.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.common import Table, data_folder
from spom.data import load
from spom.decoders.viterbi import viterbi
from spom.kernels import Gaussian, Linear, Polynomial, build
from spom.penalties import SparseMKL, SquaredL2
from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL
from spom.solvers.mkl.problem import KernelProblem

NAMES = ("L", "Q", "G")


def kernels() -> list[Any]:
    """Return the kernels of Table 1: linear and quadratic with unit diagonal, Gaussian with variance 5."""
    return [Linear(normalize=True), Polynomial(2, normalize=True), Gaussian(5.0)]


def words(data: Any, chosen: Any) -> tuple[Any, Any, Any]:
    """Return (images, label indices, offsets) of some words, concatenated."""
    X, y = data.X[chosen], data.y[chosen]
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in y])])
    return np.concatenate(list(X)), np.searchsorted(data.classes, np.concatenate(list(y))), offsets


def accuracies(solvers: dict[str, Any], which: dict[str, list[int]], train: Any, test: Any) -> dict[str, float]:
    """Return accuracies per character for several solvers; kernels of test and training tokens are computed once."""
    X, y, offsets = test
    right, found = dict.fromkeys(solvers, 0), kernels()
    coef = np.concatenate([s.coef for s in solvers.values()], axis=1).astype(np.float32)
    k = coef.shape[1] // len(solvers)
    none = np.zeros(k)
    for first in range(0, offsets.size - 1, 500):
        some = offsets[first : first + 501]
        parts = [np.asarray(kernel.block(X[some[0] : some[-1]], train), dtype=np.float32) @ coef for kernel in found]
        for place, (name, solver) in enumerate(solvers.items()):
            columns = slice(place * k, (place + 1) * k)
            pairs = zip(which[name], solver.scale, strict=True)
            scores = np.ascontiguousarray(sum(s * parts[m][:, columns].astype(np.float64) for m, s in pairs))
            for a, b in zip(some[:-1] - some[0], some[1:] - some[0], strict=True):
                labels = np.empty(b - a, dtype=np.int64)
                viterbi(scores[a:b], solver.transition, none, none, labels)
                right[name] += int((labels == y[some[0] + a : some[0] + b]).sum())
    return {name: count / y.size for name, count in right.items()}


def optima(grams: list[Any], y: Any, offsets: Any, C: float, tol: float) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return solvers at their optimum by name, the kernels of each, and CPU seconds of each."""
    solvers: dict[str, Any] = {}
    which = {"MKL": [0, 1, 2], **{name: [m] for m, name in enumerate(NAMES)}, "L+Q+G": [0, 1, 2]}
    seconds = {}
    for name, chosen in which.items():
        problem = KernelProblem.of([grams[m] for m in chosen], y, 26, offsets, check=False)
        strength = 1.0 / (C * problem.n_sequences)
        penalty = SquaredL2(strength) if name == "L+Q+G" else SparseMKL(strength)
        begin = time.process_time()
        solvers[name] = FrankWolfeMKL(problem, penalty, tol=tol, random_state=0).solve()
        seconds[name] = time.process_time() - begin
    return solvers, which, seconds


def frankwolfe(folds: int = 10, C: float = 1.0, tol: float = 0.01) -> None:
    """Print mean accuracies over the folds, each model at its own optimum."""
    if data_folder() is None:
        return
    data = load("ocr")
    rows: list[dict[str, float]] = []
    betas, gaps, spent = [], [], []
    for fold in range(folds):
        X, y, offsets = words(data, data.folds == fold)
        grams = build(kernels(), X)
        solvers, which, seconds = optima(grams, y, offsets, C, tol)
        rows.append(accuracies(solvers, which, X, words(data, data.folds != fold)))
        best = solvers["MKL"]
        betas.append(best.beta)
        gaps.append(max(s.gap / s.objective for s in solvers.values()))
        spent.append(seconds)
        shown = "  ".join(f"{name} {100 * a:.2f}" for name, a in rows[-1].items())
        print(f"  fold {fold}: {shown}  beta {best.beta.round(3)}  MKL {seconds['MKL']:.1f} s", flush=True)
    mean = {name: 100 * float(np.mean([row[name] for row in rows])) for name in rows[0]}
    deviation = {name: 100 * float(np.std([row[name] for row in rows])) for name in rows[0]}
    single = max(mean[name] for name in NAMES)
    table = Table(f"OCR to a gap of {tol:.0%}, C = {C:g}: accuracy per character, mean of {folds} folds")
    for name, value in mean.items():
        goal = {"MKL": (">= 89.0 and above the best single", value >= 89.0 and value > single)}.get(name, ("", None))
        table.add(f"{name} (deviation {deviation[name]:.2f})", value, target=goal[0], reached=goal[1], unit=" %")
    wins = sum(row["MKL"] > max(row[name] for name in NAMES) for row in rows)
    table.add("folds in which MKL is above every single kernel", wins, target=f"{folds}", reached=wins == folds)
    table.add("largest relative gap", max(gaps), target=f"<= {tol:g}", reached=max(gaps) <= tol)
    for m, name in enumerate(NAMES):
        table.add(f"mean weight of {name}", float(np.mean(betas, axis=0)[m]))
    for name in ("MKL", *NAMES):
        table.add(f"CPU seconds to the optimum, {name}, mean", float(np.mean([s[name] for s in spent])))


def main() -> None:
    """Run it."""
    frankwolfe()
