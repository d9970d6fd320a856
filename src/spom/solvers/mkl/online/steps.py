"""Step sizes for rounds with kernels: rules with a given number, the paper's rule, and a rule that needs no number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spom.kernels.gram import DenseGram
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem
from spom.solvers.steps import InverseSqrt, LinearDecay, Step, as_step

# The grid of `paper_step`, its number of sequences and its number of passes.
GRID, SEQUENCES, EPOCHS = (0.01, 0.1, 1.0, 10.0), 500, 5
# eta0 R^2 of the rule that needs no number, for each loss: see `auto_step`.
FACTORS = {"hinge": 1.0, "log": 3.0, "perceptron": 1.0}


def step_for(step: Any, solver: Any) -> Step:
    """Return the rule for `step=`: `"auto"`, `"paper"`, or any value that `spom.solvers.steps.as_step` takes."""
    if isinstance(step, str) and step == "paper":
        return paper_step(solver)
    if isinstance(step, str) and step == "auto":
        return auto_step(solver)
    return as_step(step)


def auto_step(solver: Any) -> LinearDecay:
    """eta0 = 1 / R^2 (3 / R^2 for the log loss), falling to zero, with R^2 = mean over tokens of sum_m K_m(x, x).

    A step of 1 / R^2 changes the scores of its token by 1, the unit of the hinge loss's margin. The rule does not
    depend on a common factor of the kernels. On the handwritten words, half and twice this step give the same accuracy
    within a quarter of a point; see the benchmark.
    """
    size = sum(solver.problem.mean_squares())
    eta0 = FACTORS[solver.loss] / size if size > 0.0 else 1.0
    return LinearDecay(eta0, solver.epochs)


def paper_step(solver: Any) -> InverseSqrt:
    """eta0 / sqrt(t), with the eta0 of the grid that has the least objective after some passes over some sequences."""
    from spom.solvers.iterate import last

    part = some_sequences(solver.problem, SEQUENCES)
    # The strength is per sequence, so fewer sequences have the same C = 1 / (strength N).
    best, least = GRID[0], np.inf
    for eta0 in GRID:
        run = type(solver)(
            part,
            loss=solver.loss,
            penalty=solver.penalty,
            transitions="learnt" if solver.learnt else "fixed",
            step=InverseSqrt(eta0),
            epochs=EPOCHS,
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
    """Return the first `count` sequences, as a separate problem."""
    if problem.n_sequences <= count:
        return problem
    n = int(problem.offsets[count])
    grams = [DenseGram(np.ascontiguousarray(gram.rows(np.arange(n))[:, :n])) for gram in problem.grams]
    explicit = []
    for block in problem.explicit:
        end = int(block.indptr[n])
        indices = block.indices if block.dense else block.indices[:end]
        values = block.values[:end] if block.values.size else block.values
        explicit.append(ExplicitBlock(block.indptr[: n + 1], indices, block.n_features, values))
    return replace(
        problem,
        grams=tuple(grams),
        offsets=problem.offsets[: count + 1],
        y=problem.y[:n],
        explicit=tuple(explicit),
        weight=problem.weight[:count] if problem.weight.size else problem.weight,
    )
