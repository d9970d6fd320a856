"""GPM, Figure 1: the lasso by proximal gradients in the Euclidean and the l1 norm, three sparsities."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.papers.figures import legend_below, line, panels
from spom.papers.gpm_problems import curve, lasso, thinned
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.solvers import WorkingSet
from spom.solvers.iterate import halt, last, small

FULL: Settings = {"n": 400, "p": 1000, "sparsities": [10, 50, 100], "rounds": 3000, "goal": 1e-9}
QUICK: Settings = {"n": 150, "p": 300, "sparsities": [5, 20, 40], "rounds": 1000}
TINY: Settings = {"n": 30, "p": 40, "sparsities": [2, 4, 6], "rounds": 50}
METHODS: dict[str, dict[str, Any]] = {
    "ISTA": {"norm": "l2"},
    "FISTA": {"norm": "l2", "accelerated": True},
    "l1-GPM": {"norm": "l1"},
    "l1-accGPM": {"norm": "l1", "accelerated": True},
}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute objective minus optimum and distance to the truth by round; the optimum has a duality gap of 1e-15."""
    s, found = settings, {}
    bar.total(len(s["sparsities"]) * len(METHODS))
    for sparsity in s["sparsities"]:
        smooth, penalty, truth = lasso(sparsity, s["n"], s["p"], seed)
        point = last(halt(WorkingSet(smooth, penalty), small("gap", 1e-15))).theta
        best = float(smooth.value(point) + penalty.value(point))
        curves = {}
        for name, options in METHODS.items():
            bar.step(f"s = {sparsity}, {name}")
            curves[name] = thinned(curve(smooth, penalty, best, s["rounds"], truth, **options))
        found[str(sparsity)] = {"curves": curves, "optimum": best, "distance": float(np.linalg.norm(point - truth))}
    return {"found": found}


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare which method is first at each sparsity, and the rounds that each takes."""
    rows = []
    cases = list(numbers["found"].items())
    for place, (sparsity, case) in enumerate(cases):
        curves = case["curves"]
        ahead = sorted(curves, key=lambda name: _place(curves[name], settings["goal"]))
        euclidean = min(ahead.index("ISTA"), ahead.index("FISTA"))
        other = min(ahead.index("l1-GPM"), ahead.index("l1-accGPM"))
        claim, met = "no gain from the l1 norm", euclidean < other
        if place == 0:
            claim, met = "l1-GPM well ahead", other < euclidean
        elif place == len(cases) - 1:
            claim = "ISTA, FISTA ahead"
        word = "an l1 step moves one coordinate; both sides have the same line search"
        rows.append(Row(f"s = {sparsity}: order, fastest first", claim, ", ".join(ahead), word, met))
    for sparsity, case in cases:
        for name, c in case["curves"].items():
            done = c["errors"][-1] <= settings["goal"]
            ours = f"{c['rounds']} rounds" if done else f"{c['errors'][-1]:.0e} after {c['rounds']}"
            word = f"{c['seconds']:.2f} s; {c['distances'][-1]:.1e} from the truth (optimum {case['distance']:.1e})"
            rows.append(Row(f"s = {sparsity}, {name}: to {settings['goal']:g}", "", ours, word))
    return rows


def _place(curve: dict[str, Any], goal: float) -> tuple[bool, float]:
    """Return a sort key: methods that reach the goal by their rounds, then the others by their final error."""
    done = curve["errors"][-1] <= goal
    return not done, curve["rounds"] if done else curve["errors"][-1]


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the objective in the top row and the estimation error in the bottom row, one column per sparsity."""
    figure, axes = panels(2, len(numbers["found"]), height=4.6)
    for column, (sparsity, case) in enumerate(numbers["found"].items()):
        top, bottom = axes[0, column], axes[1, column]
        for k, (name, c) in enumerate(case["curves"].items()):
            line(top, c["at"], np.maximum(c["errors"], 1e-10), name, k)
            line(bottom, c["at"], c["distances"], name, k)
        top.axhline(settings["goal"], color="black", linewidth=0.8)
        bottom.axhline(case["distance"], color="black", linewidth=0.8)
        top.set(xscale="log", yscale="log", title=f"s = {sparsity} of {settings['p']}")
        bottom.set(xscale="log", yscale="log", xlabel="rounds")
    axes[0, 0].set_ylabel("objective less optimum")
    axes[1, 0].set_ylabel("distance to the truth (l2)\nthin: the optimum's")
    legend_below(figure, axes[0, 0])
    return figure
