"""Mirror descent, Theorem 2: the excess risk of the last iterate falls as max(T^-theta log T, T^(theta-1)).

The theorem is about the worst problem, so each run is made on two that are hard in different ways. In both an example
shows one feature j, drawn with probability p_j, so that the risk is a sum that can be computed exactly:

- "noise": a few features, equally likely. What is left at the end is the noise of the last steps, eta_T = T^-theta;
- "tail": probabilities that fall geometrically, and the same weight on each. The rarest features are not learnt yet,
  and what is left is 1 / (sum of the steps) = T^(theta-1).

For theta < 1/2 the first term is the slower one as T grows, for theta > 1/2 the second: the slope is measured on the
problem that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from spom.core.arrays import Floats
from spom.losses import Hinge, Logistic, PowerHinge, Squared
from spom.papers.figures import legend_below, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.solvers import OnlineProximal
from spom.solvers.steps import Step
from spom.theory import MirrorDescent, largest_step, mirror_descent_excess
from spom.theory.constants import slope_at_zero

FULL: Settings = {
    "rounds": 1_000_000,
    "runs": 20,
    "points": 25,
    "exponents": [1 / 3, 1 / 2, 2 / 3],
    "fit_from": 3_000,
    "noise_features": 8,
    "tail_features": 40,
    "tail_ratio": 2**0.5,
    "likely": 0.8,
}
QUICK: Settings = {"rounds": 100_000, "runs": 4, "fit_from": 1_000}
LOSSES: dict[str, Any] = {
    "hinge": Hinge(),
    "power hinge, 1.5": PowerHinge(1.5),
    "logistic": Logistic(),
    "squared": Squared(),
}


class Power(Step):
    """eta_t = eta0 t^-power.

    >>> Power(1.0, 0.5).sizes(4, 1, 10)
    array([0.5])
    """

    def __init__(self, eta0: float, power: float) -> None:
        self.eta0, self.power = eta0, power

    def sizes(self, first: int, count: int, rounds_per_epoch: int) -> Floats:
        """eta0 t^-power."""
        return np.asarray(self.eta0 * self._times(first, count) ** -self.power)


class Source:
    """Examples with one feature of value 1; the target is `high` with probability `likely`, else `low`."""

    def __init__(self, loss: Any, shares: Floats, likely: float) -> None:
        self.loss, self.shares = loss, shares
        regression = isinstance(loss, Squared)
        self.likely = 0.5 if regression else likely
        self.high, self.low = (1.5, 0.5) if regression else (1.0, -1.0)
        found = minimize_scalar(
            lambda w: float(self.value(np.array([w]))[0]), bounds=(-4, 4), method="bounded", options={"xatol": 1e-12}
        )
        self.weight, self.least = float(found.x), float(found.fun)

    def value(self, w: Floats) -> Floats:
        """The expected loss of a feature with weight w."""
        high, low = (np.full(w.shape, y) for y in (self.high, self.low))
        return np.asarray(self.likely * self.loss.value(high, w) + (1 - self.likely) * self.loss.value(low, w))

    def excess(self, w: Floats) -> float:
        """The risk at w less that of the best weights."""
        return float(self.shares @ (self.value(w) - self.least))

    def blocks(self, marks: Any, rng: np.random.Generator) -> Iterator[tuple[Any, Floats]]:
        """New examples, in blocks that end at the marks."""
        d, done = self.shares.size, 0
        for mark in marks:
            count, done = int(mark) - done, int(mark)
            j = rng.choice(d, count, p=self.shares).astype(np.int32)
            X = sparse.csr_matrix((np.ones(count), j, np.arange(count + 1)), shape=(count, d))
            yield X, np.where(rng.random(count) < self.likely, self.high, self.low)

    def largest_step(self) -> float:
        """Condition (2.2)."""
        return largest_step(self.loss, None, None, np.eye(1), [self.high])

    def bound(self, marks: Any, exponent: float) -> Floats | None:
        """Theorem 2 with its constants; None where it does not hold."""
        q, constant = self.loss.hoelder
        if exponent < q / (1 + q) - 1e-9:
            return None
        targets = np.array([self.high, self.low])
        constants = MirrorDescent(
            eta1=self.largest_step(),
            divergence=0.5 * self.shares.size * self.weight**2,
            risk=self.least,
            radius=1.0,
            q=q,
            Lq=constant,
            at_zero=float(np.max(self.loss.value(targets, np.zeros(2)))),
            slope=slope_at_zero(self.loss, targets),
            theta=max(exponent, q / (1 + q)),
        )
        return mirror_descent_excess(marks, constants)


def problems(settings: Settings) -> dict[str, Floats]:
    """How likely each feature is, in the two problems."""
    few, many = settings["noise_features"], settings["tail_features"]
    tail = settings["tail_ratio"] ** -np.arange(float(many))
    return {"noise": np.full(few, 1.0 / few), "tail": tail / tail.sum()}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Excess risks at rounds that are even in logarithm, mean over runs, and their slopes."""
    s = settings
    marks = np.unique(np.geomspace(100, s["rounds"], s["points"]).astype(np.int64))
    bar.total(len(LOSSES) * len(s["exponents"]) * 2)
    found: dict[str, Any] = {}
    for name, loss in LOSSES.items():
        for exponent in s["exponents"]:
            here: dict[str, Any] = {"theory": -min(exponent, 1 - exponent)}
            for problem, shares in problems(s).items():
                bar.step(f"{name}, theta {exponent:.2f}, {problem}")
                source = Source(loss, shares, s["likely"])
                curves = [_curve(source, exponent, marks, [seed, run]) for run in range(s["runs"])]
                mean = np.mean(curves, axis=0)
                bound = source.bound(marks, exponent)
                here[problem] = {"excess": mean, "slope": _slope(marks, mean, s["fit_from"]), "bound": bound}
            here["shown"] = "noise" if exponent < 0.5 else "tail"
            found[f"{name}|{exponent:.4f}"] = here
    return {"rounds": marks, "found": found}


def _curve(source: Source, exponent: float, marks: Any, seed: list[int]) -> list[float]:
    run = OnlineProximal(
        source.blocks(marks, np.random.default_rng(seed)),
        loss=source.loss,
        step=Power(source.largest_step(), exponent),
        update="forward-backward",
        shuffle=False,
    )
    return [source.excess(state.theta) for state in run]


def _slope(marks: Any, excess: Floats, first: int) -> float:
    used = marks >= first
    return float(np.polyfit(np.log(marks[used]), np.log(np.maximum(excess[used], 1e-300)), 1)[0])


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Measured slopes against the theorem's."""
    rows = []
    for key, here in numbers["found"].items():
        name, exponent = key.split("|")
        slow = here[here["shown"]]
        other = "tail" if here["shown"] == "noise" else "noise"
        inside = slow["bound"] is not None
        off = abs(slow["slope"] - here["theory"])
        word = f"on the {here['shown']} problem; on the {other} problem {here[other]['slope']:.3f}; "
        if inside:
            pairs = [pair for p in ("noise", "tail") for pair in zip(here[p]["excess"], here[p]["bound"], strict=True)]
            ratio = slow["bound"][-1] / slow["excess"][-1]
            word += (
                f"the theorem's bound is {ratio:.2g} times the excess at the end" if ratio < 1e9 else "below the bound"
            )
            word += "" if all(e <= b for e, b in pairs) else "; ABOVE THE BOUND"
        else:
            word += "theta below what the theorem allows for this loss"
        rows.append(
            Row(
                f"{name}, theta = {float(exponent):.2f}: slope of log excess in log T",
                f"{here['theory']:.3f}",
                f"{slow['slope']:.3f}",
                word,
                off <= 0.1 if inside else None,
            )
        )
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """A panel a theta: one line a loss, and the theorem's slope."""
    exponents = settings["exponents"]
    figure, axes = panels(1, len(exponents), height=3.0)
    rounds = np.array(numbers["rounds"])
    for place, exponent in zip(axes[0], exponents, strict=True):
        for k, name in enumerate(LOSSES):
            here = numbers["found"][f"{name}|{exponent:.4f}"]
            line(place, rounds, here[here["shown"]]["excess"], name, k)
        rate = rounds**-exponent * np.log(rounds) if exponent == 0.5 else rounds ** -min(exponent, 1 - exponent)
        top = max(numbers["found"][f"{n}|{exponent:.4f}"]["tail"]["excess"][0] for n in LOSSES)
        label = "theorem: $T^{-1/2}\\log T$ or $T^{-1/3}$, up to a constant"
        place.plot(rounds, 2 * top * rate / rate[0], color="black", linewidth=0.8, label=label)
        title = f"step $\\eta_1 t^{{-\\theta}}$, $\\theta$ = {exponent:.2f}"
        place.set(xscale="log", yscale="log", xlabel="rounds T", title=title)
    axes[0, 0].set_ylabel("excess risk of the last iterate")
    legend_below(figure, axes[0, 0], 3)
    return figure
