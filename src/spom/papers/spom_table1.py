"""SPOM, Table 1: handwriting with single, averaged, summed and learnt kernels, trained on one fold, tested on nine.

C is chosen for each model, step rule and training fold, by cross-validation within the words of the fold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.papers.figures import PAPER, STYLES, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.spom_ocr import DUAL, TABLE, Words, accuracies, cross_validated, fit, gram_matrices, grams_of, words

FULL: Settings = {
    "folds": 10,
    "epochs": 20,
    "grid": [1.0, 10.0, 100.0, 1000.0],
    "parts": 2,
    "most_words": None,
    "most_test_words": None,
}
QUICK: Settings = {
    "folds": 1,
    "epochs": 10,
    "grid": [1.0, 10.0],
    "parts": 2,
    "most_words": 250,
    "most_test_words": 800,
}
TINY: Settings = {"epochs": 2, "grid": [1.0, 10.0], "parts": 2, "most_words": 12, "most_test_words": 10}
RULES = ("paper", "auto", DUAL)
LABELS = ("the paper's step rule", "our step rule", "dual averaging")
LINEAR, PLAIN = TABLE[0].name, TABLE[1].name


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Choose C on each fold by cross-validation, fit every model with each step rule, and test on the other folds."""
    s = settings
    bar.total(s["folds"] * (len(TABLE) + 2))
    runs: dict[str, Any] = {model.name: {rule: [] for rule in RULES} for model in TABLE}
    options = {"parts": s["parts"], "epochs": s["epochs"], "seed": seed}
    for fold in range(s["folds"]):
        train = _train(s, fold)
        kernels, base = gram_matrices(train)
        keys, fitted = [], []
        for model in TABLE:
            bar.step(f"fold {fold}, {model.name}")
            grams = grams_of(base, model)
            for rule in RULES:
                scores = cross_validated(base, train, model, s["grid"], rule, **options)
                C = s["grid"][int(np.argmax(scores))]
                *_, last = fit(grams, train, model, C, step=rule, epochs=s["epochs"], seed=seed)
                keys.append((model.name, rule, C, scores))
                fitted.append(last)
        bar.step(f"fold {fold}: testing")
        test = words(lambda folds, fold=fold: folds != fold, s["most_test_words"])
        found = accuracies(fitted, kernels, train.X, test)
        for (name, rule, C, scores), last, accuracy in zip(keys, fitted, found, strict=True):
            run = {"accuracy": accuracy, "seconds": last.seconds, "beta": last.beta, "C": C, "scores": scores}
            runs[name][rule].append(run)
        bar.step(f"fold {fold}: done")
    return {"runs": runs}


def _train(s: Settings, fold: int) -> Words:
    return words(lambda folds: folds == fold, s["most_words"])


def _mean(numbers: Numbers, name: str, rule: str, what: str) -> tuple[float, float]:
    """Return (mean, deviation) over the folds."""
    values = [run[what] for run in numbers["runs"][name][rule]]
    return float(np.mean(values)), float(np.std(values))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Return the paper's gain of MKL, then its accuracies and seconds with ours, by step rule."""
    rows = _gains(numbers)
    for model in TABLE:
        texts = []
        for rule in RULES:
            accuracy, deviation = _mean(numbers, model.name, rule, "accuracy")
            texts.append(f"{100 * accuracy:.1f} ± {100 * deviation:.1f}")
        seconds = [_mean(numbers, model.name, rule, "seconds")[0] for rule in RULES]
        claim = "" if model.rate is None else f"{model.rate[0]:.1f} ± {model.rate[1]:.1f}, {model.rate[2]:.0f} s"
        chosen = [_counted([run["C"] for run in numbers["runs"][model.name][rule]]) for rule in RULES]
        word = "C " + " / ".join(chosen) + "; " + " / ".join(f"{value:.2f}" for value in seconds) + " s of CPU"
        if len(model.blocks) > 1:
            beta = np.mean([run["beta"] for run in numbers["runs"][model.name][DUAL]], axis=0)
            word += "; beta of dual averaging " + ", ".join(f"{b:.2f}" for b in beta)
        if model.name == LINEAR:
            word += "; " + _scale(numbers)
        best = max(_mean(numbers, model.name, rule, "accuracy")[0] for rule in RULES)
        # 'As good' means within .3 points, the paper's own deviation.
        met = None if model.rate is None else bool(100 * best >= model.rate[0] - 0.3)
        rows.append(Row(f"{model.name}: paper's step / ours / dual averaging", claim, " / ".join(texts), word, met))
    return rows


def _counted(values: list[float]) -> str:
    """Return each value and how often it was chosen, most frequent first.

    >>> _counted([10.0, 1.0, 10.0])
    '10 (2), 1 (1)'
    """
    counts = {value: values.count(value) for value in sorted(set(values))}
    return ", ".join(f"{value:g} ({counts[value]})" for value in sorted(counts, key=lambda value: -counts[value]))


def _scale(numbers: Numbers) -> str:
    """Return how normalisation changes the linear kernel, the row that is furthest from the paper's."""
    best = [100 * max(_mean(numbers, name, rule, "accuracy")[0] for rule in RULES) for name in (LINEAR, PLAIN)]
    rate = (TABLE[0].rate or (0.0,))[0]
    word = f"{best[0] - rate:+.1f} points: here each letter has norm one; without it {best[1]:.1f}, "
    return word + ("nearer to the paper's" if abs(best[1] - rate) < abs(best[0] - rate) else "no nearer to the paper's")


def _gains(numbers: Numbers) -> list[Row]:
    """Compare MKL with the best single kernel and with the sum, each with its best step rule."""

    def best(name: str) -> float:
        return 100 * max(_mean(numbers, name, rule, "accuracy")[0] for rule in RULES)

    learnt, total = best("MKL L, Q, G"), best("Sum L+Q+G")
    single = max((model.name for model in TABLE[:4]), key=best)
    claim = "+2.0 points"
    gain = learnt - best(single)
    word = f"the best single kernel is {single} with {best(single):.1f}; half of the paper's gain counts as 'met'"
    rows = [Row("MKL less the best single kernel", claim, f"{gain:+.1f} points", word, bool(gain >= 1.0))]
    rows.append(Row("MKL less the plain sum of the kernels", "", f"{learnt - total:+.1f} points", "not in the paper"))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw accuracies with deviations, beside the paper's."""
    figure, axes = panels(1, 1, height=3.6)
    place = axes[0, 0]
    at = np.arange(len(TABLE))
    for k, (rule, label) in enumerate(zip(RULES, LABELS, strict=True)):
        values = [_mean(numbers, model.name, rule, "accuracy") for model in TABLE]
        means, spread = ([100 * v[i] for v in values] for i in (0, 1))
        look = {"color": STYLES[k]["color"], "marker": STYLES[k]["marker"], "linestyle": "none", "capsize": 2}
        place.errorbar(at + 0.15 * (k - 1), means, yerr=spread, label=label, **look)
    known = [i for i, model in enumerate(TABLE) if model.rate is not None]
    rates = [TABLE[i].rate or (np.nan, np.nan, np.nan) for i in known]
    look = {**PAPER, "capsize": 2, "markersize": 7, "fillstyle": "none"}
    place.errorbar(known, [r[0] for r in rates], yerr=[r[1] for r in rates], **look)
    place.set_xticks(at, [model.name for model in TABLE], rotation=35, ha="right")
    place.set(ylabel="test accuracy per letter (%)")
    place.legend(loc="lower right")
    return figure
