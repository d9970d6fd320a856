"""GPM, Figure 2: learning with the latent group lasso, FISTA against accGPM in the l-inf norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.papers.figures import legend_below, line, panels
from spom.papers.gpm_problems import cone_optimum, curve, cyclic_fista, latent_learning, thinned
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.penalties import LatentGroupLasso

FULL: Settings = {"strengths": [1e-1, 1e-2], "shown": 1e-2, "rounds": 5000, "cyclic_seconds": 25.0, "goal": 1e-9}
QUICK: Settings = {"strengths": [1e-1], "shown": 1e-1, "rounds": 1000, "cyclic_seconds": 8.0}
TINY: Settings = {"rounds": 20, "cyclic_seconds": 0.2}
ACC, EXACT, CYCLIC = "l-inf accGPM", "FISTA, exact prox", "FISTA, cyclic projections"


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute both errors by round at the strength that is shown; at the others, only the final errors are reported."""
    s, found = settings, {}
    bar.total(2 * len(s["strengths"]) + 1)
    smooth, groups, truth = latent_learning(seed)
    for strength in s["strengths"]:
        penalty = LatentGroupLasso(strength, groups)
        point, best = cone_optimum(smooth, penalty)
        curves = {}
        for name, options in ((ACC, {"norm": "linf"}), (EXACT, {"norm": "l2"})):
            bar.step(f"strength {strength:g}, {name}")
            curves[name] = thinned(curve(smooth, penalty, best, s["rounds"], point, accelerated=True, **options))
        if strength == s["shown"]:
            bar.step(f"strength {strength:g}, {CYCLIC}")
            limit, rounds = s["cyclic_seconds"], s["rounds"]
            curves[CYCLIC] = thinned(cyclic_fista(smooth, groups, strength, best, point, seconds=limit, rounds=rounds))
        found[f"{strength:g}"] = {"curves": curves, "to_truth": float(np.linalg.norm(point - truth))}
    return {"found": found}


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Report what each method reaches."""
    rows = []
    for strength, case in numbers["found"].items():
        for name, c in case["curves"].items():
            least = min(c["errors"])
            done = least <= settings["goal"]
            ours = f"{c['rounds']} rounds, {c['seconds']:.1f} s" if done else f"{least:.0e} after {c['rounds']} rounds"
            claim, word, met = "", f"optimum {case['to_truth']:.1e} from the truth", None
            if float(strength) == settings["shown"]:
                if name == ACC:
                    claim, met = "converges", done
                elif name == CYCLIC:
                    claim, met = "does not converge", not done
                    if not done:
                        word = f"stopped after {c['seconds']:.0f} s; each prox is as exact as its projections"
                else:
                    claim = "better rate, if its prox were exact"
                    first = done and c["seconds"] < case["curves"][ACC]["seconds"]
                    word = "with an exact prox it is " + ("faster than accGPM" if first else "slower than accGPM")
            rows.append(Row(f"strength {strength}, {name}: to {settings['goal']:g}", claim, ours, word, met))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the objective and the distance to the optimum at the strength that is shown."""
    figure, axes = panels(1, 2, height=3.0)
    case = numbers["found"][f"{settings['shown']:g}"]
    for k, (name, c) in enumerate(case["curves"].items()):
        line(axes[0, 0], c["at"], np.maximum(c["errors"], 1e-11), name, k)
        line(axes[0, 1], c["at"], np.maximum(c["distances"], 1e-9), name, k)
    axes[0, 0].axhline(settings["goal"], color="black", linewidth=0.8)
    axes[0, 0].set(xscale="log", yscale="log", xlabel="rounds", ylabel="objective less optimum")
    axes[0, 1].set(xscale="log", yscale="log", xlabel="rounds", ylabel="distance to the optimum (l2)")
    legend_below(figure, axes[0, 0])
    return figure
