"""The constants of `penalty="auto"`, chosen with one data set left out at a time.

`python -m benchmarks.defaults.leave_one_out measure [SET ...]` holds out a fifth of the *training* rows of each set of
the suite (two fifths if there are few rows; test rows are not used). On the other rows, it follows the path of
strengths as an estimator does, and learns with each strength. The losses on the estimator's own held-out rows, and the
scores on the rows held out here, go to `results/strengths.json`. `... choose` then tries every rule of `RULES` on these
figures: a rule has the ends of the path, the default multiple, and the number of standard errors that it takes to leave
the default. The regret of a rule on a set is the loss in score relative to the best strength there. For each family of
sets, the rule with the least mean regret on the *other* families is chosen and tested on it.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

import spom
from benchmarks.defaults.sets import SETS
from spom.estimators.linear.judging import judged
from spom.estimators.linear.scaling import measured
from spom.estimators.linear.strength import Examples, Judges, grid_of, held_out
from spom.losses import Logistic, MulticlassLogistic, MulticlassPowerHinge, Squared
from spom.penalties import SquaredL2

RESULTS = Path(os.environ.get("SPOM_STRENGTHS", str(Path(__file__).parent / "results" / "strengths.json")))
MULTIPLES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
# The number of seeds for sets of at most FEW rows (others have one), and the maximum number of training rows.
SEEDS, FEW, MOST = 3, 500, 2000


class Rule(NamedTuple):
    """Multiples from `top` to `bottom`; the one nearest to `default` within `errors` standard errors of the best.

    If features outnumber rows, `wide` is the default. The path ends after two consecutive worse multiples.
    """

    top: float
    bottom: float
    default: float
    wide: float
    errors: float


_DEFAULTS = (3.0, 1.0, 0.3, 0.1, 0.03)
RULES = [
    Rule(*values) for values in product((10.0, 3.0), (0.01, 0.001, 0.0003), _DEFAULTS, _DEFAULTS, (0.0, 0.5, 1.0, 2.0))
]
PATIENCE = 2


# --- measuring ---------------------------------------------------------------------------------------------


def _problem(kind: str, y: Any) -> tuple[Any, int | None, list[Any]]:
    """Return targets, outputs and losses as the estimators take them."""
    if kind == "regression":
        return np.asarray(y, dtype=np.float64), None, [Squared()]
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size == 2:
        return 2.0 * codes - 1.0, None, [Logistic()]
    return codes, int(classes.size), [MulticlassLogistic(), MulticlassPowerHinge(2.0)]


def curves(name: str, seed: int) -> dict[str, Any]:
    """Measure each strength on the estimator's held-out rows, and its score on separate rows."""
    data = SETS[name]
    split = data.load(seed)
    real = data.kind == "regression"
    stratify = None if real or np.unique(split.y, return_counts=True)[1].min() < 2 else split.y
    share = 0.4 if split.X.shape[0] <= MOST else 0.2
    X, X_apart, y, y_apart = train_test_split(split.X, split.y, test_size=share, random_state=seed, stratify=stratify)
    X, y, X_apart, y_apart = X[:MOST], y[:MOST], X_apart[:MOST], y_apart[:MOST]
    target, outputs, losses = _problem(data.kind, y)
    scaling = measured(X, None, True)
    examples = Examples(X if scaling is None else scaling.apply(X), target, None, outputs, True)
    judges = Judges(examples, held_out(examples, seed))
    found: dict[str, Any] = {"rows": int(X.shape[0]), "features": int(X.shape[1]), "losses": {}}
    for loss in losses:
        path = judges.scores(None, loss, SquaredL2(1.0), MULTIPLES, seed)
        y_held, weight = judges.rows.y, judges.rows.weights
        trials = [judged(m, y_held, weight, loss, scores) for m, scores in zip(MULTIPLES, path, strict=True)]
        size = grid_of(SquaredL2(1.0), examples, loss)[0]
        make = spom.OnlineRegressor if real else spom.OnlineClassifier
        scores = []
        for m in MULTIPLES:
            model = make(loss=loss, penalty=SquaredL2(m * size), scale=True, random_state=seed, verbose=0)
            scores.append(float(model.fit(X, y).score(X_apart, y_apart)))
        gaps = np.array([t.losses for t in trials])
        means = gaps.mean(axis=1)
        errors = np.array([[(a - b).std() / np.sqrt(a.size) for b in gaps] for a in gaps])
        found["losses"][type(loss).__name__] = {
            **{"loss": means.round(6).tolist(), "errors": errors.round(6).tolist()},
            **{"right": [round(float(t.right.mean()), 6) for t in trials], "score": np.round(scores, 6).tolist()},
        }
    return found


def measure(names: list[str]) -> None:
    """Measure all sets, or the named ones, that are not measured yet."""
    for name in names or list(SETS):
        for seed in range(SEEDS):
            done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            if f"{name} {seed}" in done:
                continue
            if seed and done[f"{name} 0"]["rows"] > FEW:
                break
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[f"{name} {seed}"] = curves(name, seed)
            RESULTS.write_text(json.dumps(done, sort_keys=True).replace(', "', ',\n "') + "\n")
            print(name, seed, flush=True)


# --- choosing ----------------------------------------------------------------------------------------------


def taken(rule: Rule, found: dict[str, Any]) -> int:
    """Return the index of the multiple that a rule chooses."""
    loss, errors = np.array(found["loss"]), np.array(found["errors"])
    tried: list[int] = []
    worse, least = 0, np.inf
    for i, multiple in enumerate(MULTIPLES):
        if not rule.bottom <= multiple <= rule.top:
            continue
        tried.append(i)
        worse = 0 if loss[i] < least else worse + 1
        least = min(least, float(loss[i]))
        if worse == PATIENCE:
            break
    best = min(tried, key=lambda i: float(loss[i]))
    kept = [i for i in tried if loss[i] - loss[best] <= rule.errors * errors[i, best]]
    default = rule.wide if found["wide"] else rule.default
    return min(kept, key=lambda i: (abs(np.log(MULTIPLES[i] / default)), i))


def regrets(kind: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Return (families, regrets): a row per rule, a column per family, as means over its sets, seeds and losses."""
    results = json.loads(RESULTS.read_text())
    by_family: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for key, found in sorted(results.items()):
        data = SETS[key.rsplit(" ", 1)[0]]
        if data.kind == kind:
            wide = found["features"] >= found["rows"]
            for name, entry in found["losses"].items():
                # If there are two losses, the default one for the shape.
                if not name.startswith("Multiclass") or (name == "MulticlassPowerHinge") == wide:
                    by_family[data.family].append({**entry, "wide": wide})
    table = np.zeros((len(RULES), len(by_family)))
    for column, entries in enumerate(by_family.values()):
        for row, rule in enumerate(RULES):
            table[row, column] = np.mean([_regret(rule, found) for found in entries])
    return list(by_family), table


def _regret(rule: Rule, found: dict[str, Any]) -> float:
    score = np.array(found["score"])
    return float(score.max() - score[taken(rule, found)])


def choices(kind: str) -> Iterator[tuple[str, Rule, float, float]]:
    """Yield (family, rule chosen without it, its regret there, regret of the best rule there)."""
    families, table = regrets(kind)
    for column, family in enumerate(families):
        others = np.delete(table, column, axis=1).mean(axis=1)
        rule = int(np.argmin(others))
        yield family, RULES[rule], float(table[rule, column]), float(table[:, column].min())


def show(kind: str) -> None:
    """Print the rule that each left-out family gets, and the best rules on all families."""
    families, table = regrets(kind)
    mean = table.mean(axis=1)
    print(f"\n{kind}: {len(families)} families of sets, {len(RULES)} rules")
    out = list(choices(kind))
    for family, rule, own, best in out:
        print(f"  without {family:<12} {rule!s:<78} its regret {own:.4f} (best of all rules there {best:.4f})")
    print(f"  mean regret of rules chosen without the set: {np.mean([own for _, _, own, _ in out]):.4f}")
    for place in np.argsort(mean)[:5]:
        print(f"  on all: {RULES[place]!s:<78} mean {mean[place]:.4f}, worst {table[place].max():.4f}")


def main(arguments: list[str]) -> None:
    """Run `measure [SET ...]` or `choose`."""
    if arguments[:1] == ["measure"]:
        measure(arguments[1:])
    else:
        for kind in ("classification", "regression"):
            show(kind)


if __name__ == "__main__":
    main(sys.argv[1:])
