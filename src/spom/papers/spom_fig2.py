"""SPOM, Figure 2: SPOM against wrappers around structured Pegasos, objective by pass, with the true optimum.

Every method has one number that sets its step: eta0 in SPOM's eta0 / sqrt(t), and the start of the counter in Pegasos'
1 / t. All are chosen in the same way: by the least objective in `tuning_epochs` passes over the words of another fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spom.papers.figures import legend_below, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.spom_ocr import LABELS, TABLE, gram_matrices, grams_of, words
from spom.penalties import SparseMKL
from spom.solvers.mkl.dual_averaging.solver import DualAveragingKernels
from spom.solvers.mkl.frank_wolfe.passes import Sequences, total_hinge
from spom.solvers.mkl.frank_wolfe.solver import FrankWolfeMKL
from spom.solvers.mkl.online.solver import OnlineKernels
from spom.solvers.mkl.problem import KernelProblem
from spom.solvers.mkl.wrapper import WrapperMKL
from spom.solvers.steps import InverseSqrt

FULL: Settings = {
    "C": 100.0,
    "fold": 0,
    "tuning_fold": 1,
    "epochs": 100,
    "steps": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0],
    "offsets": [0.0, 10.0, 100.0, 300.0, 1000.0, 3000.0],
    "tuning_epochs": 30,
    "gap": 0.02,
    "exact_epochs": 200,
    "most_words": None,
}
QUICK: Settings = {
    "epochs": 40,
    "most_words": 120,
    "exact_epochs": 60,
    "steps": [0.3, 1.0, 3.0],
    "offsets": [0.0, 100.0, 1000.0],
    "tuning_epochs": 10,
}
TINY: Settings = {
    "epochs": 10,
    "most_words": 12,
    "exact_epochs": 10,
    "steps": [1.0],
    "offsets": [0.0, 10.0],
    "tuning_epochs": 2,
}
MODEL = next(model for model in TABLE if model.name == "MKL L, Q, G")
PASSES = (10, 20, 30, 100)
SPOM, AUTO, DUAL = "SPOM, eta0 / sqrt(t)", "SPOM, our step", "dual averaging, our default"
WRAPPERS = {"Gauss-Seidel": "gauss-seidel", "SimpleMKL": "simple"}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute the objective times N after each pass; the optimum is between the dual solver's bound and objective."""
    s = settings
    tuned = (SPOM, *WRAPPERS)
    bar.total(len(s["steps"]) + len(WRAPPERS) * len(s["offsets"]) + len(tuned) + 3)
    problem, penalty = _problem(s, s["tuning_fold"])
    grids: dict[str, dict[str, float]] = {}
    for name in tuned:
        grids[name] = {}
        for number in s["steps"] if name == SPOM else s["offsets"]:
            bar.step(f"{name}, {number:g}")
            run = _run(name, problem, penalty, number, s["tuning_epochs"], seed)
            grids[name][f"{number:g}"] = problem.n_sequences * min(run)
    chosen = {name: float(min(grid, key=lambda number: grid[number])) for name, grid in grids.items()}
    problem, penalty = _problem(s, s["fold"])
    N, curves = problem.n_sequences, {}
    for name in (*tuned, AUTO, DUAL):
        bar.step(name)
        curves[name] = [N * value for value in _run(name, problem, penalty, chosen.get(name), s["epochs"], seed)]
    bar.step("the optimum")
    exact = FrankWolfeMKL(problem, penalty, tol=s["gap"], max_epochs=s["exact_epochs"], random_state=seed).solve()
    optimum = {"low": N * exact.bound, "high": N * exact.objective, "beta": exact.beta}
    return {"curves": curves, "optimum": optimum, "grids": grids, "chosen": chosen, "words": N}


def _problem(s: Settings, fold: int) -> tuple[KernelProblem, SparseMKL]:
    train = words(lambda folds: folds == fold, s["most_words"])
    grams = grams_of(gram_matrices(train)[1], MODEL)
    problem = KernelProblem.of(grams, train.y, LABELS, train.offsets, check=False)
    return problem, SparseMKL(1.0 / (s["C"] * len(train)))


def _run(
    name: str, problem: KernelProblem, penalty: SparseMKL, number: float | None, epochs: int, seed: int
) -> list[float]:
    """Return the objective after each pass of one method, with `number` setting its step."""
    if name in WRAPPERS:
        options = {"epochs": epochs, "offset": number or 0.0, "random_state": seed}
        wrapper = WrapperMKL(problem, penalty, WRAPPERS[name], **options)  # type: ignore[arg-type]
        return [state.objective for state in wrapper][:epochs]
    if name == DUAL:
        averaging = DualAveragingKernels(problem, penalty=penalty, scale=False, epochs=epochs, random_state=seed)
        return list(_objectives(averaging, problem, penalty))
    step: Any = "auto" if number is None else InverseSqrt(number)
    online = OnlineKernels(
        problem, penalty=penalty, transitions="fixed", step=step, epochs=epochs, objective=True, random_state=seed
    )
    return [state.objective for state in online]


def _objectives(run: Any, problem: KernelProblem, penalty: SparseMKL) -> Iterator[float]:
    for _ in run:
        coefficients, _, transitions = run.parts()
        yield objective(problem, penalty, coefficients, transitions)


def objective(problem: KernelProblem, penalty: SparseMKL, coefficients: Sequence[Any], transitions: Any) -> float:
    """mean hinge loss + strength/2 [(sum of kernels' norms)^2 + norm(transitions)^2], from coefficients."""
    scores = np.zeros((problem.n_labels, problem.n_tokens))
    norms = []
    for gram, a in zip(problem.grams, coefficients, strict=True):
        product = np.asarray(gram.dot(a))
        scores += product.T
        norms.append(np.sqrt(max(float(np.vdot(a, product)), 0.0)))
    sequences = Sequences(problem.offsets, problem.y, np.ones(problem.n_sequences))
    loss = total_hinge(sequences, 1.0, scores, np.ascontiguousarray(transitions))
    return float(loss) / problem.n_sequences + 0.5 * penalty.strength * (
        sum(norms) ** 2 + float(np.vdot(transitions, transitions))
    )


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Report how far above the optimum each method is after some passes, and the paper's two claims."""
    low, high = numbers["optimum"]["low"], numbers["optimum"]["high"]
    curves = numbers["curves"]
    rows = []
    ours = min(curves[SPOM][:30])
    for name in WRAPPERS:
        other, same = min(curves[name]), min(curves[name][:30])
        passes = len(curves[name])
        text = f"{ours:.4g} against {other:.4g} ({same:.4g} after 30)"
        word = f"objective times N; all {passes} passes of the wrapper count"
        rows.append(Row(f"SPOM after 30 passes against {name}", "SPOM lower", text, word, ours < other))
    far = ours / high
    word = "'very close' is read as at most 1.1 times the optimum's upper end"
    rows.append(Row("SPOM after 30 passes over the optimum", "very close", f"{far:.2f} times", word, far <= 1.1))
    rows.append(Row("optimum of the objective times N", "", f"{low:.4g} to {high:.4g}", "from the dual, with its gap"))
    for name, curve in curves.items():
        shown = [p for p in PASSES if p <= len(curve)]
        text = ", ".join(f"{min(curve[:p]) / high:.2f}" for p in shown)
        word = "times the optimum after " + ", ".join(map(str, shown)) + " passes, the lowest so far"
        if name in numbers["chosen"]:
            word += f"; {'eta0' if name == SPOM else 'offset'} {numbers['chosen'][name]:g}" + _edge(numbers, name)
        rows.append(Row(name, "", text, word))
    return rows


def _edge(numbers: Numbers, name: str) -> str:
    """Return a remark if the best value of a grid is its first or last."""
    grid = [float(number) for number in numbers["grids"][name]]
    return ", an end of its grid" if len(grid) > 1 and numbers["chosen"][name] in (grid[0], grid[-1]) else ""


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the curves, and the bounds of the optimum as a band."""
    figure, axes = panels(1, 1, width=5.0, height=3.6)
    place = axes[0, 0]
    for k, (name, curve) in enumerate(numbers["curves"].items()):
        line(place, np.arange(1, len(curve) + 1), curve, name, k)
    place.axhspan(numbers["optimum"]["low"], numbers["optimum"]["high"], color="0.75", label="optimum")
    for passes in (20, 30):
        place.axvline(passes, color="black", linewidth=0.6, linestyle=":")
    note = "paper: SPOM is very close\nto the optimum here"
    place.text(32, 0.97, note, transform=place.get_xaxis_transform(), fontsize=6.5, va="top")
    place.set(yscale="log", xlabel="passes over the data", ylabel="objective times N")
    legend_below(figure, place, 3)
    return figure
