"""The stages of a parser's training: arcs; then second-order parts or a second stage; relations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Ints, aligned_singles
from spom.core.state import State
from spom.data.treebank import Treebank
from spom.estimators.training import Learner, Trainer, shares
from spom.estimators.training.goal import BatchLearner, Goal
from spom.features.arcs import ArcCodes, ArcTemplates, with_roots, words_of
from spom.solvers.iterate import take
from spom.solvers.structured.trees.batch import BatchArcs
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.relations import LabelLearner, LabelModel
from spom.solvers.structured.trees.second_order.model import left_heads
from spom.solvers.structured.trees.second_order.solver import SecondOrderSolver
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.sparse import SparseArcSolver

# Development data: the trees, their codes, and the input of a second stage: the trees of the first one, or its model.
Held = tuple[Treebank, ArcCodes, Any]


@dataclass
class Stages:
    """The state that the stages share: settings of the solver, the trainer, and the penalty with its use."""

    settings: dict[str, Any]
    trainer: Trainer
    n_jobs: int = 1
    penalty: Any = None
    update: str = "forward-backward"

    def solver(self, templates: ArcTemplates, codes: ArcCodes, gold: Ints, **more: Any) -> ArcSolver:
        """Return a solver for the arcs of these sentences, one with exact zeros if the penalty has them."""
        penalty = self.settings["penalty"]
        elastic = None if penalty is None else penalty.elastic()
        sparse = elastic is not None and (elastic.l1 > 0.0 or self.update == "dual-averaging")
        kind = SparseArcSolver if sparse else ArcSolver
        return kind(templates, codes, gold, copies=False, **{**self.settings, **more})

    def second_order(self, arcs: ArcModel, codes: ArcCodes, gold: Ints) -> SecondOrderSolver:
        """Return a solver with siblings and grandparents, over templates and arcs that a first-order model keeps."""
        kept = left_heads(arcs, codes)
        return SecondOrderSolver(
            arcs.templates, codes, gold, kept=kept, limits=arcs.limits, copies=False, **self.settings
        )

    def score(self, model: Any, dev: Held) -> float:
        """Return the UAS on development data."""
        bank, codes, guides = dev
        heads, _ = model.parse(codes, self.settings["projective"], guides, self.n_jobs)
        return float((heads[words_of(codes)] == bank.heads).mean()) if bank.n_words else np.nan

    def arcs(self, solver: ArcSolver, epochs: int, stage: str = "arcs", dev: Held | None = None) -> Any:
        """Learn arcs; with development data return those of the best epoch."""
        scores = None if dev is None else lambda model: self.score(model, dev)
        found = self.trainer.run(ArcLearner(solver, epochs, stage, scores), stage)
        return solver.model_of(aligned(found.model["weights"]))

    def optimum(self, arcs: ArcModel, codes: ArcCodes, gold: Ints, tol: float | None) -> ArcModel:
        """Run the batch solver from the weights of a model to the optimum of the penalty."""

        def make(start: State | None) -> BatchArcs:
            return BatchArcs(
                arcs.templates,
                codes,
                gold,
                penalty=self.penalty,
                projective=self.settings["projective"],
                limits=arcs.limits,
                start=arcs.weights if start is None else start,
            )

        learner = OptimumLearner(make, Goal(tol))
        found = self.trainer.run(learner, "batch")
        return replace(arcs, stored=aligned(found.model["weights"]))

    def relations(self, learner: LabelLearner, epochs: int) -> LabelModel:
        """Learn relations on gold trees."""
        found = self.trainer.run(RelationLearner(learner, epochs), "relations")
        return learner.model_of(aligned(found.model["weights"]), int(found.model["root"]))


class _Epochs(Learner):
    """Epochs of a solver that can be restored from a state."""

    def __init__(self, solver: Any, epochs: int) -> None:
        self.solver, self.epochs = solver, epochs
        self._before = solver.seconds

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the states of the remaining epochs."""
        self.restore(start)
        assert self.epochs is not None
        return take(self.solver, max(0, self.epochs - done))

    def restore(self, start: State | None) -> None:
        """Resume from a state, if there is one."""
        if start is not None:
            self.solver.restore(start)
            self._before = self.solver.seconds

    def per_second(self, words: int) -> float:
        """Return the number of words over the time since the last call."""
        spent, self._before = self.solver.seconds - self._before, self.solver.seconds
        return float(words / max(spent, 1e-9))


class ArcLearner(_Epochs):
    """Epochs of an `ArcSolver` for the trainer: the model is the mean of its weights."""

    solver: ArcSolver

    def __init__(self, solver: ArcSolver, epochs: int, stage: str, dev: Callable[[Any], float] | None = None) -> None:
        super().__init__(solver, epochs)
        self.stage, self.dev, self.scores = stage, dev, dev is not None

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`."""
        found = {"epoch": state.k, "stage": self.stage, "objective": state.objective, "loss": state.loss}
        speed = self.per_second(int(self.solver.codes.sizes.sum()))
        return {**found, **shares(state.block_norms), "nonzeros": state.nnz, "per_second": speed}

    def model(self, state: State) -> Arrays:
        """Return the mean of the weights."""
        return {"weights": self.solver.mean(float(self.solver.rounds))}

    def score(self, model: Arrays) -> float:
        """Return the UAS on development data."""
        assert self.dev is not None
        return self.dev(self.solver.model_of(model["weights"]))


class OptimumLearner(BatchLearner):
    """Rounds of a `BatchArcs` for the trainer: the model is its weights."""

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`."""
        return {**super().entry(state), "stage": "batch", "nonzeros": state.nnz}

    def model(self, state: State) -> Arrays:
        """Return the current weights."""
        return {"weights": self.solver.model().weights}


class RelationLearner(_Epochs):
    """Epochs of a `LabelLearner` for the trainer: the model is the mean of its weights, and the root's relation."""

    solver: LabelLearner

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of `history_`."""
        found = {"stage": "relations", "loss": state.loss, "objective": state.objective}
        return {**found, "per_second": self.per_second(self.solver.words)}

    def model(self, state: State) -> Arrays:
        """Return the mean of the weights."""
        found = self.solver.model()
        return {"weights": found.weights, "root": np.array(found.root)}


def aligned(weights: Any) -> Any:
    """Return weights that begin at a cache line: a copy if those of a checkpoint do not."""
    if weights.ctypes.data % 64 == 0:
        return weights
    found = aligned_singles(weights.size)
    found[:] = weights
    return found


def share(parts: list[ArcTemplates], more: Iterable[str] = ()) -> None:
    """Let several sets of templates read the same columns, plus `more`, so one encoding of a sentence serves all."""
    columns = {name for templates in parts for name in templates.columns} | set(more)
    for templates in parts:
        templates.also = tuple(sorted(columns))


def crossed_guides(run: Stages, templates: ArcTemplates, codes: ArcCodes, gold: Ints, folds: int, epochs: int) -> Ints:
    """Return trees of the first stage for its training data, each by a model learnt without the sentence.

    Folds are contiguous, so a document is rarely in two of them.
    """
    count = codes.first.size
    guides = np.zeros_like(gold)
    cuts = np.linspace(0, count, min(folds, max(count, 1)) + 1).astype(np.int64)
    everything = np.arange(count)
    for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        solver = run.solver(templates, codes, gold)
        rest = np.concatenate([everything[:begin], everything[end:]])
        for _ in range(epochs):
            solver.epoch(rest if rest.size else everything)
        heads, _ = solver.model().parse(codes, run.settings["projective"], bounds=(begin, end))
        a, b = int(codes.first[begin]), int(codes.first[end]) if end < count else guides.size
        guides[a:b] = heads[a:b]
    return guides


def gold_relations(bank: Treebank, names: tuple[str, ...], codes: ArcCodes) -> Ints:
    """Return a treebank's relations as indices of `names`, laid out as the codes; raise an error for unknown ones."""
    index = {name: k for k, name in enumerate(names)}
    unknown = [bank.relation_names[k] for k in np.unique(bank.relations) if bank.relation_names[k] not in index]
    if unknown:
        raise ValueError(
            f"the relation {unknown[0]!r} was not there at the first call: announce all of them then, with relations="
        )
    table = np.array([index.get(name, 0) for name in bank.relation_names], dtype=np.int64)
    return with_roots(table[bank.relations], codes)
