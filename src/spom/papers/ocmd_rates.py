"""Mirror descent, Theorem 2: the excess risk of the last iterate falls as max(T^-theta log T, T^(theta-1)).

The theorem is about the worst case, so each run is made on two problems that are hard in different ways. In both, an
example has one feature j, drawn with probability p_j, so the risk is a sum that can be computed exactly:

- "noise": a few features, equally likely. The remaining excess is the noise of the last steps, eta_T = T^-theta;
- "tail": probabilities that fall geometrically, and the same weight on each. The rarest features are not learnt yet,
  and the remaining excess is 1 / (sum of the steps) = T^(theta-1).

As T grows, the slower term is the first one for theta < 1/2 and the second one for theta > 1/2. The slope is measured
on the corresponding problem.

The runs are repeated with a penalty (strength norm1, by its prox), with the p-norm map, and with both. The optimum is
still computed exactly, feature by feature. These problems need not be the hardest ones, so the excess may fall faster:
the theorem only requires that it does not fall more slowly, and that it stays below the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from spom.core.arrays import Floats
from spom.losses import Hinge, Logistic, PowerHinge, Squared
from spom.mirror import PNorm
from spom.papers.figures import legend_below, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import L1
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
    "variant_rounds": 200_000,
    "variant_runs": 5,
    "strength": 0.01,
    "power": 1.5,
}
QUICK: Settings = {"rounds": 100_000, "runs": 4, "variant_rounds": 20_000, "variant_runs": 2, "fit_from": 1_000}
TINY: Settings = {"rounds": 2000, "runs": 1, "variant_rounds": 1000, "variant_runs": 1, "points": 8, "fit_from": 300}
LOSSES: dict[str, Any] = {
    "hinge": Hinge(),
    "power hinge, 1.5": PowerHinge(1.5),
    "logistic": Logistic(),
    "squared": Squared(),
}
# The variants: (with a penalty, with the p-norm map); and the losses that are run with them.
VARIANTS = {"composite": (True, False), "mirror": (False, True), "composite, mirror": (True, True)}
VARIANT_LOSSES = ("hinge", "logistic")


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
    """Examples with one feature of value 1; the target is `high` with probability `likely`, else `low`.

    `strength` is that of the penalty strength norm1(w), `mirror` is the map.
    """

    def __init__(
        self, loss: Any, shares: Floats, likely: float, strength: float = 0.0, mirror: PNorm | None = None
    ) -> None:
        self.loss, self.shares, self.strength, self.mirror = loss, shares, strength, mirror
        self.penalty = L1(strength) if strength > 0 else None
        regression = isinstance(loss, Squared)
        self.likely = 0.5 if regression else likely
        self.high, self.low = (1.5, 0.5) if regression else (1.0, -1.0)
        self.weights = np.array([self._best(float(share)) for share in (shares if strength > 0 else [1.0])])
        if strength == 0:
            self.weights = np.full(shares.size, self.weights[0])
        self.least = self.risk(self.weights)

    def _best(self, share: float) -> float:
        """Return the optimal weight of a feature with this probability."""

        def value(w: float) -> float:
            return share * float(self.value(np.array([w]))[0]) + self.strength * abs(w)

        options = {"xatol": 1e-12}
        found = minimize_scalar(value, bounds=(-4, 4), method="bounded", options=options)
        return 0.0 if value(0.0) <= float(found.fun) else float(found.x)

    def value(self, w: Floats) -> Floats:
        """Return the expected loss of a feature with weight w."""
        high, low = (np.full(w.shape, y) for y in (self.high, self.low))
        return np.asarray(self.likely * self.loss.value(high, w) + (1 - self.likely) * self.loss.value(low, w))

    def risk(self, w: Floats) -> float:
        """Return the expected loss plus the penalty."""
        return float(self.shares @ self.value(w)) + self.strength * float(np.abs(w).sum())

    def excess(self, w: Floats) -> float:
        """Return the risk at w minus that of the best weights."""
        return self.risk(w) - self.least

    def blocks(self, marks: Any, rng: np.random.Generator) -> Iterator[tuple[Any, Floats]]:
        """Yield new examples, in blocks that end at the marks."""
        d, done = self.shares.size, 0
        for mark in marks:
            count, done = int(mark) - done, int(mark)
            j = rng.choice(d, count, p=self.shares).astype(np.int32)
            X = sparse.csr_matrix((np.ones(count), j, np.arange(count + 1)), shape=(count, d))
            yield X, np.where(rng.random(count) < self.likely, self.high, self.low)

    def largest_step(self) -> float:
        """Return the largest step that condition (2.2) allows."""
        one = np.zeros((1, self.shares.size))
        one[0, 0] = 1.0
        return largest_step(self.loss, self.penalty, self.mirror, one, [self.high])

    def bound(self, marks: Any, exponent: float) -> Floats | None:
        """Return the bound of Theorem 2 with its constants, or None if the theorem does not hold."""
        q, constant = self.loss.hoelder
        if exponent < q / (1 + q) - 1e-9:
            return None
        targets = np.array([self.high, self.low])
        power = 2.0 if self.mirror is None else float(self.mirror.p)
        d = self.shares.size
        constants = MirrorDescent(
            eta1=self.largest_step(),
            divergence=0.5 * float(np.linalg.norm(self.weights, power)) ** 2,
            risk=self.least,
            radius=1.0,
            modulus=1.0 if self.mirror is None else float(self.mirror.modulus(d)),
            q=q,
            Lq=constant,
            p=0.0,
            Lp=self.strength * d ** (1.0 - 1.0 / power),
            at_zero=float(np.max(self.loss.value(targets, np.zeros(2)))),
            slope=slope_at_zero(self.loss, targets),
            theta=max(exponent, q / (1 + q)),
        )
        return mirror_descent_excess(marks, constants)


def problems(settings: Settings) -> dict[str, Floats]:
    """Return the probability of each feature, in the two problems."""
    few, many = settings["noise_features"], settings["tail_features"]
    tail = settings["tail_ratio"] ** -np.arange(float(many))
    return {"noise": np.full(few, 1.0 / few), "tail": tail / tail.sum()}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute excess risks at rounds evenly spaced in logarithm, averaged over runs, and their slopes."""
    s = settings
    bar.total((len(LOSSES) + len(VARIANTS) * len(VARIANT_LOSSES)) * len(s["exponents"]) * 2)
    marks = _marks(s, s["rounds"])
    found = {}
    for name in LOSSES:
        for exponent in s["exponents"]:
            found[f"{name}|{exponent:.4f}"] = _case(s, name, exponent, (False, False), marks, seed, bar)
    short = _marks(s, s["variant_rounds"])
    variants: dict[str, Any] = {}
    for variant, parts in VARIANTS.items():
        for name in VARIANT_LOSSES:
            for exponent in s["exponents"]:
                key = f"{variant}|{name}|{exponent:.4f}"
                variants[key] = _case(s, name, exponent, parts, short, seed, bar)
    return {"rounds": marks, "found": found, "variant_rounds": short, "variants": variants}


def _marks(s: Settings, rounds: int) -> Any:
    return np.unique(np.geomspace(100, rounds, s["points"]).astype(np.int64))


def _case(
    s: Settings, name: str, exponent: float, parts: tuple[bool, bool], marks: Any, seed: int, bar: Bar
) -> dict[str, Any]:
    """Run one loss and step on both problems; `parts` says whether there is a penalty, and whether the p-norm map."""
    here: dict[str, Any] = {"theory": -min(exponent, 1 - exponent), "shown": "noise" if exponent < 0.5 else "tail"}
    strength, mirror = s["strength"] if parts[0] else 0.0, PNorm(s["power"]) if parts[1] else None
    runs = s["variant_runs"] if any(parts) else s["runs"]
    for problem, shares in problems(s).items():
        bar.step(f"{name}, theta {exponent:.2f}, {problem}")
        source = Source(LOSSES[name], shares, s["likely"], strength, mirror)
        mean = np.mean([_curve(source, exponent, marks, [seed, run]) for run in range(runs)], axis=0)
        bound = source.bound(marks, exponent)
        # The variants start slowly, so their slope is taken over the last part of the run.
        first = marks[-1] // 10 if any(parts) else s["fit_from"]
        here[problem] = {"excess": mean, "slope": _slope(marks, mean, first), "bound": bound}
    return here


def _curve(source: Source, exponent: float, marks: Any, seed: list[int]) -> list[float]:
    run = OnlineProximal(
        source.blocks(marks, np.random.default_rng(seed)),
        loss=source.loss,
        penalty=source.penalty,
        mirror=source.mirror,
        step=Power(source.largest_step(), exponent),
        update="forward-backward",
        shuffle=False,
    )
    return [source.excess(state.theta) for state in run]


def _slope(marks: Any, excess: Floats, first: int) -> float:
    used = marks >= first
    return float(np.polyfit(np.log(marks[used]), np.log(np.maximum(excess[used], 1e-300)), 1)[0])


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare the measured slopes with the theorem's."""
    rows = []
    for key, here in numbers["found"].items():
        name, exponent = key.split("|")
        off = abs(here[here["shown"]]["slope"] - here["theory"])
        rows.append(_row(f"{name}, theta = {float(exponent):.2f}", here, off <= 0.1))
    for key, here in numbers["variants"].items():
        variant, name, exponent = key.split("|")
        slower = here[here["shown"]]["slope"] - here["theory"]
        rows.append(_row(f"{variant}: {name}, theta = {float(exponent):.2f}", here, slower <= 0.1))
    return rows


def _row(what: str, here: dict[str, Any], near: bool) -> Row:
    slow = here[here["shown"]]
    other = "tail" if here["shown"] == "noise" else "noise"
    word = f"on the {here['shown']} problem; on the {other} problem {here[other]['slope']:.3f}; "
    met = None
    if slow["bound"] is None:
        word += "theta below what the theorem allows for this loss"
    else:
        pairs = [pair for p in ("noise", "tail") for pair in zip(here[p]["excess"], here[p]["bound"], strict=True)]
        below = all(e <= b for e, b in pairs)
        ratio = slow["bound"][-1] / slow["excess"][-1]
        word += f"the theorem's bound is {ratio:.2g} times the excess at the end" if ratio < 1e9 else "below the bound"
        word += "" if below else "; ABOVE THE BOUND"
        met = bool(near and below)
    name = f"{what}: slope of log excess in log T"
    return Row(name, f"{here['theory']:.3f}", f"{slow['slope']:.3f}", word, met)


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw one panel per theta, with one line per loss and the theorem's slope."""
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
