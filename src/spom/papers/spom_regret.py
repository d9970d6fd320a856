"""SPOM, Proposition 3: the regret of Algorithm 1 against its three bounds.

Logistic loss, penalty strength/2 (sum of block norms)^2. There are two streams: examples drawn independently, and an
adversary with the same inputs and the label opposite to every prediction. The batch solver finds the best fixed theta
in hindsight. The three step rules are:

1. the fixed step norm(theta*) / (G sqrt(T)) that the proposition requires, one run per T;
2. eta0/sqrt(t) with projection onto the ball that contains the optimum, eta0 = F / (sqrt(2) G);
3. 1/(sigma t), for the loss with sigma/2 norm2^2 moved into it, on the ball in which that is G-Lipschitz.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.losses import Logistic
from spom.papers.figures import legend_below, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import ElasticNetMKL, SparseMKL
from spom.solvers import BatchProximal, LinearSmooth
from spom.solvers.iterate import any_of, halt, last, rounds, small
from spom.theory import spom_regret, structured_radius

FULL: Settings = {
    "blocks": 5,
    "block_size": 4,
    "strength": 0.01,
    "sigma": 0.1,
    "rounds": [100, 316, 1000, 3162, 10_000, 31_623],
    "flipped": 0.1,
}
QUICK: Settings = {"rounds": [100, 316, 1000, 3162]}
TINY: Settings = {"rounds": [20, 50]}
STEPS = ("fixed", "1/sqrt(t)", "1/t")
STREAMS = ("independent", "adversarial")


def stream(s: Settings, T: int, seed: int) -> tuple[Floats, Floats]:
    """Return unit rows, and labels from weights on one block, a part of them flipped."""
    rng = np.random.default_rng([seed, T])
    d = s["blocks"] * s["block_size"]
    X = rng.standard_normal((T, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = np.zeros(d)
    truth[: s["block_size"]] = rng.standard_normal(s["block_size"])
    y = np.where(X @ truth >= 0, 1.0, -1.0)
    return X, np.where(rng.random(T) < s["flipped"], -y, y)


def online_loss(
    X: Floats, y: Floats, against: bool, penalty: Any, step: Callable[[int], float], radius: float, sigma: float
) -> float:
    """Run Algorithm 1 as printed; return the sum over t of penalty(theta_t) + L_t(theta_t).

    L_t is the logistic loss plus sigma/2 norm2^2. With `against`, y is overwritten by the signs that theta_t does not
    predict.
    """
    loss, theta, total = Logistic(), np.zeros(X.shape[1]), 0.0
    for t in range(len(y)):
        score = float(X[t] @ theta)
        if against:
            y[t] = -1.0 if score > 0 else 1.0
        total += float(loss.value(y[t], score)) + 0.5 * sigma * float(theta @ theta) + float(penalty.value(theta))
        g = float(loss.derivative(y[t], score)) * X[t] + sigma * theta
        eta = step(t + 1)
        theta = penalty.prox(theta - eta * g, eta)
        size = float(np.sqrt(theta @ theta))
        if size > radius:
            theta *= radius / size
    return total


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute regret and bound at each T."""
    s = settings
    bar.total(len(STREAMS) * len(s["rounds"]))
    found: dict[str, Any] = {kind: {step: {"regret": [], "bound": []} for step in STEPS} for kind in STREAMS}
    for kind in STREAMS:
        for T in s["rounds"]:
            bar.step(f"{kind}, T = {T}")
            for name in STEPS:
                regret, bound = _one(*stream(s, T, seed), s, name, kind == "adversarial")
                found[kind][name]["regret"].append(regret)
                found[kind][name]["bound"].append(bound)
    return {"found": found}


def _one(X: Floats, y: Floats, s: Settings, name: str, against: bool) -> tuple[float, float]:
    """Return (regret, bound) for one step rule."""
    T, lam, sigma, G = len(y), s["strength"], s["sigma"] if name == "1/t" else 0.0, 1.0
    penalty = SparseMKL(lam, s["block_size"])
    budget = float(np.log(2.0))
    if name == "fixed":
        # The step needs norm(theta*) in advance: for the adversary, that of the independent stream is used.
        eta = float(np.linalg.norm(_hindsight(X, y, penalty)[0])) / (G * np.sqrt(T))
        total = online_loss(X, y, against, penalty, lambda t: eta, np.inf, 0.0)
        theta, least = _hindsight(X, y, penalty)
        return total - least, float(spom_regret(T, G, eta=eta, norm=float(np.linalg.norm(theta))))
    radius = structured_radius(budget, lam, sigma)
    if name == "1/sqrt(t)":
        eta0 = 2 * radius / (np.sqrt(2.0) * G)
        bound = spom_regret(T, G, eta0=eta0, diameter=2 * radius)
        total = online_loss(X, y, against, penalty, lambda t: float(eta0 / np.sqrt(t)), radius, 0.0)
        return total - _hindsight(X, y, penalty)[1], float(bound)
    bound = spom_regret(T, G + sigma * radius, sigma=sigma)
    total = online_loss(X, y, against, penalty, lambda t: 1.0 / (sigma * t), radius, sigma)
    # The whole objective: strength/2 (sum of norms)^2 + sigma/2 norm2^2 + loss.
    whole = ElasticNetMKL(lam + sigma, s["block_size"], l1_ratio=lam / (lam + sigma))
    return total - _hindsight(X, y, whole)[1], float(bound)


def _hindsight(X: Floats, y: Floats, penalty: Any) -> tuple[Floats, float]:
    """Return the best fixed theta and its sum of losses and penalties."""
    smooth = LinearSmooth(X, y, Logistic())
    rule = any_of(small("residual", 1e-9), rounds(20_000))
    theta = last(halt(BatchProximal(smooth, penalty, check_every=20), rule)).theta
    return theta, len(y) * (smooth.value(theta) + float(penalty.value(theta)))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Report regret and bound at the last T, and the exponent of T."""
    rows = []
    theory = {"fixed": "T^.5", "1/sqrt(t)": "T^.5", "1/t": "log T"}
    T = np.array(settings["rounds"], dtype=float)
    for kind in STREAMS:
        for name in STEPS:
            case = numbers["found"][kind][name]
            below = all(r <= b for r, b in zip(case["regret"], case["bound"], strict=True))
            regret = np.maximum(case["regret"], 1e-2)
            slope = np.polyfit(np.log(T), np.log(regret), 1)[0]
            ours = f"{case['regret'][-1]:.1f} <= {case['bound'][-1]:.1f}"
            word = f"regret grows as T^{slope:.2f}; the bound is {case['bound'][-1] / regret[-1]:.1f} times as large"
            what = f"{kind}, step {name}: regret and bound at T = {int(T[-1]):,}"
            rows.append(Row(what, theory[name], ours, word, below))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw one panel per step rule: both streams and the bound."""
    figure, axes = panels(1, 3, height=2.9)
    for place, name in zip(axes[0], STEPS, strict=True):
        for k, kind in enumerate(STREAMS):
            case = numbers["found"][kind][name]
            line(place, settings["rounds"], np.maximum(case["regret"], 1e-2), f"regret, {kind} examples", k)
        bound = np.max([numbers["found"][kind][name]["bound"] for kind in STREAMS], axis=0)
        place.plot(settings["rounds"], bound, color="black", linewidth=0.9, label="bound of Prop. 3")
        place.set(xscale="log", yscale="log", xlabel="rounds T", title=f"step: {name}")
        place.set_ylim(1.0, None)
    axes[0, 0].set_ylabel("regret (sum of losses)")
    legend_below(figure, axes[0, 0])
    return figure
