"""GPM, Table 1: time of the Euclidean and of the l-inf-norm prox of the l-inf latent group lasso."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.norms import GeneralProx, general_prox
from spom.papers.figures import PAPER, legend_below, line, panels
from spom.papers.gpm_problems import latent_case, projections
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import LatentGroupLasso

FULL: Settings = {
    "dimensions": [64, 128, 256, 512],
    "tolerances": [1e-2, 1e-3, 1e-4, 1e-5],
    "runs": 3,
    "repeats": 5,
    "speed_up": 300,
}
QUICK: Settings = {"dimensions": [64, 128], "tolerances": [1e-2, 1e-3], "runs": 1, "repeats": 3}
TINY: Settings = {"dimensions": [64], "tolerances": [0.01], "repeats": 1}
# Seconds in the paper's Table 1: the Euclidean prox, and the l-inf-norm prox with p_k, for each tolerance.
PRINTED: dict[int, tuple[tuple[float, float, float, float], tuple[float, float, float, float]]] = {
    64: ((0.055, 0.502, 5.234, 42.62), (0.058, 0.104, 0.258, 0.219)),
    128: ((0.103, 0.944, 9.422, 98.13), (0.142, 0.153, 0.207, 0.437)),
    256: ((0.192, 2.038, 18.92, 170.6), (0.256, 0.368, 0.466, 0.620)),
    512: ((0.461, 4.213, 41.21, 377.5), (0.730, 1.289, 1.873, 1.502)),
}
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5)


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Measure CPU seconds, the minimum over repeats and the mean over problems."""
    s, found = settings, {}
    bar.total(len(s["dimensions"]) * (2 + len(s["tolerances"])))
    for p in s["dimensions"]:
        cases = [latent_case(p, 100 * seed + run) for run in range(s["runs"])]
        bar.step(f"p = {p}, l-inf norm")
        warm = [_warm(u, penalty, s["repeats"]) for u, penalty in cases]
        cold = [_least(2, general_prox, penalty, "linf", u, np.zeros(p), 1.0) for u, penalty in cases]
        bar.step(f"p = {p}, exact Euclidean prox")
        newton = [_least(s["repeats"], penalty.prox_certified, u, 1.0, "newton") for u, penalty in cases]
        ours = [_least(s["repeats"], penalty.prox, u) for u, penalty in cases]
        exact = [c[1].prox_certified(c[0]).x for c in cases]
        cyclic: dict[str, Any] = {}
        dykstra: dict[str, Any] = {}
        for tol in s["tolerances"]:
            bar.step(f"p = {p}, projections to {tol:g}")
            for table, fast in ((cyclic, False), (dykstra, True)):
                runs = [
                    _least(1, projections, penalty, u, x, tol, fast)
                    for (u, penalty), x in zip(cases, exact, strict=True)
                ]
                table[f"{tol:g}"] = float(np.mean(runs))
        found[str(p)] = {
            "linf": float(np.mean([seconds for seconds, _ in warm])),
            "linf_cold": float(np.mean(cold)),
            "programs": max(programs for _, programs in warm),
            "newton": float(np.mean(newton)),
            "default": float(np.mean(ours)),
            "cyclic": cyclic,
            "dykstra": dykstra,
        }
    return {"found": found}


def _least(repeats: int, function: Callable[..., Any], *arguments: Any) -> float:
    function(*arguments)
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        function(*arguments)
        times.append(time.thread_time() - begin)
    return min(times)


def _warm(u: Floats, penalty: LatentGroupLasso, repeats: int) -> tuple[float, int]:
    """Return (seconds of a prox, most programs) at ten successive points near u, similar to a solver's iterates."""
    solve = GeneralProx(penalty, "linf", u.size)
    rng = np.random.default_rng(1)
    points = [u + 1e-2 * rng.standard_normal(u.size) for _ in range(10)]
    found = [solve(point, np.zeros(u.size), 1.0) for point in points]
    seconds = _least(repeats, lambda: [solve(point, np.zeros(u.size), 1.0) for point in points]) / 10
    return seconds, max(result.programs for result in found)


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare the speed-ups with the paper's."""
    rows = []
    for p, case in numbers["found"].items():
        for k, tol in enumerate(TOLERANCES):
            if tol not in settings["tolerances"]:
                continue
            ours, peer = case["linf"], case["cyclic"][f"{tol:g}"]
            euclidean, linf = (PRINTED[int(p)][i][k] for i in (0, 1)) if int(p) in PRINTED else (np.nan, np.nan)
            last = int(p) == 512 and tol == 1e-5
            rows.append(
                Row(
                    f"p = {p}, tol {tol:g}: Euclidean by cyclic projections / l-inf norm, seconds",
                    f"{euclidean:.3g} / {linf:.2g} = {_times(euclidean / linf)}",
                    f"{peer:.3g} / {ours:.2g} = {_times(peer / ours)}",
                    "ours is exact whatever the tolerance" if tol == 1e-2 else "",
                    peer >= settings["speed_up"] * ours if last else None,
                )
            )
        smallest = f"{min(settings['tolerances']):g}"
        faster = case["default"] < case["linf"]
        word = "better baselines than the paper's; our default prox, to rounding, is "
        word += f"{_times(max(case['linf'], case['default']) / min(case['linf'], case['default']))} times "
        word += "faster than the l-inf prox" if faster else "slower than the l-inf prox"
        texts = (case["dykstra"][smallest], case["newton"], case["default"], case["linf_cold"])
        what = f"p = {p}: Dykstra to {smallest} / Newton, exact / our default / l-inf norm from nothing, s"
        rows.append(Row(what, "", " / ".join(f"{seconds:.2g}" for seconds in texts), word))
        word = "two tangent cuts; the printed bisection takes some 57"
        rows.append(Row(f"p = {p}: linear programs a prox", "", f"{case['programs']}", word))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw seconds against dimension, for the smallest tolerance, and against tolerance for the largest dimension."""
    figure, axes = panels(1, 2, height=3.1)
    left, right = axes[0]
    dimensions, tolerances = settings["dimensions"], settings["tolerances"]
    cases = [numbers["found"][str(p)] for p in dimensions]
    smallest = f"{min(tolerances):g}"
    curves = {
        "l-inf norm, exact": [case["linf"] for case in cases],
        "Euclidean, cyclic projections": [case["cyclic"][smallest] for case in cases],
        "Euclidean, Dykstra": [case["dykstra"][smallest] for case in cases],
        "Euclidean, Newton, exact": [case["newton"] for case in cases],
        "Euclidean, our default, exact": [case["default"] for case in cases],
    }
    for k, (name, seconds) in enumerate(curves.items()):
        line(left, dimensions, seconds, name, k)
        case = cases[-1]
        key = {1: "cyclic", 2: "dykstra"}.get(k)
        values = [case[key][f"{t:g}"] for t in tolerances] if key else [seconds[-1]] * len(tolerances)
        line(right, tolerances, values, name, k)
    place = TOLERANCES.index(min(tolerances))
    known = [p for p in dimensions if p in PRINTED]
    left.plot(known, [PRINTED[p][0][place] for p in known], **{**PAPER, "label": "paper, Euclidean"})
    left.plot(known, [PRINTED[p][1][place] for p in known], **{**PAPER, "marker": "x", "label": "paper, l-inf norm"})
    at = [TOLERANCES.index(t) for t in tolerances]
    if dimensions[-1] in PRINTED:
        right.plot(tolerances, [PRINTED[dimensions[-1]][0][k] for k in at], **{**PAPER, "label": ""})
        right.plot(tolerances, [PRINTED[dimensions[-1]][1][k] for k in at], **{**PAPER, "marker": "x", "label": ""})
    left.set(
        xscale="log", yscale="log", xlabel="dimension p", ylabel="CPU seconds a prox", title=f"tolerance {smallest}"
    )
    left.set_xticks(dimensions, [str(p) for p in dimensions])
    left.minorticks_off()
    right.set(xscale="log", yscale="log", xlabel="tolerance", title=f"p = {dimensions[-1]}")
    right.invert_xaxis()
    legend_below(figure, left, 3)
    return figure
