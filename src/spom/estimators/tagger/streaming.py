"""Taggers that learn from a stream: features are hashed, and memory does not grow with its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from spom.core.state import State
from spom.errors import Unsupported
from spom.estimators.tagger import defaults
from spom.estimators.tagger.inputs import as_columns, label_names, make_features, split_labels
from spom.estimators.tagger.tagger import ChainLearner
from spom.estimators.training import Trainer, described
from spom.estimators.training.streams import Stream, windows_of
from spom.features.templates import Templates
from spom.solvers.structured.chains.solver import OnlineChain

# The number of slots for the features of all templates, unless the templates set it.
TABLE = 1 << 20


class StreamChain(ChainLearner):
    """Windows of a stream for the trainer; each is a state."""

    def __init__(self, make: Callable[[State | None], OnlineChain], windows: Iterator[Any], encode: Any) -> None:
        super().__init__(make, 0)
        # The number of windows is unknown.
        self.epochs: int | None = None
        self.windows, self.encode, self.seen = windows, encode, 0

    def _losses(self, done: int) -> Iterator[float]:
        """Run a pass over each window; those before a resume are read again and dropped."""
        for window in islice(self.windows, done, None):
            self.solver.feed(*self.encode(window))
            self.seen += self.solver.tokens.total
            yield self.solver.one_pass().loss

    def entry(self, state: State) -> dict[str, Any]:
        """Return the entry of a window; the speed counts the tokens read so far."""
        return {**super().entry(state), "per_second": self.seen / max(self.solver.seconds, 1e-9)}


def fit_stream(tagger: Any, stream: Stream, classes: Any, dev: Any, watch: dict[str, Any]) -> None:
    """Fit a tagger to a stream; constraints, labels and all other `"auto"` settings follow from the first window."""
    for name in ("kernels", "prune", "max_weights"):
        if getattr(tagger, name) is not None:
            raise Unsupported(f"{name}= needs all sentences at once: a stream is read once")
    if tagger.solver == "batch" or tagger.update == "select" or tagger.tol is not None:
        raise Unsupported("solver='batch', update='select' and tol= need all sentences at once: a stream is read once")
    passes = 1 if stream.once else defaults.chosen_epochs(tagger.epochs, 1 << 30, phrases=False)
    windows = windows_of(stream, passes)
    first = next(windows)
    X, y = labelled(first)
    task = tagger._first_task(X, y, classes, hashed(tagger.templates, X, y), more=True)
    if isinstance(tagger.penalty, str):
        if not defaults.is_auto(tagger.penalty):
            raise Unsupported(
                f"the strength of penalty={tagger.penalty!r} follows from the number of sentences: "
                "give an object, such as L1(1e-5)"
            )
        tagger.penalty_ = defaults.chosen_penalty(None, 0, phrases=False)
        tagger.loss_ = defaults.chosen_loss(tagger.loss, tagger.penalty_)
    tagger.epochs_, tagger.pruning_ = passes, None
    if tagger._allowed.constraints is not None:
        # Later sentences may break the scheme: training ignores it, tagging applies it.
        tagger._allowed = tagger._allowed._replace(broken=np.zeros(1, dtype=np.int64))
    trainer = Trainer(tagger, lambda: {"data": "stream", "labels": described(tagger.classes_.tolist())}, **watch)
    seed = trainer.seed(tagger._seed)

    def encoded(window: Any) -> tuple[Any, Any]:
        X, y = labelled(window)
        rows = task.features.transform(as_columns(tagger.templates, X))
        return rows, tagger._labels(y, rows.offsets, None, tagger.classes_)[0]

    learner = StreamChain(lambda start: tagger._solver(task, None, seed, start), chain([first], windows), encoded)
    learner.dev, learner.scores = tagger._dev(dev, task), dev is not None
    with trainer.running():
        found = trainer.run(learner)
    tagger.gap_ = np.nan
    tagger._keep((found.model["W"], found.model["chain"]), trainer, task, compact=True)
    tagger._going = None


def labelled(window: Any) -> tuple[Any, Any]:
    """Return (sentences, labels) of a window."""
    if isinstance(window, tuple) and len(window) == 3 and window[2] is not None:
        raise Unsupported("streams of sentences do not support sample weights: leave them out")
    found: tuple[Any, Any] = split_labels(*window[:2]) if isinstance(window, tuple) else split_labels(window, None)
    return found


def hashed(given: Any, X: Any, y: Any) -> Templates:
    """Return the given or chosen templates, with a slot for every feature that may come."""
    X = as_columns(given, X)
    features = make_features(defaults.chosen_templates(given, X, label_names(y))[0], X)
    if not isinstance(features, Templates):
        raise Unsupported("taggers learn from streams of words or columns under templates, not of dicts or vectors")
    if features.table is not None:
        return features
    options: dict[str, Any] = {"boundaries": features.boundaries, "clusters": features.clusters}
    return Templates(features.templates, table=TABLE, **options)
