"""FOBOS, Figure 2: FOBOS, the subgradient method and an interior-point method on l1-logistic regression."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.losses import Logistic
from spom.papers.figures import STYLES, at_end, legend_below, line, panels
from spom.papers.optional import cvxpy
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.synthetic import half_sparse
from spom.penalties import L1
from spom.solvers import LinearSmooth, WorkingSet
from spom.solvers.iterate import halt, last, small

FULL: Settings = {
    "n": 1000,
    "d": 400,
    "strengths": [0.1, 0.01],
    "rounds": 2000,
    "steps": [1.0, 3.0, 10.0, 30.0, 100.0],
    "newton_steps": [2, 4, 6, 8, 10, 12, 15, 18],
    "sparsity_parts": [0.5, 0.3, 0.1, 0.03, 0.01],
    "sparsity_rounds": 300,
    "goals": [1e-2, 1e-4],
}
QUICK: Settings = {"n": 300, "d": 120, "rounds": 300, "sparsity_rounds": 200, "newton_steps": [3, 6, 9, 12]}
TINY: Settings = {"n": 60, "d": 10, "rounds": 30, "sparsity_rounds": 20, "steps": [3.0], "newton_steps": [4]}
FLOOR = 1e-9  # gaps below this are rounding errors


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute gaps by round and by CPU second, then the share of nonzero weights during runs with other strengths."""
    s = settings
    bar.total(len(s["strengths"]) * (len(s["steps"]) * 2 + len(s["newton_steps"])) + len(s["sparsity_parts"]))
    X, y = half_sparse(s["n"], s["d"], seed)
    smooth = LinearSmooth(X, y, Logistic())
    top = L1().max_strength(smooth.gradient(np.zeros(s["d"])))
    curves = {f"{part:g}": _curves(_Problem(smooth, L1(part * top)), s, bar) for part in s["strengths"]}
    eta0 = float(curves[f"{s['strengths'][0]:g}"]["FOBOS"]["eta0"])
    sparsity = {}
    for part in s["sparsity_parts"]:
        bar.step(f"sparsity, strength {part:g}")
        here = _Problem(smooth, L1(part * top))
        shares = [np.count_nonzero(w) / s["d"] for w in here.fobos(eta0, s["sparsity_rounds"])]
        sparsity[f"{part:g}"] = {"shares": shares, "optimum": np.count_nonzero(here.optimum) / s["d"]}
    return {"curves": curves, "sparsity": sparsity}


def _curves(problem: _Problem, s: Settings, bar: Bar) -> dict[str, Any]:
    curves: dict[str, Any] = {}
    for name, method in (("FOBOS", problem.fobos), ("subgradient", problem.subgradient)):
        found = {}
        for eta in s["steps"]:
            bar.step(f"{name}, eta0 {eta:g}")
            found[f"{eta:g}"] = problem.measure(method(eta, s["rounds"]))
        best = min(found, key=lambda eta: found[eta]["area"])
        curves[name] = {"eta0": best, "areas": {eta: c["area"] for eta, c in found.items()}, **found[best]}
    return {**curves, "interior point": _interior_point(problem, s["newton_steps"], bar)}


class _Problem:
    """The objective, its optimum, and the two first-order methods."""

    def __init__(self, smooth: Any, penalty: L1) -> None:
        self.smooth, self.penalty = smooth, penalty
        self.optimum = last(halt(WorkingSet(smooth, penalty), small("gap", 1e-13))).theta
        self.best = self.value(self.optimum)

    def value(self, w: Floats) -> float:
        return float(self.smooth.value(w) + self.penalty.value(w))

    def fobos(self, eta0: float, rounds: int) -> Iterable[Floats]:
        """w <- prox(w - eta0/sqrt(t) gradient), with the gradient of all examples."""
        w = np.zeros(self.smooth.shape)
        for t in range(1, rounds + 1):
            eta = eta0 / np.sqrt(t)
            w = self.penalty.prox(w - eta * self.smooth.gradient(w), eta)
            yield w

    def subgradient(self, eta0: float, rounds: int) -> Iterable[Floats]:
        """w <- w - eta0/sqrt(t) (gradient + strength sign(w))."""
        w = np.zeros(self.smooth.shape)
        for t in range(1, rounds + 1):
            g = self.smooth.gradient(w) + self.penalty.strength * np.sign(w)
            w = w - eta0 / np.sqrt(t) * g
            yield w

    def measure(self, iterates: Iterable[Floats]) -> dict[str, Any]:
        """Measure gap, CPU seconds and share of nonzeros after each round; the seconds exclude the measurement."""
        gaps, seconds, shares, spent = [], [], [], 0.0
        begin = time.thread_time()
        for w in iterates:
            spent += time.thread_time() - begin
            gaps.append(max(self.value(w) - self.best, 0.0))
            seconds.append(spent)
            shares.append(np.count_nonzero(w) / w.size)
            begin = time.thread_time()
        # The fastest step over the whole run has the least area under the logarithmic curve.
        area = float(np.log10(np.maximum(gaps, FLOOR)).mean())
        keep = _thinned(len(gaps))
        columns = {"gaps": gaps, "seconds": seconds, "shares": shares}
        return {"rounds": keep + 1, "area": area, **{k: np.array(v)[keep] for k, v in columns.items()}}


def _thinned(count: int) -> Any:
    return np.unique(np.geomspace(1, count, 60).round().astype(np.int64)) - 1


def _interior_point(problem: _Problem, steps: list[int], bar: Bar) -> dict[str, Any]:
    """Run a primal-dual interior-point method on exponential cones, stopped after the given numbers of Newton steps."""
    cp = cvxpy()
    X, y, n = problem.smooth.X, problem.smooth.y, problem.smooth.X.shape[0]
    w = cp.Variable(X.shape[1])
    loss = cp.sum(cp.logistic(cp.multiply(-y, X @ w))) / n
    program = cp.Problem(cp.Minimize(loss + problem.penalty.strength * cp.norm1(w)))
    gaps, seconds, shares = [], [], []
    for count in steps:
        bar.step(f"interior point, {count} steps")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it was stopped early, as intended
            begin = time.process_time()
            program.solve(solver="CLARABEL", max_iter=count)
            spent = time.process_time() - begin
        gaps.append(max(problem.value(np.asarray(w.value)) - problem.best, 0.0))
        seconds.append(spent)
        shares.append(float(np.mean(np.abs(w.value) > 1e-9)))
    return {"rounds": steps, "gaps": gaps, "seconds": seconds, "shares": shares}


def _reached(curve: dict[str, Any], goal: float) -> tuple[float, float] | None:
    """Return (rounds, seconds) at which the gap first reaches the goal."""
    for k, gap in enumerate(curve["gaps"]):
        if gap <= goal:
            return curve["rounds"][k], curve["seconds"][k]
    return None


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare the three curves with the claims in the paper's text."""
    rows = []
    claims = {"FOBOS": "quickly near", "subgradient": "much slower", "interior point": "nearest in the end"}
    for part, curves in numbers["curves"].items():
        for name, claim in claims.items():
            curve = curves[name]
            texts = []
            for goal in settings["goals"]:
                at = _reached(curve, goal)
                texts.append(f"{goal:g}: " + ("not reached" if at is None else f"{at[0]:.0f} rounds, {at[1]:.2g} s"))
            end = f"gap {max(curve['gaps'][-1], FLOOR):.0e} after {curve['seconds'][-1]:.2g} s"
            how = f"eta0 {curve['eta0']}, the best of {settings['steps']}; " if "eta0" in curve else "Newton steps; "
            met = _before(curves, settings["goals"][0]) if name == "FOBOS" else None
            rows.append(Row(f"{name}, strength {part} of the largest", claim, "; ".join(texts), how + end, met))
    shares = min(min(curves["subgradient"]["shares"]) for curves in numbers["curves"].values())
    rows.append(Row("subgradient: least share of non-zeros", "no sparsity", f"{shares:.2f}", "", shares == 1.0))
    for part, case in numbers["sparsity"].items():
        tenth = case["shares"][len(case["shares"]) // 10]
        ours = f"{tenth:.3f} -> {case['shares'][-1]:.3f}"
        word = f"optimum {case['optimum']:.3f}; first number after a tenth of the rounds"
        near = abs(case["shares"][-1] - case["optimum"]) <= 0.03
        rows.append(Row(f"FOBOS: share of non-zeros, strength {part}", "found early, stays", ours, word, near))
    return rows


def _before(curves: dict[str, Any], goal: float) -> bool:
    """Tell whether FOBOS reaches the goal before the interior-point method."""
    ours, peer = (_reached(curves[name], goal) for name in ("FOBOS", "interior point"))
    return ours is not None and (peer is None or ours[1] < peer[1])


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the gap against seconds, one panel per strength, and the share of nonzeros during the runs."""
    figure, axes = panels(1, len(numbers["curves"]) + 1, height=3.0)
    for place, (part, curves) in zip(axes[0], numbers["curves"].items(), strict=False):
        for k, (name, curve) in enumerate(curves.items()):
            line(place, curve["seconds"], np.maximum(curve["gaps"], FLOOR), name, k)
        place.axhline(settings["goals"][0], color="black", linewidth=0.8)
        place.text(place.get_xlim()[1], settings["goals"][0] * 1.4, "paper's goal", ha="right", fontsize=6.5)
        place.set(xscale="log", yscale="log", xlabel="CPU seconds", title=f"strength {part} of the largest")
    axes[0, 0].set_ylabel("objective less optimum")
    legend_below(figure, axes[0, 0])
    right = axes[0, -1]
    for k, (part, case) in enumerate(numbers["sparsity"].items()):
        rounds = np.arange(1, len(case["shares"]) + 1)
        line(right, rounds, case["shares"], part, k)
        at_end(right, rounds, case["shares"], part)
        right.axhline(case["optimum"], color=STYLES[k]["color"], linewidth=0.5)
    right.set(xlabel="rounds of FOBOS", ylabel="share of non-zero weights", xscale="log", ylim=(0, 1.05))
    right.set_title("five strengths; thin: optimum")
    return figure
