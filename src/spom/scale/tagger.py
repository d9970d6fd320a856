"""Taggers from shards: a pass over labels and columns, a pass that counts features, then passes of learning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.core.state import State
from spom.core.warning import warn
from spom.data.columns import Columns
from spom.data.treebank import Treebank
from spom.errors import Unsupported
from spom.estimators.tagger import defaults
from spom.estimators.tagger.defaults import metric
from spom.estimators.tagger.inputs import (
    Features,
    Task,
    as_columns,
    label_codes,
    label_names,
    make_features,
    recode,
    split_labels,
)
from spom.estimators.tagger.tagger import ChainLearner
from spom.estimators.training import Trainer, all_or_nothing, described
from spom.features.templates import Templates
from spom.scale.chain_merge import Added, Change, Summing, added_of, change_of, merge_changes
from spom.scale.linear_data import fresh
from spom.scale.pruning import pruned
from spom.scale.team import Team
from spom.scale.vocabularies import Counted, counted, merged_templates
from spom.solvers.structured.chains.adaptive_engine import AdaptiveEngine
from spom.solvers.structured.chains.data import as_blocks, as_tokens
from spom.solvers.structured.chains.solver import OnlineChain, forbidden_scores


@dataclass(frozen=True)
class SeenSentences:
    """What the first pass finds in a shard; `sample` is a sentence, if possible one with a capital letter."""

    sentences: int
    tokens: int
    labels: list[str]
    names: Any
    sample: Columns
    case: bool


@dataclass(frozen=True)
class Totals:
    """The totals of all shards, and the templates that were chosen for them."""

    sentences: int
    tokens: int
    templates: Any


class TaggerLook:
    """The first pass over sentences: labels, columns, sizes."""

    def look(self, loaded: tuple[Any, Any, Any]) -> SeenSentences:
        """Look at the sentences of a shard."""
        X, y = sentences_of(loaded)
        names = label_codes(y, X.offsets, unknown=True)[1]
        number, words = X.distinct("w")
        capital = np.array([str(word) != str(word).lower() for word in words], dtype=bool)
        first = int(np.argmax(capital[number])) if number.size else 0
        at = max(0, int(np.searchsorted(X.offsets, first, side="right")) - 1)
        return SeenSentences(len(X), X.n_tokens, label_names(y), names, X[at : at + 1], bool(capital.any()))


def sentences_of(loaded: tuple[Any, Any, Any]) -> tuple[Columns, Any]:
    """Return (columns, labels) of what a shard loads."""
    X, y, weight = loaded
    if weight is not None:
        raise Unsupported("shards of sentences do not support sample weights: leave sample_weight out")
    X, y = split_labels(X, y)
    X = X.columns if isinstance(X, Treebank) else X
    if not isinstance(X, Columns):
        X = as_columns("auto", X)
    if not isinstance(X, Columns):
        raise Unsupported("taggers learn from shards of words or columns under templates, not of dicts or vectors")
    return X, y


@dataclass(frozen=True)
class SeenFeatures:
    """What the second pass finds: features, their number of entries, and how many sentences break each scheme."""

    counted: Counted | None
    entries: int
    broken: dict[str, int]


@dataclass(frozen=True)
class CountingLesson:
    """The second pass: it counts features of templates, and sentences that break schemes."""

    templates: Templates
    classes: Any
    schemes: dict[str, Any]

    def ask(self, loaded: Any, place: int) -> SeenFeatures:
        """Count the features of a shard."""
        X, y = sentences_of(loaded)
        codes = recode(*label_codes(y, X.offsets, unknown=True), self.classes, X.offsets)
        found = None if self.templates.table is not None else counted(self.templates, X)
        entries = X.n_tokens * len(self.templates.templates) if found is None else int(found.counts.sum())
        broken = {s: int(defaults.broken_sentences(c, codes, X.offsets).size) for s, c in self.schemes.items()}
        return SeenFeatures(found, entries, broken)


@dataclass(frozen=True)
class Prepared:
    """The sentences of a shard, and a solver, whose tables are reused in each round."""

    task: Task
    solvers: list[Any]


@dataclass(frozen=True)
class ChainLesson:
    """A pass over the sentences of a shard, from tables that all shards share."""

    tagger: Any
    features: Features
    epochs: int
    single: bool

    def prepare(self, loaded: Any) -> Prepared:
        """Return the sentences as the solver takes them, with the features that they have.

        If weights are learnt one by one, a shard needs no other features; a penalty of blocks needs all of them.
        """
        X, y = sentences_of(loaded)
        rows, blocks = self.features.transform(X), as_blocks(self.features.blocks)
        codes = recode(*label_codes(y, rows.offsets, unknown=True), self.tagger.classes_, rows.offsets)
        task = Task(self.features, as_tokens(rows, blocks.total), codes, blocks)
        if self.single:
            used = np.zeros(blocks.total, dtype=bool)
            used[task.tokens.indices] = True
            task = task.only(np.flatnonzero(used))
        # The solver is made here so that the cache counts its tables.
        return Prepared(task, [self.tagger._solver(task, self.epochs, 0)] if self.single else [])

    def learn(self, prepared: Prepared, state: tuple[int, Any], seed: list[int]) -> Added | Change | None:
        """Run one pass; return what it changed."""
        if not len(prepared.task.tokens):
            return None
        (done, arrays), task = state, prepared.task
        solver = prepared.solvers.pop() if prepared.solvers else self.tagger._solver(task, self.epochs, 0)
        solver.random = np.random.default_rng(seed)
        engine, ids, sentences = solver.engine, task.ids, len(task.tokens)
        if ids is None:
            engine.unpack(arrays)
        else:
            np.take(arrays["table"], ids, axis=0, out=engine.sums.table, mode="clip")
            engine.sums.chain[:] = arrays["chain"]
            engine.rounds, engine.eta = int(arrays["scalars"][0]), float(arrays["scalars"][1])
        # Decreasing steps count the rounds of this shard.
        solver.done, solver.rounds = done, done * sentences
        loss = solver.one_pass().loss * sentences
        if ids is None:
            return change_of(engine, arrays, sentences, loss)
        prepared.solvers.append(solver)
        return added_of(engine, ids, arrays, sentences, loss)


class ShardedChain(ChainLearner):
    """Passes over all shards for the trainer; the solver holds the merged tables but no sentences."""

    def __init__(self, make: Callable[[State | None], OnlineChain], team: Team, seed: int, totals: Totals) -> None:
        super().__init__(make, make(None).epochs)
        self.team, self.seed, self.totals = team, seed, totals

    def entry(self, state: State) -> dict[str, Any]:
        """Return the entry as for one machine; the speed counts the tokens of all shards."""
        speed = state.k * self.totals.tokens / max(self.solver.seconds, 1e-9)
        return {**super().entry(state), "per_second": speed}

    def _losses(self, done: int) -> Iterator[float]:
        solver, engine = self.solver, self.solver.engine
        summing = Summing(engine) if isinstance(engine, AdaptiveEngine) else None
        while solver.done < solver.epochs:
            begin = time.perf_counter()
            arrays = engine.pack()
            parts = self.team.learn((solver.done, arrays), [self.seed, solver.done])
            if summing is not None:
                sentences, loss = summing.add(parts)
            else:
                merged, sentences, loss = merge_changes(solver, arrays, parts)
                engine.unpack(merged)
            solver.done, solver.rounds = solver.done + 1, solver.rounds + sentences
            solver.seconds += time.perf_counter() - begin
            yield loss / max(1, sentences)


def fit_tagger(estimator: Any, team: Team, dev: Any, watch: dict[str, Any], classes: Any = None) -> None:
    """Fit a `SequenceTagger` to shards of sentences."""
    _check(estimator)
    with all_or_nothing(estimator):
        totals = _looked(estimator, team, classes)
        features, entries = _features(estimator, team, totals)
        per_token, estimator.pruning_ = entries / max(1, totals.tokens), None
        if estimator.prune is not None:
            features, per_token = pruned(estimator, team, features, totals.sentences, sentences_of)
        task = _empty(features)
        worker = _worker(estimator, per_token)
        trainer = Trainer(
            estimator,
            lambda: _contents(estimator, team, dev, task),
            patience=estimator.patience,
            **watch,
        )
        seed = trainer.seed(estimator._seed)
        learner = ShardedChain(lambda start: worker._solver(task, estimator.epochs_, seed, start), team, seed, totals)
        single = isinstance(learner.solver.engine, AdaptiveEngine)
        team.teach(ChainLesson(worker, features, estimator.epochs_, single))
        learner.dev, learner.scores = estimator._dev(dev, task), dev is not None
        with trainer.running():
            found = trainer.run(learner)
        if estimator.pruning_ is not None:
            estimator.pruning_.refit_seconds = learner.solver.seconds
        estimator._keep((found.model["W"], found.model["chain"]), trainer, task, compact=True)
        estimator._going = None


def _check(estimator: Any) -> None:
    estimator._check()
    for name in ("kernels", "max_weights"):
        if getattr(estimator, name) is not None:
            raise Unsupported(f"{name}= needs all sentences at once: use fit of the tagger, or leave it out")
    if estimator.update == "select":
        raise Unsupported("update='select' needs all sentences at once: use 'dual-averaging' or 'forward-backward'")


def _looked(estimator: Any, team: Team, classes: Any) -> Totals:
    """Run the first pass; set labels, templates, penalty, loss and passes by the rules of `fit`."""
    team.teach(TaggerLook())
    seen: list[SeenSentences] = [part for part in team.look() if part is not None]
    labels = np.unique(np.concatenate([part.names for part in seen]))
    estimator.classes_ = labels if classes is None else np.unique(np.asarray(classes))
    if labels.size == 1:
        warn(f"y has only one label, {str(labels[0])!r}: every token will get it")
    sample = next((part.sample for part in seen if part.case), seen[0].sample)
    names = list(dict.fromkeys(label for part in seen for label in part.labels))
    templates, estimator.templates_ = defaults.chosen_templates(estimator.templates, sample, names)
    sentences, phrases = sum(part.sentences for part in seen), metric("auto", labels.tolist()) == "f1"
    auto = estimator._all_auto(estimator.loss)
    estimator.cost_ = defaults.chosen_cost(estimator.cost, auto, sentences, phrases)
    estimator.penalty_ = defaults.chosen_penalty(estimator.penalty, sentences, phrases, estimator.cost_)
    estimator.loss_ = defaults.chosen_loss(estimator.loss, estimator.penalty_)
    estimator.epochs_ = defaults.chosen_epochs(estimator.epochs, sentences, phrases)
    return Totals(sentences, sum(part.tokens for part in seen), templates)


def _features(estimator: Any, team: Team, totals: Totals) -> tuple[Features, int]:
    """Run the second pass; return the features of all shards and their number of occurrences. Set the constraints."""
    templates = make_features(totals.templates, [])
    if not isinstance(templates, Templates):
        raise Unsupported("taggers learn from shards of words or columns under templates, not of dicts or vectors")
    schemes = defaults.schemes_for(estimator.constraints, [str(label) for label in estimator.classes_.tolist()])
    team.teach(CountingLesson(templates, estimator.classes_, schemes))
    parts: list[SeenFeatures] = list(team.ask("count"))
    # Only the number of sentences that break a scheme is known here, not their indices.
    broken = {scheme: np.arange(sum(part.broken[scheme] for part in parts)) for scheme in schemes}
    estimator._allowed = defaults.chosen_scheme(estimator.constraints, schemes, broken, totals.sentences)
    defaults.report_broken(estimator._allowed, known=False)
    estimator.constraints_ = estimator._allowed.scheme
    estimator._forbidden = forbidden_scores(estimator._allowed.constraints, estimator.classes_.size)
    every = [part.counted for part in parts if part.counted is not None]
    features = merged_templates(templates, every)
    estimator.blocks_ = tuple(features.blocks.names)
    return features, sum(part.entries for part in parts)


def _empty(features: Features) -> Task:
    """Return a task without sentences under these features, for the solver that holds the merged tables."""
    blocks = as_blocks(features.blocks)
    none: Ints = np.zeros(0, dtype=np.int64)
    rows = features.transform(Columns.from_lists([]))
    return Task(features, as_tokens(rows, blocks.total), none, blocks)


def _worker(estimator: Any, per_token: float) -> Any:
    """Return what workers need of the tagger; steps that depend on features per token use the overall mean."""
    worker, step = fresh(estimator), estimator.step
    single = estimator.penalty_.elastic() is not None and estimator.update in ("auto", "dual-averaging")
    if defaults.is_auto(step) and single:
        step = defaults.rate_for(per_token)
    worker.step = step
    for name in ("classes_", "loss_", "cost_", "penalty_", "_allowed"):
        setattr(worker, name, getattr(estimator, name))
    return worker


def _contents(estimator: Any, team: Team, dev: Any, task: Task) -> dict[str, Any]:
    return {
        "shards": list(team.stamps),
        "labels": described(estimator.classes_.tolist()),
        "templates": list(estimator.blocks_),
        "dev": task.digest_of(dev),
    }
