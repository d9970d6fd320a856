"""FOBOS, Figure 3: test error and row sparsity against the number of gradients, all examples or a part in each step."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.losses import MulticlassLogistic
from spom.papers.figures import legend_below, line, panels
from spom.papers.fobos_data import Split, landsat, mnist, row_share
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import L1, GroupLasso

FULL: Settings = {
    "data": ["landsat", "mnist"],
    "landsat_examples": 720,
    "mnist_examples": 2000,
    "mnist_centres": 500,
    "mnist_tests": 5000,
    "width": 5.0,
    "parts": [1.0, 0.2, 0.1],
    "passes": {"landsat": 1000, "mnist": 400},
    "runs": {"landsat": 5, "mnist": 3},
    "strength": {"landsat": 0.1, "mnist": 0.1},
    "steps": [0.03, 0.1, 0.3, 1.0],
    "points": 30,
}
QUICK: Settings = {
    "passes": {"landsat": 60, "mnist": 40},
    "runs": {"landsat": 2, "mnist": 1},
    "mnist_examples": 1000,
    "mnist_centres": 200,
    "mnist_tests": 1000,
    "points": 15,
}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Mean curves over runs, each with other examples; one eta0 / sqrt(t) for all parts, the best of a grid."""
    s = settings
    bar.total(sum(s["runs"][name] * len(s["parts"]) + len(s["steps"]) for name in s["data"]))
    found: dict[str, Any] = {}
    for name in s["data"]:
        splits = [_split(s, name, 100 * seed + run) for run in range(s["runs"][name])]
        tried = {}
        for eta in s["steps"]:
            bar.step(f"{name}, eta0 {eta:g}")
            tried[eta] = _run(s, name, splits[0], 1.0, eta, seed)
        # Judged by the objective of the run on all examples, which the test part has no say in.
        eta0 = min(tried, key=lambda eta: tried[eta]["objective"][-1])
        curves = {}
        for part in s["parts"]:
            runs = []
            for k, split in enumerate(splits):
                bar.step(f"{name}, {part:.0%}, run {k + 1}")
                runs.append(_run(s, name, split, part, eta0, 100 * seed + k))
            curves[f"{part:g}"] = {key: np.mean([run[key] for run in runs], axis=0) for key in runs[0]}
        found[name] = {"eta0": eta0, "curves": curves}
    return {"found": found}


def _split(s: Settings, name: str, seed: int) -> Split:
    if name == "landsat":
        return landsat(s["landsat_examples"], seed)
    return mnist(s["mnist_examples"], s["mnist_centres"], s["mnist_tests"], s["width"], seed)


def _run(s: Settings, name: str, split: Split, part: float, eta0: float, seed: int) -> dict[str, Any]:
    """W <- prox(W - eta g), g the mean gradient of `part` of the examples, drawn anew in each round."""
    loss, n = MulticlassLogistic(), len(split.y)
    slope = split.X.T @ loss.derivative(split.y, np.zeros((n, split.classes))) / n
    unit: Any = L1(1.0) if name == "landsat" else GroupLasso(1.0, "rows")
    strength = s["strength"][name] * float(unit.max_strength(np.ascontiguousarray(slope)))
    penalty: Any = L1(strength) if name == "landsat" else GroupLasso(strength, "rows")
    batch = max(1, round(part * n))
    rounds = s["passes"][name] * n // batch
    marks = set(np.unique(np.geomspace(1, rounds, s["points"]).round().astype(int)).tolist())
    random = np.random.default_rng([seed, 7])
    theta = np.zeros((split.X.shape[1] + 1, split.classes))
    out: dict[str, list[float]] = {"gradients": [], "error": [], "rows": [], "objective": []}
    for t in range(1, rounds + 1):
        chosen = np.arange(n) if batch == n else random.choice(n, batch, replace=False)
        X, y = (split.X, split.y) if batch == n else (split.X[chosen], split.y[chosen])
        alpha = np.asarray(loss.derivative(y, X @ theta[:-1] + theta[-1])) / batch
        eta = eta0 / np.sqrt(t)
        theta[:-1] = penalty.prox(np.ascontiguousarray(theta[:-1] - eta * (X.T @ alpha)), eta)
        theta[-1] -= eta * alpha.sum(axis=0)
        if t in marks:
            values = np.asarray(loss.value(split.y, split.X @ theta[:-1] + theta[-1]))
            out["gradients"].append(float(t * batch))
            out["error"].append(split.error(theta))
            out["rows"].append(row_share(theta))
            out["objective"].append(float(values.mean() + penalty.value(np.ascontiguousarray(theta[:-1]))))
    return out


def _gradients_to(curve: dict[str, Any], error: float) -> float:
    """Gradients until the test error is at most this."""
    pairs = zip(curve["gradients"], curve["error"], strict=True)
    return float(next((g for g, e in pairs if e <= error), np.inf))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """How soon the error is near the least of the run on all examples, and how many rows are left."""
    rows = []
    for name, case in numbers["found"].items():
        asked = settings["passes"][name] >= FULL["passes"][name]
        full = case["curves"]["1"]
        goal = min(full["error"]) + 0.01
        for part, curve in case["curves"].items():
            at = _gradients_to(curve, goal)
            ours = f"{at:,.0f} gradients; least {min(curve['error']):.3f}"
            sooner = at < _gradients_to(full, goal) if asked and part != "1" else None
            word = (
                f"eta0 {case['eta0']:g} for all, the best of {settings['steps']} on all examples" if part == "1" else ""
            )
            claim = "" if part == "1" else "much sooner than all"
            rows.append(
                Row(f"{name}, {float(part):.0%} of examples a step: to error {goal:.3f}", claim, ours, word, sooner)
            )
        for part, curve in case["curves"].items():
            ours = f"{curve['rows'][-1]:.1%} (most {max(curve['rows']):.0%})"
            claim = "falls along the run" if part == "1" else "less sparse than all"
            met = curve["rows"][-1] < max(curve["rows"]) if part == "1" else curve["rows"][-1] > full["rows"][-1]
            what = f"{name}, {float(part):.0%} of examples a step: rows in use at the end"
            rows.append(Row(what, claim, ours, "", met if asked else None))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Error above, sparsity below."""
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
