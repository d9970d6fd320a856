"""FOBOS, Figure 1: objective minus optimum by round, FOBOS and Pegasos, strength/2 norm2(w)^2.

Both methods run with the paper's step 1 / (strength t), and with c / (strength t), where c is the best of a grid on
other data sets (`tuning_runs` of them), chosen for each method by the same code. They are compared by the ratio of
their gaps on the same data: a mean of the logarithm within two standard errors of zero is a tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.registry import make
from spom.papers.figures import legend_below, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.synthetic import half_sparse, objective, pegasos
from spom.penalties import SquaredL2
from spom.solvers import OnlineProximal
from spom.solvers.steps import Schedule
from spom.theory import vacuous_radius

FULL: Settings = {
    "n": 1000,
    "d": 400,
    "strength": 0.1,
    "epochs": 10,
    "every": 10,
    "points": 40,
    "runs": 20,
    "scales": [0.1, 0.3, 1.0, 3.0],
    "tuning_runs": 5,
}
QUICK: Settings = {"runs": 5, "tuning_runs": 2, "epochs": 4}
TINY: Settings = {"n": 60, "d": 10, "epochs": 2, "points": 5, "runs": 2, "tuning_runs": 1, "scales": [0.3, 1.0]}
# The three panels: loss, and whether iterates are projected onto a ball that contains the optimum.
CASES = (("logistic", True), ("hinge", True), ("logistic", False))
METHODS = ("FOBOS", "Pegasos")
TUNED = ("FOBOS, c chosen", "Pegasos, c chosen")


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute gaps of runs, each with new data and a new order: the mean by round, and each at the end."""
    s, cases = settings, {}
    bar.total(len(CASES) * (s["runs"] + s["tuning_runs"]))
    for loss, project in CASES:
        name = _name(loss, project)
        grid: dict[str, dict[str, float]] = {method: {f"{scale:g}": 0.0 for scale in s["scales"]} for method in METHODS}
        for run in range(s["tuning_runs"]):
            bar.step(f"{name}, steps {run + 1}")
            problem = _Problem(s, loss, project, 1000 * seed + 500 + run)
            for method in METHODS:
                for scale in s["scales"]:
                    grid[method][f"{scale:g}"] += float(problem.gaps(method, scale)[-1]) / s["tuning_runs"]
        best = {method: float(min(g, key=lambda scale: g[scale])) for method, g in grid.items()}
        gaps: dict[str, list[Floats]] = {method: [] for method in (*METHODS, *TUNED, "printed")}
        for run in range(s["runs"]):
            bar.step(f"{name}, run {run + 1}")
            problem = _Problem(s, loss, project, 1000 * seed + run)
            for method, tuned in zip(METHODS, TUNED, strict=True):
                gaps[method].append(problem.gaps(method, 1.0))
                gaps[tuned].append(problem.gaps(method, best[method]))
            gaps["printed"].append(problem.gaps("FOBOS", s["strength"] ** 2))
        mean = {m: np.mean(g, axis=0) for m, g in gaps.items()}
        ends = {m: [float(gap[-1]) for gap in g] for m, g in gaps.items()}
        cases[name] = {"mean": mean, "ends": ends, "grid": grid, "best": best}
    return {"rounds": _rounds(s), "cases": cases}


def _rounds(s: Settings) -> Any:
    """Return the rounds at which the gap is measured: multiples of `every`, evenly spaced in logarithm."""
    last = s["epochs"] * s["n"] // s["every"]
    return s["every"] * np.unique(np.geomspace(1, last, s["points"]).round().astype(np.int64))


def _name(loss: str, project: bool) -> str:
    return f"{loss}, {'projected' if project else 'no projection'}"


class _Problem:
    """A data set with its optimum."""

    def __init__(self, settings: Settings, loss: str, project: bool, seed: int) -> None:
        self.s, self.seed = settings, seed
        self.loss, self.penalty = make("loss", loss), SquaredL2(settings["strength"])
        self.X, self.y = half_sparse(settings["n"], settings["d"], seed)
        self.radius = np.inf
        if project:
            hinge = loss == "hinge"
            bound = settings["strength"] ** -0.5 if hinge else vacuous_radius(self.loss, self.penalty, self.y)
            self.radius = float(bound)
        self.best = self._value(self._optimum(loss))

    def _value(self, w: Floats) -> float:
        return objective(self.X, self.y, self.loss, self.penalty, w)

    def _optimum(self, loss: str) -> Any:
        """Find the optimum by liblinear and lbfgs, which share no code with the methods under test."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC

        C = 1.0 / (self.s["strength"] * self.s["n"])
        if loss == "hinge":
            model = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-7, max_iter=10**5, random_state=0)
        else:
            model = LogisticRegression(C=C, fit_intercept=False, tol=1e-9, max_iter=10**4)
        return model.fit(self.X, self.y).coef_[0]

    def gaps(self, method: str, scale: float) -> Floats:
        """F(w_t) - F(w*) with the step scale / (strength t)."""
        s = self.s
        if method == "Pegasos":
            options = {"scale": scale, "radius": self.radius, "epochs": s["epochs"], "every": s["every"]}
            states = pegasos((self.X, self.y), self.loss, s["strength"], seed=self.seed, **options)
            return self._at_rounds(states)
        run = OnlineProximal(
            self.X,
            self.y,
            loss=self.loss,
            penalty=self.penalty,
            step=Schedule(lambda t: scale / (s["strength"] * t)),
            projection=self.radius if np.isfinite(self.radius) else None,
            update="forward-backward",
            epochs=s["epochs"],
            every=s["every"],
            random_state=self.seed,
        )
        return self._at_rounds((state.k, state.theta) for state in run)

    def _at_rounds(self, states: Iterable[tuple[int, Floats]]) -> Floats:
        wanted = set(_rounds(self.s).tolist())
        return np.array([self._value(w) - self.best for k, w in states if k in wanted])


def lead(ours: Sequence[float], peer: Sequence[float]) -> tuple[float, float]:
    """Return (mean, twice the standard error) of log(peer / ours) over runs on the same data.

    >>> round(lead([1.0, 1.0], [2.0, 2.0])[0], 4)
    0.6931
    """
    logs = np.log(np.asarray(peer) / np.asarray(ours))
    error = float(logs.std(ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else np.inf
    return float(logs.mean()), 2.0 * error


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare both methods at the end, with the paper's step and with the chosen step."""
    rows = []
    for name, case in numbers["cases"].items():
        claim = "comparable" if "no projection" not in name else "FOBOS slightly better"
        for pair, what in ((METHODS, "step 1/(strength t)"), (TUNED, "step c/(strength t)")):
            ends = [case["ends"][method] for method in pair]
            mean, width = lead(*ends)
            low, high = np.exp(mean - width), np.exp(mean + width)
            word = f"Pegasos / FOBOS {np.exp(mean):.2f} ({low:.2f} to {high:.2f}, two standard errors): "
            word += "a tie" if abs(mean) <= width else "FOBOS ahead" if mean > 0 else "Pegasos ahead"
            if pair is TUNED:
                word += "; c = " + " / ".join(f"{case['best'][method]:g}" for method in METHODS)
            # Comparable: the gaps differ by less than a quarter. Better: ahead by more than the noise.
            met = mean > width if "better" in claim else abs(mean) <= np.log(1.25)
            text = " / ".join(f"{np.mean(end):.2g}" for end in ends)
            rows.append(Row(f"{name}: final gap of FOBOS / Pegasos, {what}", claim, text, word, bool(met)))
    case = numbers["cases"]["logistic, projected"]
    printed, ours = case["mean"]["printed"][-1], case["mean"]["FOBOS"][-1]
    word = f"{printed / ours:.2g} times the gap with 1/(strength t), the step that gives logarithmic regret"
    rows.append(Row("logistic, projected: final gap, step strength/t as printed", "", f"{printed:.2g}", word))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw three panels, as in the paper."""
    figure, axes = panels(1, 3, height=2.8)
    for place, (name, case) in zip(axes[0], numbers["cases"].items(), strict=True):
        for k, method in enumerate(METHODS):
            line(place, numbers["rounds"], case["mean"][method], method, k)
        line(place, numbers["rounds"], case["mean"]["printed"], "FOBOS, step as printed", 4)
        place.set(title=name, xlabel="rounds (examples seen)", xscale="log", yscale="log")
    axes[0, 0].set_ylabel("objective less optimum")
    legend_below(figure, axes[0, 0])
    return figure
