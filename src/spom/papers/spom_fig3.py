"""SPOM, Figure 3: template weights by epoch, and parsers with templates kept by SPOM and by a plain SVM.

The strengths of SPOM and of the SVM are chosen in the same way: each strength's ranking is judged by a plain parser
with its first templates (a share of `judged`), trained on the training part and scored on the development part. All
parsers run the same number of epochs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.data.treebank import Treebank
from spom.estimators.parser.parser import DependencyParser
from spom.papers.figures import PAPER, legend_below, line, panels, whole_numbers
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings
from spom.papers.spom_trees import trees
from spom.penalties import SparseMKL, SquaredL2

FULL: Settings = {
    "data": "ewt",
    "sentences": None,
    "test_sentences": None,
    "templates": "large",
    "strengths": {"SPOM": [1e-5, 1e-4, 1e-3], "SVM": [0.0, 1e-5]},
    "judged": 0.2,
    "epochs": 3,
    "shares": [0.05, 0.1, 0.2, 0.4],
    "draws": 1,
    "min_count": 2,
}
QUICK: Settings = {
    "sentences": 250,
    "test_sentences": 250,
    "epochs": 2,
    "shares": [0.1, 0.4],
    "strengths": {"SPOM": [1e-4, 1e-3], "SVM": [0.0]},
    "draws": 1,
}
TINY: Settings = {
    "sentences": 20,
    "test_sentences": 10,
    "templates": "compact",
    "epochs": 1,
    "shares": [0.5],
    "strengths": {"SPOM": [1e-3], "SVM": [0.0]},
}
RANKINGS = {
    "SPOM": "by SPOM's norms",
    "SVM": "by the SVM's norms",
    "pruning": "by our pruning",
    "chance": "by chance",
}
# The paper's test UAS with all 507 templates: the standard SVM and MKL.
PRINTED = {"SVM": 0.9092, "SPOM": 0.9067}
# Smaller differences are called ties: twice the standard error of UAS on 25,000 words is about .4 points, and parsers
# that share most of their errors differ by half of that by chance.
TIE = 0.002


def compute(settings: Settings, seed: int, bar: Bar) -> Numbers:
    """Train SPOM and an SVM with all templates, then plain SVMs with the best templates of each ranking."""
    s = settings
    bar.total(2 * sum(map(len, s["strengths"].values())) + len(s["shares"]) * (len(RANKINGS) - 1 + s["draws"]))
    train, dev, test = trees(s["data"], s["sentences"], s["test_sentences"])
    judged: dict[str, dict[str, float]] = {}
    best: dict[str, Any] = {}
    for name, strengths in s["strengths"].items():
        judged[name] = {}
        for strength in strengths:
            bar.step(f"{name}, all templates, strength {strength:g}")
            parser = _fitted(s, seed, train, s["templates"], _penalty(name, strength))
            bar.step(f"{name}, strength {strength:g}: its ranking")
            names, order = parser.blocks_, _order(parser)
            size = max(1, round(s["judged"] * len(names)))
            score = _uas(_fitted(s, seed, train, _first(names, order, size)), dev)
            if not judged[name] or score > max(judged[name].values()):
                best[name] = parser, strength
            judged[name][f"{strength:g}"] = score
    spom, names = best["SPOM"][0], best["SPOM"][0].blocks_
    weights = np.array([info["block_weights"] for info in spom.history_])
    return {
        "templates": len(names),
        "words": {"train": train.n_words, "dev": dev.n_words, "test": test.n_words},
        "judged": judged,
        "strengths": {name: strength for name, (_, strength) in best.items()},
        "all": {name: _uas(parser, test) for name, (parser, _) in best.items()},
        "uas": _sizes(s, seed, bar, (train, test), {name: _order(parser) for name, (parser, _) in best.items()}, names),
        "weights": _some(weights, _order(spom)),
        "best": [names[i] for i in _order(spom)[:10]],
        "zero_blocks": len(names) - len(spom.selected_),
    }


def _sizes(
    s: Settings, seed: int, bar: Bar, data: tuple[Treebank, Treebank], orders: dict[str, Ints], names: list[str]
) -> dict[str, dict[str, float]]:
    """Return the test UAS of plain parsers with the first templates of each ranking."""
    train, test = data
    found: dict[str, dict[str, float]] = {name: {} for name in RANKINGS}
    chance = [np.random.default_rng([seed, draw]).permutation(len(names)) for draw in range(s["draws"])]
    for share in s["shares"]:
        size = max(1, round(share * len(names)))
        for ranking, order in orders.items():
            bar.step(f"{size} templates {RANKINGS[ranking]}")
            found[ranking][str(size)] = _uas(_fitted(s, seed, train, _first(names, order, size)), test)
        bar.step(f"{size} templates {RANKINGS['pruning']}")
        found["pruning"][str(size)] = _uas(_fitted(s, seed, train, s["templates"], prune=size), test)
        scores = []
        for order in chance:
            bar.step(f"{size} templates {RANKINGS['chance']}")
            scores.append(_uas(_fitted(s, seed, train, _first(names, order, size)), test))
        found["chance"][str(size)] = float(np.mean(scores))
    return found


def _penalty(name: str, strength: float) -> Any:
    if strength == 0.0:
        return None
    return SparseMKL(strength) if name == "SPOM" else SquaredL2(strength)


def _fitted(
    s: Settings, seed: int, train: Treebank, templates: Any, penalty: Any = None, prune: int | None = None
) -> Any:
    parser = DependencyParser(
        templates,
        loss="hinge",
        penalty=penalty,
        update="forward-backward",
        labels=False,
        epochs=s["epochs"],
        prune=prune,
        min_count=s["min_count"],
        random_state=seed,
        verbose=0,
    )
    return parser.fit(train)


def _order(parser: Any) -> Ints:
    """Return templates by their norms, largest first."""
    return np.argsort(-parser.block_weights_, kind="stable")


def _first(names: list[str], order: Ints, size: int) -> list[str]:
    """Return the best names, in the order of the whole set."""
    return [names[i] for i in np.sort(order[:size])]


def _uas(parser: Any, test: Treebank) -> float:
    return float(parser.evaluate(test, punctuation=False).uas)


def _some(weights: Any, order: Ints, count: int = 40) -> Any:
    """Return weights by epoch of templates spread evenly over the ranking, best first."""
    chosen = order[np.unique(np.linspace(0, len(order) - 1, count).round().astype(np.int64))]
    return weights[:, chosen].T


def compare(numbers: Numbers, settings: Settings) -> list[Row]:
    """Compare UAS without punctuation at each size; the claim is that SPOM's ranking is ahead of the SVM's."""
    rows = []
    for size in numbers["uas"]["SPOM"]:
        values = {name: numbers["uas"][name][size] for name in RANKINGS}
        ours = " / ".join(f"{100 * values[name]:.2f}" for name in RANKINGS)
        lead = values["SPOM"] - values["SVM"]
        word = f"SPOM less SVM {100 * lead:+.2f} points" + (", a tie" if abs(lead) < TIE else "")
        word += f"; SPOM less chance {100 * (values['SPOM'] - values['chance']):+.2f}"
        what = f"{size} templates kept by SPOM / SVM / our pruning / chance: UAS"
        rows.append(Row(what, "SPOM ahead of SVM", ours, word, lead >= TIE))
    where = {"ewt": "EWT", "conll2008": "CoNLL-2008"}[settings["data"]]
    where += f", {numbers['words']['train']:,} words for training, {settings['epochs']} epochs"
    for name, value in numbers["all"].items():
        tried = ", ".join(f"{strength}: {100 * uas:.2f}" for strength, uas in numbers["judged"][name].items())
        word = f"{where}; strength {numbers['strengths'][name]:g} by development UAS of its ranking ({tried})"
        claim = f"{100 * PRINTED[name]:.2f}"
        rows.append(Row(f"{name}, all {numbers['templates']} templates: UAS", claim, f"{100 * value:.2f}", word))
    zero = numbers["zero_blocks"]
    word = "of the averaged weights of the online run; the paper has 39,278 sentences of CoNLL-2008 and 507 templates"
    rows.append(Row("templates with weight exactly zero", "most go towards 0", f"{zero}", word))
    return rows


def draw(numbers: Numbers, settings: Settings) -> Any:
    """Draw weights by epoch, and UAS against size."""
    figure, axes = panels(1, 2, height=3.3)
    left, right = axes[0]
    weights = np.array(numbers["weights"])
    epochs = np.arange(1, weights.shape[1] + 1)
    for k, row in enumerate(weights):
        left.plot(epochs, 100 * row, color=str(0.75 * k / len(weights)), linewidth=0.9)
    whole_numbers(left.xaxis)
    left.set(xlabel="epochs of SPOM", ylabel="template's share of the norms (%)", ylim=(0, None))
    left.set_title(f"{len(weights)} of {numbers['templates']} templates, black: the largest")
    for k, (name, label) in enumerate(RANKINGS.items()):
        sizes = [int(size) for size in numbers["uas"][name]]
        values = [100 * value for value in numbers["uas"][name].values()]
        line(right, [*sizes, numbers["templates"]], [*values, 100 * numbers["all"]["SVM"]], label, k)
    if settings["data"] != "ewt":
        right.plot([507], [100 * PRINTED["SVM"]], **PAPER)
    right.set(xlabel="templates kept", ylabel="test UAS without punctuation (%)")
    legend_below(figure, right)
    return figure
