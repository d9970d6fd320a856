"""Step sizes for rounds with kernels: rules with a number, the paper's rule, and one that needs no number."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem
from spom.solvers.steps import InverseSqrt, InverseSqrtEpoch, Step, as_step

GRID = (0.01, 0.1, 1.0, 10.0)


def step_for(step: Any, solver: Any) -> Step:
    """The rule that `step=` stands for: `"auto"`, `"paper"`, or whatever `spom.solvers.steps.as_step` takes."""
    if step == "paper":
        return paper_step(solver)
    if step == "auto":
        return InverseSqrtEpoch(0.1)
    return as_step(step)


def paper_step(solver: Any, grid: tuple[float, ...] = GRID, sequences: int = 500, epochs: int = 5) -> InverseSqrt:
    """eta0 / sqrt(t) with the eta0 of the grid that gives the least objective after some passes over some sequences."""
    from spom.solvers.iterate import last

    part = some_sequences(solver.problem, sequences)
    # The strength is per sequence: the same C = 1 / (strength N) on fewer of them.
    best, least = grid[0], np.inf
    for eta0 in grid:
        run = type(solver)(
            part,
            loss=solver.loss,
            penalty=solver.penalty,
            transitions="learnt" if solver.learnt else "fixed",
            step=InverseSqrt(eta0),
            epochs=epochs,
            cost=solver.cost,
            radius=solver.radius,
            objective=True,
            random_state=0,
        )
        objective = last(run).objective
        if objective < least:
            best, least = eta0, objective
    return InverseSqrt(best)


def some_sequences(problem: KernelProblem, count: int) -> KernelProblem:
    """The first `count` sequences, as a problem of their own."""
    if problem.n_sequences <= count:
        return problem
    n = int(problem.offsets[count])
    grams = [_corner(gram, n) for gram in problem.grams]
    explicit = []
    for block in problem.explicit:
        end = int(block.indptr[n])
        indices = block.indices if block.dense else block.indices[:end]
        values = block.values[:end] if block.values.size else block.values
        explicit.append(ExplicitBlock(block.indptr[: n + 1], indices, block.n_features, values, block.name))
    return KernelProblem.of(
        grams,
        problem.y[:n],
        problem.n_labels,
        problem.offsets[: count + 1],
        problem.transitions,
        explicit,
        problem.weight[:count] if problem.weight.size else None,
        check=False,
    )


def _corner(gram: Any, n: int) -> Any:
    from spom.kernels.gram import DenseGram, RowGram, SparseGram

    if isinstance(gram, SparseGram):
        return SparseGram(gram.matrix[:n][:, :n].tocsr())
    if isinstance(gram, RowGram):
        return RowGram(gram.kernel, gram.X[:n], gram.dtype)
    return DenseGram(np.ascontiguousarray(gram.values[:n, :n]))
