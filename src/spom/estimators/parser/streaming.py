"""Parsers that learn from a stream of trees: arcs and relations window by window, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, cast

import numpy as np

from spom.core.arrays import Arrays, Floats
from spom.core.state import State
from spom.data.treebank import Treebank
from spom.errors import Unsupported
from spom.estimators.parser.defaults import chosen_projective
from spom.estimators.parser.stages import Held, gold_relations
from spom.estimators.training import Learner, described, shares
from spom.estimators.training.streams import Stream, windows_of
from spom.features.arcs import with_roots
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.relations import LabelLearner
from spom.solvers.structured.trees.solver import ArcSolver


class StreamTrees(Learner):
    """Windows of trees for the trainer: arcs, and relations if they are learnt; each window is a state."""

    def __init__(
        self,
        arcs: ArcSolver,
        labels: LabelLearner | None,
        windows: Iterator[Treebank],
        dev: Callable[[ArcModel], float] | None,
    ) -> None:
        self.arcs, self.labels, self.windows = arcs, labels, windows
        self.dev, self.scores, self.words = dev, dev is not None, 0
        if labels is not None:
            # A single generator, so a checkpoint has the state of both.
            labels.random = arcs.random

    def states(self, start: State | None, done: int) -> Iterator[State]:
        """Yield a state for each window; those before a resume are read again and dropped."""
        if start is not None:
            self._restore(start)
        for bank in islice(self.windows, done, None):
            codes = self.arcs.templates.transform(bank)
            gold = with_roots(bank.heads, codes)
            # Raise the error for an unknown relation before any training.
            wanted = None if self.labels is None else gold_relations(bank, self.labels.names, codes)
            self.arcs.feed(codes, gold)
            state = self.arcs.epoch()
            if self.labels is not None and wanted is not None:
                self.labels.feed(codes, gold, wanted).epoch()
            self.words += bank.n_words
            yield state

    def _restore(self, state: State) -> None:
        names = {"arcs": {}, "labels": {}}  # type: dict[str, dict[str, Any]]
        for name, array in state.internal.items():
            part, _, own = name.partition(".")
            names[part][own] = array
        self.arcs.restore(State(k=state.k, theta=state.theta, internal=names["arcs"], random=state.random))
        if self.labels is not None:
            theta = cast("Floats", names["labels"].pop("theta"))
            self.labels.restore(State(k=state.k, theta=theta, internal=names["labels"], random=state.random))

    def snapshot(self, state: State, copy: bool = True) -> State:
        """Return the tables of arcs and relations."""
        internal = {f"arcs.{name}": a for name, a in state.internal.items()}
        if self.labels is not None:
            own = self.labels._state(np.nan)
            internal |= {"labels.theta": own.theta, **{f"labels.{name}": a for name, a in own.internal.items()}}
        # Relations have drawn from the generator after the state of the arcs was made.
        random = dict(self.arcs.random.bit_generator.state)
        found = State(k=state.k, theta=state.theta, loss=state.loss, internal=internal, random=random)
        return super().snapshot(found, copy)

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`."""
        found = {"stage": "stream", "objective": state.objective, "loss": state.loss, "nonzeros": state.nnz}
        return {**found, **shares(state.block_norms), "per_second": self.words / max(self.arcs.seconds, 1e-9)}

    def model(self, state: State) -> Arrays:
        """Return the means of the weights."""
        found: Arrays = {"weights": self.arcs.model().weights}
        if self.labels is not None:
            labels = self.labels.model()
            found |= {"labels": labels.weights, "root": np.array(labels.root)}
        return found

    def score(self, model: Arrays) -> float:
        """Return the UAS on development data."""
        assert self.dev is not None
        return self.dev(self.arcs.model_of(model["weights"]))


def fit_stream(parser: Any, stream: Stream, dev: Any, relations: Iterable[str] | None, watch: dict[str, Any]) -> None:
    """Fit a parser to a stream; words and relations are those of the first window, plus announced relations."""
    if parser.prune is not None or parser.second_stage:
        raise Unsupported("prune= and second_stage need all sentences at once: a stream is read once")
    windows = (checked(bank) for bank in windows_of(stream, parser.epochs))
    first = next(windows)
    projective, why = chosen_projective(parser.projective, first)

    def contents() -> dict[str, Any]:
        return {"data": "stream", "labels": described(list(parser.relations_))}

    run = parser._run(projective, len(first), contents, **watch)
    parser._begin(run, first, relations)
    templates = parser.arcs_.templates
    codes = templates.transform(first)
    arcs, _, labels = parser._continued(run, codes, with_roots(first.heads, codes))
    held: Held | None = None if dev is None else (dev, templates.transform(dev), None)
    scores = None if held is None else lambda model: run.score(model, held)
    learner = StreamTrees(arcs, labels, chain([first], windows), scores)
    with run.trainer.running():
        found = run.trainer.run(learner)
    parser.arcs_ = arcs.model_of(found.model["weights"])
    if labels is not None:
        parser.labels_ = labels.model_of(found.model["labels"], int(found.model["root"]))
    parser.__dict__.update(history_=run.trainer.history, converged_=run.trainer.stopped == "converged", trees_=why)
    parser._learners = None


def checked(bank: Any) -> Treebank:
    """Return the trees of a window, checked."""
    if not isinstance(bank, Treebank):
        raise TypeError(f"parsers learn from streams of trees, such as iter_conllu gives, not of {type(bank).__name__}")
    bank.check_trees()
    return bank
