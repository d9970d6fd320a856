"""FOBOS, Table 1: test error against row sparsity for l1, l1/l2 and l1/l-inf, Landsat and MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.losses import MulticlassLogistic
from spom.papers.figures import PAPER, legend_below, line, panels
from spom.papers.fobos_data import Split, landsat, mnist, row_share
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import L1, GroupLasso, GroupLInf
from spom.solvers import BatchProximal, LinearSmooth, WorkingSet
from spom.solvers.iterate import any_of, halt, last, rounds, small

FULL: Settings = {
    "data": ["landsat", "mnist"],
    "landsat_examples": 720,
    "landsat_draws": 1,
    "mnist_examples": 4000,
    "mnist_centres": 1000,
    "mnist_tests": 10_000,
    "width": 5.0,
    "first": 0.7,
    "factor": 0.5,
    "most_strengths": 10,
    "enough": 0.42,
    "gap": 3e-3,
    "most_rounds": 60,
    "fista_rounds": 250,
    "margin": 0.02,
}
QUICK: Settings = {
    "landsat_draws": 1,
    "mnist_examples": 1000,
    "mnist_centres": 300,
    "mnist_tests": 2000,
    "most_strengths": 6,
    "most_rounds": 20,
    "fista_rounds": 40,
    "factor": 0.35,
}
SHARES = (0.05, 0.1, 0.2, 0.4)
# The paper's errors at these shares of non-zero rows.
PRINTED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "landsat": {"l1": (0.43, 0.30, 0.26, 0.22), "l1/l2": (0.29, 0.25, 0.22, 0.19), "l1/linf": (0.40, 0.30, 0.26, 0.22)},
    "mnist": {"l1": (0.37, 0.26, 0.15, 0.08), "l1/l2": (0.36, 0.26, 0.15, 0.08), "l1/linf": (0.47, 0.31, 0.24, 0.16)},
}
PENALTIES: dict[str, Any] = {
    "l1": L1,
    "l1/l2": lambda s: GroupLasso(s, "rows"),
    "l1/linf": lambda s: GroupLInf(s, "rows"),
}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Paths of falling strength, each solution from the one before, until enough rows are in use."""
    s = settings
    draws = {"landsat": s["landsat_draws"], "mnist": 1}
    bar.total(sum(draws[name] for name in s["data"]) * len(PENALTIES))
    found: dict[str, Any] = {}
    for name in s["data"]:
        found[name] = {penalty: {"paths": []} for penalty in PENALTIES}
        for draw in range(draws[name]):
            split = _split(s, name, 100 * seed + draw)
            for penalty in PENALTIES:
                bar.step(f"{name}, {penalty}")
                found[name][penalty]["paths"].append(_path(s, split, penalty))
        for case in found[name].values():
            case["errors"] = np.mean([[_at(path, share) for share in SHARES] for path in case["paths"]], axis=0)
    return {"found": found}


def _split(s: Settings, name: str, seed: int) -> Split:
    if name == "landsat":
        return landsat(s["landsat_examples"], seed)
    return mnist(s["mnist_examples"], s["mnist_centres"], s["mnist_tests"], s["width"], seed)


def _path(s: Settings, split: Split, name: str) -> dict[str, list[float]]:
    smooth = LinearSmooth(split.X, split.y, MulticlassLogistic(), outputs=split.classes, fit_intercept=True)
    make = PENALTIES[name]
    slope = smooth.gradient(np.zeros(smooth.shape))[:-1]
    top = float(make(1.0).max_strength(np.ascontiguousarray(slope)))
    theta: Floats | None = None
    path: dict[str, list[float]] = {"strengths": [], "rows": [], "errors": [], "entries": []}
    for k in range(s["most_strengths"]):
        strength = top * s["first"] * s["factor"] ** k
        theta = _solve(s, smooth, make(strength), theta)
        path["strengths"].append(strength)
        path["rows"].append(row_share(theta))
        path["errors"].append(split.error(theta))
        path["entries"].append(float(np.mean(theta[:-1] != 0.0)))
        if path["rows"][-1] >= s["enough"]:
            break
    return path


def _solve(s: Settings, smooth: Any, penalty: Any, start: Floats | None) -> Floats:
    """To the duality gap by working sets; l1/l-inf, which they do not take, by so many rounds of accelerated FOBOS."""
    if isinstance(penalty, GroupLInf):
        run: Any = BatchProximal(smooth, penalty, start=start, check_every=10**6)
        return last(halt(run, rounds(s["fista_rounds"]))).theta
    run = WorkingSet(smooth, penalty, start=start)
    return last(halt(run, any_of(small("gap", s["gap"]), rounds(s["most_rounds"])))).theta


def _at(path: dict[str, list[float]], share: float) -> float:
    """The error at this share of rows, linear between the points of the path; at its ends that of the end."""
    order = np.argsort(path["rows"], kind="stable")
    return float(np.interp(share, np.array(path["rows"])[order], np.array(path["errors"])[order]))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """The paper's table with ours beside each number."""
    rows = []
    for name, cases in numbers["found"].items():
        for penalty, case in cases.items():
            most = max(max(path["rows"]) for path in case["paths"])
            for share, theirs, ours in zip(SHARES, PRINTED[name][penalty], case["errors"], strict=True):
                word = ""
                if share > most:
                    word = f"the path ends at {most:.0%} of the rows: this is its last error"
                elif share == SHARES[0]:
                    word = _why(name)
                # A quick run has fewer centres and rounds than the numbers need.
                small_run = settings["fista_rounds"] < FULL["fista_rounds"]
                met = None if small_run else ours <= theirs + settings["margin"]
                rows.append(Row(f"{name}, {penalty}, {share:.0%} of rows", f"{theirs:.2f}", f"{ours:.3f}", word, met))
        inside = [e / r for e, r in _ends(cases["l1"])]
        word = "where about 40 % of the rows are in use"
        share = 1 - float(np.mean(inside))
        rows.append(
            Row(f"{name}, l1: zeros in the rows in use", "90 %" if name == "mnist" else "", f"{share:.0%}", word)
        )
    return rows


def _ends(case: dict[str, Any]) -> list[tuple[float, float]]:
    """(share of entries, share of rows) at the end of each path."""
    return [(path["entries"][-1], path["rows"][-1]) for path in case["paths"]]


def _why(name: str) -> str:
    if name == "landsat":
        return "standardised products, intercept, and each strength solved to its optimum, where few rows are left"
    return "centres are a quarter of the examples, width 5 for pixels from 0 to 1 (the paper does not say its scale)"


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Error against share of rows: our paths, and the paper's points."""
    figure, axes = panels(1, len(numbers["found"]), height=3.2)
    for place, (name, cases) in zip(axes[0], numbers["found"].items(), strict=True):
        for k, (penalty, case) in enumerate(cases.items()):
            path = case["paths"][0]
            order = np.argsort(path["rows"], kind="stable")
            used = [i for i in order if path["rows"][i] > 0]
            line(place, [path["rows"][i] for i in used], [path["errors"][i] for i in used], penalty, k)
            look = {**PAPER, "marker": ("*", "P", "X")[k], "fillstyle": "none", "markersize": 7}
            place.plot(SHARES, PRINTED[name][penalty], **{**look, "label": f"paper, {penalty}"})
        title = {"landsat": "Landsat", "mnist": "MNIST"}[name]
        place.set(xscale="log", xlabel="share of features in use", title=title, ylim=(0, None))
        place.set_xticks([0.01, 0.05, 0.1, 0.2, 0.4], ["1 %", "5 %", "10 %", "20 %", "40 %"])
        place.minorticks_off()
    axes[0, 0].set_ylabel("test error")
    legend_below(figure, axes[0, 0], 3)
    return figure
