"""How `MKLClassifier()` chooses kernels and C for pairs of classes, with one family of problems left out at a time.

    SPOM_DATA=FOLDER python -m benchmarks.defaults.kernel_pairs

Three splits of the training rows of each problem. All weights of kernels and all C are scored on other training rows,
and rules say which of them they would take. Scores are differences to `SVC` on the best single kernel
(`benchmarks.defaults.kernels`). Figures go to `results/kernel_pairs.json`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.datasets import make_classification, make_gaussian_quantiles, make_moons
from sklearn.preprocessing import StandardScaler

import spom
from benchmarks.defaults.kernels import peer
from benchmarks.defaults.sets import SETS
from spom.estimators.checking import merged
from spom.estimators.linear.choosing import FEW_ROWS
from spom.estimators.mkl import classifier, pairs
from spom.solvers.mkl.pairs import pair_machines

OUT = Path(__file__).parent / "results" / "kernel_pairs.json"
SPLITS, MOST_TEST, LEAST_ROWS = 3, 1000, 4
TABLES = {
    **{"iris": (70,), "wine": (80,), "breast_cancer": (80, 280), "digits": (120, 500), "landsat": (120, 500, 1800)},
    **{"letter": (300, 600, 1800), "pendigits": (120, 500, 1800), "mfeat": (120,), "adult": (100, 250, 600)},
}
PAIRS, PAIR_SIZES = ("digits", "letter", "landsat", "pendigits"), (60, 200)
NUMBERS = {"diabetes": (200,), "cpu_act": (150, 300), "adult-hours": (150, 300), "mfeat-moment": (150, 300)}
CUTS = ((1 / 3, 2 / 3), (0.5,), (0.75,))
# The share of wrong labels, the columns, how many of them are informative, and the share of the first class.
GENERATED = ((0.3, 5, 3, 0.7), (0.4, 8, 2, 0.7), (0.1, 60, 10, None), (0.2, 20, 5, None))
# Weights and C that are the default, the risk taken to leave them, and the widths of kernels alone.
Rule = tuple[str, float, float, tuple[float, ...]]
RULES: list[Rule] = [
    (name, cost, risk, widths)
    for name in ("learnt", "equal")
    for cost in (0.5, 2.0, 8.0, 32.0)
    for risk in (0.5, 0.159, 0.1, 0.067, 0.04, 0.023)
    for widths in ((1.0,), (1.0, 2.0, 0.5), (1.0, 2.0, 0.5, 0.25))
]
# The name of the weights, the multiple of the width, and C.
Key = tuple[str, float, float]


class Problem(NamedTuple):
    """A table, its family, and how many of its rows are learnt from."""

    family: str
    X: Any
    y: Any
    rows: int


class Scores(NamedTuple):
    """Of each kind of weights and C: whether the rows that were held out were right, and the score of other rows."""

    right: dict[Key, Any]
    weight: Any
    test: dict[Key, float]


def problems() -> Iterator[Problem]:
    """Return all problems."""
    for name, sizes in TABLES.items():
        split = SETS[name].load(0)
        X, y = np.asarray(split.X), np.asarray(split.y)
        yield from _cut(name, X, y, sizes)
        if name in PAIRS:
            kept = np.isin(y, np.unique(y)[[1, -2]])
            yield from _cut(name, X[kept], y[kept], PAIR_SIZES)
    for name, sizes in NUMBERS.items():
        split = SETS[name].load(0)
        y = np.asarray(split.y)
        for cut in CUTS:
            yield from _cut(name, np.asarray(split.X), np.digitize(y, np.quantile(y, cut)), sizes)
    for k, (flip, columns, informative, share) in enumerate(GENERATED):
        X, y = make_classification(
            *(1500, columns),
            n_informative=informative,
            n_redundant=0,
            flip_y=flip,
            weights=None if share is None else [share],
            random_state=k,
        )
        yield from _cut(f"generated {k}", X, y, (120, 300))
    yield from _cut("moons", *make_moons(1500, noise=0.35, random_state=0), (80, 250))
    rings = make_gaussian_quantiles(n_samples=1500, n_features=4, n_classes=3, random_state=0)
    yield from _cut("rings", *rings, (120, 300))


def _cut(family: str, X: Any, y: Any, sizes: tuple[int, ...]) -> Iterator[Problem]:
    for rows in sizes:
        yield Problem(family, X, y, min(rows, int(0.65 * len(X))))


def _split(problem: Problem, seed: int) -> tuple[Any, Any, Any, Any]:
    order = np.random.default_rng(1000 + seed).permutation(len(problem.X))
    train, test = order[: problem.rows], order[problem.rows : problem.rows + MOST_TEST]
    values, counts = np.unique(problem.y[train], return_counts=True)
    train, test = (rows[np.isin(problem.y[rows], values[counts >= LEAST_ROWS])] for rows in (train, test))
    scaler = StandardScaler().fit(problem.X[train])
    return scaler.transform(problem.X[train]), problem.y[train], scaler.transform(problem.X[test]), problem.y[test]


def scores(X: Any, y: Any, X_test: Any, y_test: Any, seed: int) -> Scores:
    """Return the scores of all kinds of weights at all C."""
    kept: dict[str, Any] = {}

    def choose(rows: Any, learnt: Any, seed: int) -> Any:
        kept["rows"], kept["every"] = rows, pairs.candidates(rows, learnt)
        kept["right"] = [pairs.rights(rows, weights, seed) for weights in kept["every"]]
        return pairs.Machine(kept["every"][0])

    with patch.object(classifier, "chosen_machine", choose):
        model = spom.MKLClassifier(random_state=seed, verbose=0).fit(X, y)
    rows, gold = kept["rows"], np.searchsorted(model.classes_, y_test)
    # `fit` orders equal rows as one: the rows of the Gram matrices are those of the merged data.
    X = merged(X, np.searchsorted(model.classes_, y), None)[0] if len(X) <= FEW_ROWS else X
    blocks = rows._replace(grams=[kernel.block(X_test, X) for kernel in rows.kernels])
    right, test = {}, {}
    for weights, own in zip(kept["every"], kept["right"], strict=True):
        key = weights.name, weights.width
        right |= {(*key, cost): found > 0 for cost, found in zip(pairs.COSTS, own, strict=True)}
        B, machines = blocks.sum(weights), pair_machines(rows.sum(weights), rows.y, rows.weight, pairs.COSTS)
        for cost, alpha in zip(pairs.COSTS, machines, strict=True):
            test[*key, cost] = float((pairs.predicted(B, alpha, rows.y) == gold).mean())
    return Scores(right, rows.weight, test)


def taken(found: Scores, rule: Rule) -> Key:
    """Return what a rule takes: its default, or the best if that is surely better."""
    name, cost, risk, widths = rule
    shares = {
        key: round(float(np.average(own, weights=found.weight)), 9)
        for key, own in found.right.items()
        if key[1] in widths
    }
    names = [name, *dict.fromkeys(key[0] for key in shares if key[0] != name)]
    best = max(shares, key=lambda key: (shares[key], -names.index(key[0]), -abs(np.log(key[2] / cost))))
    high, low = (found.right[key].astype(float) for key in (best, (name, 1.0, cost)))
    return best if pairs.chance(high, low, found.weight) <= risk else (name, 1.0, cost)


def _rounded(number: float) -> float:
    return round(float(number), 4)


def main() -> None:
    """Run all problems, and print and store the means of families for each rule."""
    warnings.simplefilter("ignore")
    gaps: dict[str, list[list[float]]] = {}
    for problem in problems():
        for seed in range(SPLITS):
            X, y, X_test, y_test = _split(problem, seed)
            found = scores(X, y, X_test, y_test, seed)
            other = peer(X.shape[1]).fit(X, y).score(X_test, y_test)
            gaps.setdefault(problem.family, []).append([found.test[taken(found, rule)] - other for rule in RULES])
    means = np.array([np.mean(rows, axis=0) for rows in gaps.values()])
    every = np.concatenate([np.array(rows) for rows in gaps.values()])
    rows = [
        {
            "rule": rule,
            "families": _rounded(means[:, k].mean()),
            "worst": _rounded(means[:, k].min()),
            "behind": int((every[:, k] < -0.005).sum()),
        }
        for k, rule in enumerate(RULES)
    ]
    own = [k for k, rule in enumerate(RULES) if rule[0] == "learnt"]
    chosen = {}
    for f, family in enumerate(gaps):
        k = own[int(np.delete(means, f, axis=0)[:, own].mean(axis=0).argmax())]
        chosen[family] = {"rule": RULES[k], "left out": _rounded(means[f, k])}
    for row in sorted(rows, key=lambda row: -row["families"]):
        print(f"  {row['rule']}: {row['families']:+.4f}, worst family {row['worst']:+.4f}, behind {row['behind']}")
    print(f"  left out: {np.mean([one['left out'] for one in chosen.values()]):+.4f}")
    figures = {"problems": len(every), "rules": rows, "left out": chosen}
    OUT.write_text(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
