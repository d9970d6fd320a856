"""FOBOS, Figure 3: test error and row sparsity by number of gradients, with all examples or a part per step.

The sizes are the paper's: 720 examples of Landsat with l1, 10,000 of MNIST with l1/l2. The strength is the one with
the least error on a held-out fifth of the training examples, the step the one with the least training objective. Both
are chosen with all examples per step, and shared by all parts, as in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.papers.figures import legend_below, line, panels
from spom.papers.fobos_data import Split, fobos, landsat, mnist, row_share
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import L1, GroupLasso

FULL: Settings = {
    "data": ["landsat", "mnist"],
    "landsat_examples": 720,
    "mnist_examples": 10_000,
    "mnist_tests": 10_000,
    "width": 5.0,
    "parts": [1.0, 0.2, 0.1],
    "passes": {"landsat": 1000, "mnist": 100},
    "tuning_passes": {"landsat": 300, "mnist": 30},
    "runs": {"landsat": 5, "mnist": 2},
    "strengths": [0.1, 0.03, 0.01],
    "steps": [0.03, 0.1, 0.3, 1.0],
    "held_out": 0.2,
    "points": 30,
}
QUICK: Settings = {
    "data": ["landsat", "mnist"],
    "passes": {"landsat": 60, "mnist": 20},
    "tuning_passes": {"landsat": 20, "mnist": 5},
    "runs": {"landsat": 2, "mnist": 1},
    "mnist_examples": 1000,
    "mnist_tests": 1000,
    "points": 15,
}
TINY: Settings = {
    "data": ["landsat"],
    "landsat_examples": 60,
    "passes": {"landsat": 10, "mnist": 1},
    "tuning_passes": {"landsat": 3, "mnist": 1},
    "runs": {"landsat": 1, "mnist": 1},
    "steps": [0.1],
    "points": 4,
}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute mean curves over runs, each with other examples."""
    s = settings
    tries = len(s["steps"]) + len(s["strengths"])
    bar.total(sum(s["runs"][name] * len(s["parts"]) + tries for name in s["data"]))
    found: dict[str, Any] = {}
    for name in s["data"]:
        first = _split(s, name, 100 * seed)
        chosen = _chosen(s, name, first, seed, bar)
        runs: dict[str, list[Any]] = {f"{part:g}": [] for part in s["parts"]}
        for k in range(s["runs"][name]):
            split = first if k == 0 else _split(s, name, 100 * seed + k)
            for part in s["parts"]:
                bar.step(f"{name}, {part:.0%}, run {k + 1}")
                runs[f"{part:g}"].append(_run(s, name, split, part, chosen, 100 * seed + k))
            del split
        curves = {
            part: {key: np.mean([run[key] for run in some], axis=0) for key in some[0]} for part, some in runs.items()
        }
        found[name] = {**chosen, "curves": curves}
        del first
    return {"found": found}


def _split(s: Settings, name: str, seed: int) -> Split:
    if name == "landsat":
        return landsat(s["landsat_examples"], seed)
    return mnist(s["mnist_examples"], s["mnist_tests"], s["width"], seed)


def _unit(name: str, strength: float) -> Any:
    return L1(strength) if name == "landsat" else GroupLasso(strength, "rows")


def _chosen(s: Settings, name: str, split: Split, seed: int, bar: Bar) -> dict[str, Any]:
    """Choose the step by the training objective at the middle strength, then the strength by the held-out error."""
    split = split.held_out(s["held_out"], seed)
    top, rounds = split.top(_unit(name, 1.0)), s["tuning_passes"][name]
    middle = _unit(name, s["strengths"][len(s["strengths"]) // 2] * top)
    objectives, errors = {}, {}
    for eta in s["steps"]:
        bar.step(f"{name}, eta0 {eta:g}")
        *_, theta = fobos(split, middle, eta, rounds)
        objectives[f"{eta:g}"] = split.objective(theta, middle)
    eta0 = float(min(objectives, key=lambda eta: objectives[eta]))
    for strength in s["strengths"]:
        bar.step(f"{name}, strength {strength:g}")
        *_, theta = fobos(split, _unit(name, strength * top), eta0, rounds)
        errors[f"{strength:g}"] = split.error(theta)
    strength = float(min(errors, key=lambda strength: errors[strength]))
    return {"eta0": eta0, "strength": strength, "objectives": objectives, "errors": errors}


def _run(
    s: Settings, name: str, split: Split, part: float, chosen: dict[str, Any], seed: int
) -> dict[str, list[float]]:
    """Return error, share of nonzero rows and objective at some rounds."""
    penalty = _unit(name, chosen["strength"] * split.top(_unit(name, 1.0)))
    n = len(split.y)
    batch = max(1, round(part * n))
    rounds = s["passes"][name] * n // batch
    marks = set(np.unique(np.geomspace(1, rounds, s["points"]).round().astype(int)).tolist())
    out: dict[str, list[float]] = {"gradients": [], "error": [], "rows": [], "objective": []}
    for t, theta in enumerate(fobos(split, penalty, chosen["eta0"], rounds, part=part, seed=seed), 1):
        if t in marks:
            out["gradients"].append(float(t * batch))
            out["error"].append(split.error(theta))
            out["rows"].append(row_share(theta))
            out["objective"].append(split.objective(theta, penalty))
    return out


def _gradients_to(curve: dict[str, Any], error: float) -> float:
    """Return the number of gradients until the test error is at most `error`."""
    pairs = zip(curve["gradients"], curve["error"], strict=True)
    return float(next((g for g, e in pairs if e <= error), np.inf))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare how soon the error is near the minimum of the run on all examples, and how many rows remain."""
    rows = []
    for name, case in numbers["found"].items():
        full = case["curves"]["1"]
        goal = min(full["error"]) + 0.01
        whole = _gradients_to(full, goal)
        for part, curve in case["curves"].items():
            at = _gradients_to(curve, goal)
            reached = f"{at:,.0f} gradients" if np.isfinite(at) else "not reached"
            ours = f"{reached}; least error {min(curve['error']):.3f}"
            if part == "1":
                word = f"eta0 {case['eta0']:g} of {settings['steps']}; strength {case['strength']:g} of the largest"
                rows.append(Row(f"{name}, all examples a step: to error {goal:.3f}", "", ours, word))
                continue
            # 'Very quickly' is taken as half the gradients or fewer.
            word = f"{whole / at:.1f} times fewer than with all" if np.isfinite(at) else "the goal is the full run's"
            what = f"{name}, {float(part):.0%} of examples a step: to error {goal:.3f}"
            rows.append(Row(what, "much sooner than all", ours, word, bool(2 * at <= whole)))
        for part, curve in case["curves"].items():
            end, most = curve["rows"][-1], max(curve["rows"])
            ours = f"{end:.1%} (most {most:.1%})"
            what = f"{name}, {float(part):.0%} of examples a step: rows in use at the end"
            if part == "1":
                rows.append(Row(what, "falls along the run", ours, "", end < 0.98 * most))
            else:
                word = f"all examples: {full['rows'][-1]:.1%}"
                rows.append(Row(what, "less sparse than all", ours, word, end > 1.02 * full["rows"][-1]))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the error in the top row and sparsity in the bottom row."""
    figure, axes = panels(2, len(numbers["found"]), height=4.6)
    titles = {"landsat": "Landsat, l1", "mnist": "MNIST, l1/l2"}
    for column, (name, case) in enumerate(numbers["found"].items()):
        for k, (part, curve) in enumerate(case["curves"].items()):
            label = "all examples" if part == "1" else f"{float(part):.0%} of the examples"
            line(axes[0, column], curve["gradients"], curve["error"], label, k)
            line(axes[1, column], curve["gradients"], curve["rows"], label, k)
        axes[0, column].set(xscale="log", title=titles[name], ylim=(0, None))
        axes[1, column].set(xscale="log", xlabel="gradients of single examples", ylim=(0, 1))
    axes[0, 0].set_ylabel("test error")
    axes[1, 0].set_ylabel("share of rows in use")
    legend_below(figure, axes[0, 0])
    return figure
