"""FOBOS, Table 1: test error against row sparsity for l1, l1/l2 and l1/l-inf, Landsat and MNIST.

For each penalty, FOBOS runs with the gradient of all examples and the step eta0 / sqrt(t), along a path of decreasing
strengths with warm starts. eta0 is a multiple of 1 / (the loss's smoothness), chosen for each penalty by the training
objective that a run from zero reaches at the sixth strength of the path, on the first draw. The sizes are those of the
paper: 720 and 10,000 examples, for MNIST with one Gaussian feature per example.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.papers.figures import PAPER, legend_below, line, panels
from spom.papers.fobos_data import Split, fobos, landsat, mnist, row_share
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import L1, GroupLasso, GroupLInf

FULL: Settings = {
    "data": ["landsat", "mnist"],
    "landsat_examples": 720,
    "mnist_examples": 10_000,
    "mnist_tests": 10_000,
    "width": 5.0,
    "draws": {"landsat": 5, "mnist": 2},
    "rounds": {"landsat": 500, "mnist": 30},
    "steps": [3.0, 10.0, 30.0, 100.0],
    "judged": 5,
    "first": 0.9,
    "factor": 0.8,
    "most_strengths": 16,
    "enough": 0.42,
}
QUICK: Settings = {
    "draws": {"landsat": 1, "mnist": 1},
    "mnist_examples": 1000,
    "mnist_tests": 2000,
    "most_strengths": 6,
    "rounds": {"landsat": 60, "mnist": 30},
    "steps": [10.0, 30.0, 100.0],
    "factor": 0.5,
}
TINY: Settings = {
    "data": ["landsat"],
    "landsat_examples": 60,
    "most_strengths": 2,
    "rounds": {"landsat": 5, "mnist": 5},
    "steps": [3.0, 10.0],
}
SHARES = (0.05, 0.1, 0.2, 0.4)
# The paper's errors at these shares of nonzero rows.
PRINTED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "landsat": {"l1": (0.43, 0.30, 0.26, 0.22), "l1/l2": (0.29, 0.25, 0.22, 0.19), "l1/linf": (0.40, 0.30, 0.26, 0.22)},
    "mnist": {"l1": (0.37, 0.26, 0.15, 0.08), "l1/l2": (0.36, 0.26, 0.15, 0.08), "l1/linf": (0.47, 0.31, 0.24, 0.16)},
}
PENALTIES: dict[str, Any] = {
    "l1": L1,
    "l1/l2": lambda s: GroupLasso(s, "rows"),
    "l1/linf": lambda s: GroupLInf(s, "rows"),
}
# Errors within this margin are called comparable; the paper prints two digits.
MARGIN = 0.02


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute a path for each draw and penalty."""
    s = settings
    bar.total(sum((s["draws"][name] + 1) * len(PENALTIES) for name in s["data"]))
    found: dict[str, Any] = {}
    for name in s["data"]:
        found[name] = {penalty: {"paths": []} for penalty in PENALTIES}
        for draw in range(s["draws"][name]):
            split = _split(s, name, 100 * seed + draw)
            scale = 1.0 / _smoothness(split)
            for penalty, case in found[name].items():
                if draw == 0:
                    bar.step(f"{name}, {penalty}: step")
                    case["objectives"] = _steps(s, name, split, penalty, scale)
                    case["step"] = float(min(case["objectives"], key=lambda step: case["objectives"][step]))
                bar.step(f"{name}, {penalty}, draw {draw + 1}")
                case["paths"].append(_path(s, name, split, penalty, case["step"] * scale))
            del split
        for case in found[name].values():
            errors = np.array([[_at(path, share) for share in SHARES] for path in case["paths"]])
            case["errors"], case["deviations"] = errors.mean(axis=0), errors.std(axis=0)
    return {"found": found}


def _split(s: Settings, name: str, seed: int) -> Split:
    if name == "landsat":
        return landsat(s["landsat_examples"], seed)
    return mnist(s["mnist_examples"], s["mnist_tests"], s["width"], seed)


def _smoothness(split: Split) -> float:
    """Return 1/2 of the largest eigenvalue of X'X / n, which bounds the Hessian of the multiclass logistic loss."""
    v = np.ones(split.X.shape[1], dtype=np.float32)
    for _ in range(20):
        v = split.X.T @ (split.X @ v)
        size = float(np.linalg.norm(v))
        v /= size
    return 0.5 * size / len(split.y)


def _steps(s: Settings, name: str, split: Split, penalty: str, scale: float) -> dict[str, float]:
    """Return the training objective that each step reaches from zero at one strength of the path."""
    make = PENALTIES[penalty]
    chosen = make(split.top(make(1.0)) * s["first"] * s["factor"] ** s["judged"])
    found = {}
    for step in s["steps"]:
        *_, theta = fobos(split, chosen, step * scale, s["rounds"][name])
        found[f"{step:g}"] = split.objective(theta, chosen)
    return found


def _path(s: Settings, name: str, split: Split, penalty: str, eta0: float) -> dict[str, list[float]]:
    make = PENALTIES[penalty]
    top = split.top(make(1.0))
    theta: Floats | None = None
    path: dict[str, list[float]] = {"strengths": [], "rows": [], "errors": [], "entries": []}
    for k in range(s["most_strengths"]):
        strength = top * s["first"] * s["factor"] ** k
        *_, theta = fobos(split, make(strength), eta0, s["rounds"][name], start=theta)
        path["strengths"].append(strength)
        path["rows"].append(row_share(theta))
        path["errors"].append(split.error(theta))
        path["entries"].append(float(np.mean(theta[:-1] != 0.0)))
        if path["rows"][-1] >= s["enough"]:
            break
    return path


def _at(path: dict[str, list[float]], share: float) -> float:
    """Return the error at this share of rows, interpolated linearly along the path and constant beyond its ends."""
    order = np.argsort(path["rows"], kind="stable")
    return float(np.interp(share, np.array(path["rows"])[order], np.array(path["errors"])[order]))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Return the paper's claims, then its table with our numbers."""
    rows = []
    for name, cases in numbers["found"].items():
        rows += _claims(name, {penalty: np.array(case["errors"]) for penalty, case in cases.items()})
        inside = 1 - float(np.mean([path["entries"][-1] / path["rows"][-1] for path in cases["l1"]["paths"]]))
        if name == "mnist":
            what = "mnist, l1: zeros in the rows in use at the end of the path"
            rows.append(Row(what, "90 %", f"{inside:.0%}", "", abs(inside - 0.9) <= 0.1))
    for name, cases in numbers["found"].items():
        for penalty, case in cases.items():
            most = min(max(path["rows"]) for path in case["paths"])
            for k, share in enumerate(SHARES):
                word = f"± {case['deviations'][k]:.3f} over {len(case['paths'])} draws"
                if k == 0:
                    word += f"; eta0 {case['step']:g} / smoothness of {settings['steps']}"
                if share > most:
                    word = f"a path ends at {most:.0%} of the rows: this is its last error"
                theirs, ours = PRINTED[name][penalty][k], case["errors"][k]
                rows.append(Row(f"{name}, {penalty}, {share:.0%} of rows", f"{theirs:.2f}", f"{ours:.3f}", word))
    return rows


def _claims(name: str, errors: dict[str, Any]) -> list[Row]:
    """Check the claims: l1/l2 leads on Landsat; l1 and l1/l2 are comparable and ahead of l1/l-inf on MNIST."""
    texts = " / ".join(penalty + " " + ", ".join(f"{e:.3f}" for e in values) for penalty, values in errors.items())
    word = "errors at " + ", ".join(f"{share:.0%}" for share in SHARES) + " of the rows"
    if name == "landsat":
        ahead = bool((errors["l1/l2"] < np.minimum(errors["l1"], errors["l1/linf"])).all())
        return [Row("landsat: l1/l2 has the least error at each share", "yes", texts, word, ahead)]
    near = bool((np.abs(errors["l1"] - errors["l1/l2"]) <= MARGIN).all())
    behind = bool((errors["l1/linf"] > np.maximum(errors["l1"], errors["l1/l2"])).all())
    return [
        Row(f"mnist: l1 and l1/l2 within {MARGIN} at each share", "comparable", texts, word, near),
        Row("mnist: l1/l-inf has the largest error at each share", "yes", "yes" if behind else "no", word, behind),
    ]


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the error against the share of rows: our paths, and the paper's points."""
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
