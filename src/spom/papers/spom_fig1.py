"""SPOM, Figure 1: test accuracy against training time, for single kernels and learnt combinations.

Each model's C is chosen by cross-validation within the words of the first training fold, its step by the paper's rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.papers.figures import PAPER, legend_under, line, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.spom_ocr import TABLE, accuracies, cross_validated, fit, gram_matrices, grams_of, words

FULL: Settings = {
    "folds": 2,
    "epochs": 20,
    "shown": [1, 2, 3, 5, 7, 10, 14, 20],
    "grid": [1.0, 10.0, 100.0, 1000.0],
    "parts": 3,
    "step": "paper",
    "most_words": None,
    "most_test_words": 2000,
}
QUICK: Settings = {
    "grid": [1.0, 10.0],
    "parts": 2,
    "folds": 1,
    "epochs": 10,
    "shown": [1, 2, 3, 5, 7, 10],
    "most_words": 200,
    "most_test_words": 500,
}
TINY: Settings = {"epochs": 2, "shown": [1, 2], "most_words": 12, "most_test_words": 10}
# The paper's solid lines and dashed lines.
SHOWN = ("Linear (L)", "Quadratic (Q)", "Gaussian (G)", "Average (L+Q+G)/3", "Sum L+Q+G", "MKL L, Q, G")
SPARSE = ("Linear (L)", "B1-spline (B)", "Average (L+B)/2", "MKL L, B")
MODELS = {model.name: model for model in TABLE}


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Compute accuracy and CPU seconds after some passes, mean over folds; the choice of eta0 is not timed."""
    s = settings
    names = list(dict.fromkeys([*SHOWN, *SPARSE]))
    bar.total(s["folds"] * 2)
    curves: dict[str, Any] = {name: {"accuracy": [], "seconds": []} for name in names}
    chosen: dict[str, float] = {}
    for fold in range(s["folds"]):
        bar.step(f"fold {fold}: learning")
        train = words(lambda folds, fold=fold: folds == fold, s["most_words"])
        test = words(lambda folds, fold=fold: folds != fold, s["most_test_words"])
        kernels, base = gram_matrices(train)
        runs = {}
        for name in names:
            grams = grams_of(base, MODELS[name])
            if fold == 0:
                options = {"parts": s["parts"], "epochs": s["epochs"], "seed": seed}
                scores = cross_validated(base, train, MODELS[name], s["grid"], s["step"], **options)
                chosen[name] = s["grid"][int(np.argmax(scores))]
            run = fit(grams, train, MODELS[name], chosen[name], step=s["step"], epochs=s["epochs"], seed=seed)
            runs[name] = [fitted for epoch, fitted in enumerate(run, 1) if epoch in s["shown"]]
        bar.step(f"fold {fold}: testing")
        flat = [fitted for name in names for fitted in runs[name]]
        found = np.array(accuracies(flat, kernels, train.X, test)).reshape(len(names), -1)
        for name, values in zip(names, found, strict=True):
            spent = np.array([fitted.seconds for fitted in runs[name]])
            curves[name]["accuracy"].append(values)
            curves[name]["seconds"].append(spent - runs[name][0].setup)
    means = {name: {key: np.mean(v, axis=0) for key, v in case.items()} for name, case in curves.items()}
    return {"curves": means, "chosen": chosen}


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare which model reaches 85 % first, and the accuracy after the first and the last pass."""
    curves = numbers["curves"]
    sooner = {name: _time_to(curves[name], 0.85) for name in SHOWN}
    text = ", ".join(
        f"{name.split(' ')[0]} " + (f"{seconds:.2f}" if np.isfinite(seconds) else "never")
        for name, seconds in sooner.items()
    )
    ratio = curves["MKL L, Q, G"]["seconds"][-1] / curves["Quadratic (Q)"]["seconds"][-1]
    first = sooner["MKL L, Q, G"] <= min(sooner.values()) < np.inf
    word = f"a pass of MKL costs {ratio:.1f} passes of Q"
    rows = [Row("seconds to 85 %", "MKL first", text, word, bool(first))]
    for name, case in curves.items():
        rate = MODELS[name].rate
        claim = "" if rate is None else f"{rate[0]:.1f} after {rate[2]:.0f} s"
        a, t = case["accuracy"], case["seconds"]
        ours = f"{100 * a[0]:.1f} after {t[0]:.3f} s; {100 * a[-1]:.1f} after {t[-1]:.2f} s"
        C = numbers["chosen"][name]
        rows.append(
            Row(name, claim, ours, f"C = {C:g}, eta0 by the paper's rule, the time of these choices not counted")
        )
    return rows


def _time_to(case: dict[str, Any], accuracy: float) -> float:
    return float(next((t for t, a in zip(case["seconds"], case["accuracy"], strict=True) if a >= accuracy), np.inf))


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw the paper's solid lines on the left, its dashed lines on the right; stars are the paper's final values."""
    figure, axes = panels(1, 2, height=3.9)
    for place, shown in ((axes[0, 0], SHOWN), (axes[0, 1], SPARSE)):
        for k, name in enumerate(shown):
            case = numbers["curves"][name]
            line(place, case["seconds"], 100 * np.array(case["accuracy"]), name, k)
        rates = [MODELS[name].rate for name in shown]
        known = [rate for rate in rates if rate is not None]
        place.plot([r[2] for r in known], [r[0] for r in known], **{**PAPER, "label": "paper, after 20 passes"})
        place.set(xscale="log", xlabel="training time (CPU seconds)")
        legend_under(place)
    axes[0, 0].set_ylabel("test accuracy per letter (%)")
    axes[0, 0].set_title("dense kernels")
    axes[0, 1].set_title("a linear and a sparse kernel")
    return figure
