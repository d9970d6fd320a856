"""SPOM, Table 1: handwriting with single, averaged, summed and learnt kernels; train on one fold, test on nine."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.papers.figures import PAPER, STYLES, panels
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.spom_ocr import TABLE, Words, accuracies, cross_validated, fit, gram_matrices, grams_of, words

FULL: Settings = {
    "folds": 10,
    "epochs": 20,
    "grid": [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0],
    "cross_validated_folds": 1,
    "parts": 5,
    "most_words": None,
    "most_test_words": None,
}
QUICK: Settings = {
    "folds": 1,
    "epochs": 10,
    "grid": [1.0, 10.0],
    "cross_validated_folds": 1,
    "parts": 2,
    "most_words": 250,
    "most_test_words": 800,
}
RULES = ("paper", "auto")


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """C by cross-validation on the words of the first fold(s); then every model with both step rules on every fold."""
    s = settings
    bar.total(s["cross_validated_folds"] * len(TABLE) + s["folds"] * 2)
    scores = {model.name: {rule: np.zeros(len(s["grid"])) for rule in RULES} for model in TABLE}
    options = {"parts": s["parts"], "epochs": s["epochs"], "seed": seed}
    for fold in range(s["cross_validated_folds"]):
        train = _train(s, fold)
        _, base = gram_matrices(train)
        for model in TABLE:
            bar.step(f"C of {model.name}, fold {fold}")
            for rule in RULES:
                scores[model.name][rule] += cross_validated(base, train, model, s["grid"], rule, **options)
    chosen = {name: {rule: s["grid"][int(np.argmax(cs[rule]))] for rule in RULES} for name, cs in scores.items()}
    runs: dict[str, Any] = {model.name: {rule: [] for rule in RULES} for model in TABLE}
    for fold in range(s["folds"]):
        bar.step(f"fold {fold}: learning")
        train = _train(s, fold)
        kernels, base = gram_matrices(train)
        keys, fitted = [], []
        for model in TABLE:
            grams = grams_of(base, model)
            for rule in RULES:
                C = chosen[model.name][rule]
                *_, last = fit(grams, train, model, C, step=rule, epochs=s["epochs"], seed=seed)
                keys.append((model.name, rule))
                fitted.append(last)
        bar.step(f"fold {fold}: testing")
        test = words(lambda folds, fold=fold: folds != fold, s["most_test_words"])
        for (name, rule), last, accuracy in zip(keys, fitted, accuracies(fitted, kernels, train.X, test), strict=True):
            runs[name][rule].append({"accuracy": accuracy, "seconds": last.seconds, "beta": last.beta})
    return {"cross_validation": scores, "chosen": chosen, "runs": runs}


def _train(s: Settings, fold: int) -> Words:
    return words(lambda folds: folds == fold, s["most_words"])


def _mean(numbers: Numbers, name: str, rule: str, what: str) -> tuple[float, float]:
    """(mean, deviation) over the folds."""
    values = [run[what] for run in numbers["runs"][name][rule]]
    return float(np.mean(values)), float(np.std(values))


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """The paper's accuracies and seconds with ours, by both step rules."""
    rows = []
    full = settings["folds"] == FULL["folds"] and settings["most_words"] is None
    for model in TABLE:
        texts = []
        for rule in RULES:
            accuracy, deviation = _mean(numbers, model.name, rule, "accuracy")
            texts.append(f"{100 * accuracy:.1f} ± {100 * deviation:.1f}")
        seconds = [_mean(numbers, model.name, rule, "seconds")[0] for rule in RULES]
        claim = "" if model.rate is None else f"{model.rate[0]:.1f} ± {model.rate[1]:.1f}, {model.rate[2]:.0f} s"
        C = [numbers["chosen"][model.name][rule] for rule in RULES]
        word = f"C = {C[0]:g} / {C[1]:g}; {seconds[0]:.2f} / {seconds[1]:.2f} s of CPU"
        if len(model.blocks) > 1:
            beta = np.mean([run["beta"] for run in numbers["runs"][model.name]["auto"]], axis=0)
            word += "; beta " + ", ".join(f"{b:.2f}" for b in beta)
        best = max(_mean(numbers, model.name, rule, "accuracy")[0] for rule in RULES)
        met = None if model.rate is None or not full else 100 * best >= model.rate[0] - 0.3
        rows.append(Row(f"{model.name}: paper's step / ours", claim, " / ".join(texts), word, met))
    rows.append(_gain(numbers, full))
    return rows


def _gain(numbers: Numbers, full: bool) -> Row:
    """MKL against the best single kernel and against the sum, each with its better step rule."""

    def best(name: str) -> float:
        return 100 * max(_mean(numbers, name, rule, "accuracy")[0] for rule in RULES)

    learnt = best("MKL L, Q, G")
    single = max(best(model.name) for model in TABLE[:3])
    total = best("Sum L+Q+G")
    gains = [best(model.name) - (model.rate or (0.0, 0.0, 0.0))[0] for model in TABLE[1:3]]
    word = (
        f"most of the paper's gain is one of scale and step: with one that fits, Q and G alone gain {gains[0]:.1f} and "
        f"{gains[1]:.1f} points over the paper's, and the plain sum of the kernels comes near MKL"
    )
    if min(gains) <= 0.0:
        word = "too few words and passes to be compared with the paper's accuracies"
    ours = f"{learnt - single:+.1f} / {learnt - total:+.1f}"
    return Row("MKL less the best single kernel / less the sum, points", "+2.0 / -", ours, word)


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Accuracies with deviations, the paper's beside."""
    figure, axes = panels(1, 1, height=3.6)
    place = axes[0, 0]
    at = np.arange(len(TABLE))
    for k, (rule, label) in enumerate((("paper", "ours, the paper's step rule"), ("auto", "ours, our step rule"))):
        values = [_mean(numbers, model.name, rule, "accuracy") for model in TABLE]
        means, spread = ([100 * v[i] for v in values] for i in (0, 1))
        look = {"color": STYLES[k]["color"], "marker": STYLES[k]["marker"], "linestyle": "none", "capsize": 2}
        place.errorbar(at + 0.12 * (2 * k - 1), means, yerr=spread, label=label, **look)
    known = [i for i, model in enumerate(TABLE) if model.rate is not None]
    rates = [TABLE[i].rate or (np.nan, np.nan, np.nan) for i in known]
    look = {**PAPER, "capsize": 2, "markersize": 7, "fillstyle": "none"}
    place.errorbar(known, [r[0] for r in rates], yerr=[r[1] for r in rates], **look)
    place.set_xticks(at, [model.name for model in TABLE], rotation=35, ha="right")
    place.set(ylabel="test accuracy per letter (%)")
    place.legend(loc="lower right")
    return figure
