"""Checks whether a stored table still matches the code.

A table of `results/` is stored with the numbers of tiny fits of the estimators that it shows. A test repeats these
fits: if they give other numbers, so does the benchmark, and its table is stale. The seconds of a benchmark cannot be
compared like this, but the choices behind them (passes, strengths, templates) can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# Relative differences of tiny fits between processors are below this.
CLOSE = 0.02


def tagger() -> list[float]:
    """Return passes, strength, weights and score of a default tagger."""
    from spom import SequenceTagger
    from spom.data.generated import ingredients

    model = SequenceTagger(random_state=0, verbose=0).fit(ingredients(120, seed=0))
    return [len(model.history_), model.penalty_.strength, model.nonzeros_, model.score(ingredients(60, seed=1))]


def pipeline() -> list[float]:
    """Return measures of a default pipeline on a generated treebank, and its numbers of weights."""
    from spom import Pipeline
    from spom.data.conllu import parse_conllu
    from spom.data.generated_trees import kitchen

    train, test = (parse_conllu(kitchen(count, seed).encode()) for count, seed in ((60, 0), (30, 1)))
    model = Pipeline(random_state=0, verbose=0).fit(train)
    scores = model.evaluate(test)
    sizes = model.tagger_.weights.values.size, model.parser_.arcs_.entries().places.size
    return [*(scores[name] for name in ("words", "sentences", "upos", "lemmas", "las")), *sizes]


def kernels() -> list[float]:
    """Return strength, kernels and accuracy of a default machine on digits."""
    from sklearn.datasets import load_digits

    from spom import MKLClassifier

    X, y = load_digits(return_X_y=True)
    model = MKLClassifier(random_state=0, verbose=0).fit(X[:120], y[:120])
    strength: Any = getattr(model.penalty_, "strength", 0.0)
    return [strength, len(model.selected_), model.score(X[120:400], y[120:400])]


def online() -> list[float]:
    """Return the sum of absolute weights and the score of one pass under a given l1 penalty."""
    from sklearn.datasets import load_breast_cancer

    from spom import OnlineClassifier
    from spom.penalties import L1

    X, y = load_breast_cancer(return_X_y=True)
    model = OnlineClassifier(penalty=L1(1e-6), epochs=1, random_state=0, verbose=0).fit(X, y)
    return [float(np.abs(model.coef_).sum()), model.score(X, y)]


def groups() -> list[float]:
    """Return the sum of absolute weights and the mean squared error of a small group lasso."""
    from spom import ProximalRegressor
    from spom.penalties import GroupLasso

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    y = X[:, :3] @ np.ones(3) + 0.1 * rng.standard_normal(60)
    model = ProximalRegressor(penalty=GroupLasso(0.1, 3), verbose=0).fit(X, y)
    return [float(np.abs(model.coef_).sum()), float(((y - model.predict(X)) ** 2).mean())]


PROBES: dict[str, Callable[[], list[float]]] = {f.__name__: f for f in (tagger, pipeline, kernels, online, groups)}
# The estimator that each stored table shows. Proximal operators have their own tests.
SHOWN = {
    "beside:chunking": "tagger",
    "beside:upos": "tagger",
    "beside:spacy_entities": "tagger",
    "beside:spacy": "pipeline",
    "beside:landsat": "kernels",
    "beside:thousand": "kernels",
    "beside:shuffled": "online",
    "beside:groups": "groups",
}


def stamp(benchmark: str) -> dict[str, list[float]]:
    """Return the numbers that are stored with a table."""
    name = SHOWN.get(benchmark)
    return {} if name is None else {name: PROBES[name]()}


def changed(stored: list[float], now: list[float]) -> bool:
    """Tell whether the current numbers differ from the stored ones.

    >>> changed([1.0, 0.5], [1.001, 0.5]), changed([6.0], [12.0])
    (False, True)
    """
    pairs = zip(stored, now, strict=False)
    return len(stored) != len(now) or not all(math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-9) for a, b in pairs)
