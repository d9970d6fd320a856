"""FOBOS, Figure 1: objective less its optimum along the rounds, FOBOS and Pegasos, strength/2 norm2(w)^2."""

from __future__ import annotations

from collections.abc import Iterable
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
    "tuning_runs": 3,
}
QUICK: Settings = {"runs": 5, "tuning_runs": 2, "epochs": 4}
# The three panels: loss, and whether iterates are projected onto a ball that holds the optimum.
CASES = (("logistic", True), ("hinge", True), ("logistic", False))
METHODS = ("FOBOS", "Pegasos")


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Gaps, averaged over runs, each with new data and a new order; then each method with each step of the grid."""
    s, cases = settings, {}
    bar.total(len(CASES) * (s["runs"] + s["tuning_runs"]))
    for loss, project in CASES:
        name = _name(loss, project)
        gaps: dict[str, list[Floats]] = {method: [] for method in (*METHODS, "printed")}
        for run in range(s["runs"]):
            bar.step(f"{name}, run {run + 1}")
            problem = _Problem(s, loss, project, 1000 * seed + run)
            for method in METHODS:
                gaps[method].append(problem.gaps(method, 1.0))
            gaps["printed"].append(problem.gaps("FOBOS", s["strength"] ** 2))
        grid: dict[str, dict[str, float]] = {method: {} for method in METHODS}
        tuning = []
        for run in range(s["tuning_runs"]):
            bar.step(f"{name}, steps {run + 1}")
            tuning.append(_Problem(s, loss, project, 1000 * seed + run))
        for method in METHODS:
            for scale in s["scales"]:
                grid[method][f"{scale:g}"] = float(np.mean([p.gaps(method, scale)[-1] for p in tuning]))
        cases[name] = {"mean": {m: np.mean(g, axis=0) for m, g in gaps.items()}, "grid": grid}
        cases[name]["deviation"] = {m: np.std(g, axis=0) for m, g in gaps.items()}
    return {"rounds": _rounds(s), "cases": cases}


def _rounds(s: Settings) -> Any:
    """Where the gap is taken: multiples of `every`, evenly in logarithm."""
    last = s["epochs"] * s["n"] // s["every"]
    return s["every"] * np.unique(np.geomspace(1, last, s["points"]).round().astype(np.int64))


def _name(loss: str, project: bool) -> str:
    return f"{loss}, {'projected' if project else 'no projection'}"


class _Problem:
    """One data set with its optimum."""

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
        """By liblinear and lbfgs, which share no code with what is measured."""
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


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Both at the end, with the paper's rule and with the best step of the grid."""
    rows = []
    claims = {
        "logistic, projected": "comparable",
        "hinge, projected": "comparable",
        "logistic, no projection": "FOBOS slightly better",
    }
    for name, case in numbers["cases"].items():
        ours, peer = (case["mean"][method][-1] for method in METHODS)
        word = f"Pegasos / FOBOS = {peer / ours:.2f}"
        if "no projection" in name:
            early = case["mean"]["Pegasos"][0] / case["mean"]["FOBOS"][0]
            word += f"; after {numbers['rounds'][0]} rounds {early:.2f}: what its shrinkage gains, FOBOS gains early"
        met = 0.5 <= peer / ours <= 2.0 if "no projection" not in name else peer >= 0.95 * ours
        rows.append(Row(f"{name}: final gap, step 1/(strength t)", claims[name], f"{ours:.2g} / {peer:.2g}", word, met))
        best = {m: min(g.items(), key=lambda pair: pair[1]) for m, g in case["grid"].items()}
        text = " / ".join(f"{best[m][1]:.2g} (c = {best[m][0]})" for m in METHODS)
        rows.append(Row(f"{name}: best c of c/(strength t)", "", text, "each with its own best step; fewer runs"))
    printed = numbers["cases"]["logistic, projected"]["mean"]["printed"][-1]
    word = "the printed step shrinks before it has moved; 1/(strength t) is what gives logarithmic regret"
    rows.append(Row("logistic: final gap, step strength/t as printed", "", f"{printed:.2g}", word))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Three panels, as the paper's."""
    figure, axes = panels(1, 3, height=2.8)
    for place, (name, case) in zip(axes[0], numbers["cases"].items(), strict=True):
        for k, method in enumerate(METHODS):
            line(place, numbers["rounds"], case["mean"][method], method, k)
        line(place, numbers["rounds"], case["mean"]["printed"], "FOBOS, step as printed", 4)
        place.set(title=name, xlabel="rounds (examples seen)", xscale="log", yscale="log")
    axes[0, 0].set_ylabel("objective less optimum")
    legend_below(figure, axes[0, 0])
    return figure
