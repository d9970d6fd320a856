"""Mirror descent, Remark 1: with dense features and a sparse truth, the p-norm map needs log d, the Euclidean map d.

Features are +-1, and the label is the sign of the sum of s of them, so weights 1 on these have no hinge loss. The
bounds on the regret are norm2(w*) norm2(x) sqrt(T) = sqrt(s d T) for the Euclidean map and a constant times
norm1(w*) norm_inf(x) sqrt(T log d) = s sqrt(T log d) for the p-norm map with p = 1 + 1/log d.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spom.mirror import PNorm
from spom.papers.figures import legend_below, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.solvers import OnlineProximal
from spom.solvers.steps import InverseSqrt

FULL: Settings = {
    "dimensions": [100, 316, 1000, 3162, 10_000, 31_623, 100_000],
    "relevant": 5,
    "goal": 0.5,
    "most_entries": 300_000_000,
    "euclidean_up_to": 3162,
    "least_rounds": 100,
    "block": 10,
    "runs": 2,
    "steps": [0.1, 0.3, 1.0, 3.0],
}
QUICK: Settings = {"dimensions": [100, 1000, 10_000], "most_entries": 20_000_000, "runs": 1, "euclidean_up_to": 1000}
TINY: Settings = {"dimensions": [20, 40], "most_entries": 100000, "goal": 0.8}
MAPS = ("p-norm", "Euclidean")


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Count the rounds until the running mean of the hinge loss reaches the goal, with the best step of each map."""
    s = settings
    bar.total(len(s["dimensions"]) * 2 * s["runs"])
    found: dict[str, Any] = {name: {} for name in MAPS}
    for d in s["dimensions"]:
        for name in _maps(s, d):
            runs = []
            for run in range(s["runs"]):
                bar.step(f"{name}, d = {d}")
                runs.append(_fastest(s, d, name, [seed, run]))
            reached = [rounds for rounds, _ in runs if rounds is not None]
            mean = float(np.mean(reached)) if len(reached) == len(runs) else None
            found[name][str(d)] = {"rounds": mean, "runs": runs}
    return {"found": found}


def _maps(s: Settings, d: int) -> tuple[str, ...]:
    """Return the maps to run: the Euclidean one needs some 9 d rounds of d numbers, and is left out at large d."""
    return MAPS if d <= s["euclidean_up_to"] else MAPS[:1]


def _fastest(s: Settings, d: int, name: str, seed: list[int]) -> tuple[int | None, float | None]:
    """Return (rounds, eta0) of the best step, or None if no step reaches the goal."""
    best: tuple[int | None, float | None] = (None, None)
    limit = s["most_entries"] // d
    for eta in s["steps"]:
        rounds = _rounds(s, d, name, eta, limit, seed)
        if rounds is not None:
            best, limit = (rounds, eta), rounds - s["block"]  # a later step must be faster
    return best


def _rounds(s: Settings, d: int, name: str, eta: float, limit: int, seed: list[int]) -> int | None:
    """Return the rounds until the running mean loss reaches the goal, with steps eta norm(w*) / norm(x) / sqrt(t)."""
    scale = np.sqrt(s["relevant"] / d) if name == "Euclidean" else s["relevant"] / np.sqrt(np.log(d))
    run = OnlineProximal(
        _blocks(s, d, limit, seed),
        loss="hinge",
        mirror=PNorm("auto") if name == "p-norm" else None,
        step=InverseSqrt(eta * scale),
        update="forward-backward",
        shuffle=False,
    )
    total = 0.0
    for count, state in enumerate(run, 1):
        total += state.loss
        if total <= s["goal"] * count and state.k >= s["least_rounds"]:
            return int(state.k)
    return None


def _blocks(s: Settings, d: int, limit: int, seed: list[int]) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng([*seed, d])
    for _ in range(max(1, limit // s["block"])):
        X = rng.integers(0, 2, size=(s["block"], d), dtype=np.int8) * 2.0 - 1.0
        yield X, np.sign(X[:, : s["relevant"]].sum(axis=1))


def _curve(numbers: Numbers, name: str) -> tuple[list[int], list[float]]:
    """Return dimensions and rounds of the cases that reached the goal."""
    cases = {int(d): case["rounds"] for d, case in numbers["found"][name].items()}
    used = {d: rounds for d, rounds in cases.items() if rounds is not None}
    return list(used), list(used.values())


def exponent(numbers: Numbers, name: str) -> float:
    """Return the slope of log rounds in log d."""
    d, rounds = _curve(numbers, name)
    return float(np.polyfit(np.log(d), np.log(rounds), 1)[0]) if len(d) > 1 else float("nan")


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Report the rounds at each dimension, and how they grow."""
    rows = []
    for d in map(str, settings["dimensions"]):
        texts, steps = [], []
        for name in _maps(settings, int(d)):
            case = numbers["found"][name][d]
            limit = settings["most_entries"] // int(d)
            texts.append(f"> {limit:,}" if case["rounds"] is None else f"{case['rounds']:.0f}")
            steps.append(", ".join(sorted({f"{eta:g}" for _, eta in case["runs"] if eta is not None})) or "none")
        if len(texts) == 1:
            texts.append("not run")
        what = f"d = {int(d):,}: rounds to a mean hinge loss of {settings['goal']}, p-norm / Euclidean"
        rows.append(Row(what, "", " / ".join(texts), f"best eta0 of {settings['steps']}: {' / '.join(steps)}"))
    power, plain = (exponent(numbers, name) for name in MAPS)
    word = "log d itself grows as d^.1 to d^.2 over this range; each map with the best of its own steps"
    ours = f"d^{power:.2f} / d^{plain:.2f}"
    rows.append(Row("rounds grow with", "log d / d", ours, word, power < 0.5 and plain > 0.7))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw rounds against dimension, with both bounds as thin lines."""
    figure, axes = panels(1, 1, width=4.5, height=3.3)
    place = axes[0, 0]
    for k, name in enumerate(MAPS):
        d, rounds = _curve(numbers, name)
        line(place, d, rounds, name, k)
        grid = np.geomspace(min(settings["dimensions"]), max(settings["dimensions"]), 50)
        shape = np.log(grid) if name == "p-norm" else grid
        label = "growth of the bound: log d" if name == "p-norm" else "growth of the bound: d"
        kind = ":" if name == "p-norm" else "-"
        place.plot(grid, rounds[0] * shape / shape[0], color="black", linewidth=0.8, linestyle=kind, label=label)
    text = f"rounds to a mean hinge loss of {settings['goal']}"
    place.set(xscale="log", yscale="log", xlabel="features d", ylabel=text)
    legend_below(figure, place, 2)
    return figure
