"""The stages of a parser's training: arcs, arcs again with the first tree in view, relations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.core.callbacks import Callbacks
from spom.core.state import State
from spom.data.treebank import Treebank
from spom.features.arcs import ArcCodes, ArcTemplates
from spom.solvers.iterate import checkpoint, progress, saved, take
from spom.solvers.structured.trees.arc_filter import with_roots, words_of
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.relations import LabelLearner
from spom.solvers.structured.trees.solver import ArcSolver

# Development data: the trees, their codes, and the trees of a first stage.
Held = tuple[Treebank, ArcCodes, Ints | None]


@dataclass
class Run:
    """What the stages share: settings of the solver, who looks on, and the history that they write."""

    settings: dict[str, Any]
    watch: Callbacks
    verbose: int = 1
    n_jobs: int = 1
    patience: int = 2
    checkpoint: Path | None = None
    checkpoint_every: int | float | str = "60s"
    resume: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)
    begin: float = field(default_factory=time.perf_counter)
    # "end", "converged" or "interrupted".
    stopped: str = "end"

    @property
    def over(self) -> bool:
        """Whether somebody wants an end: a callback, or Ctrl-C."""
        return self.watch.stopped or self.stopped == "interrupted"

    def solver(self, templates: ArcTemplates, codes: ArcCodes, gold: Ints, **more: Any) -> ArcSolver:
        """A solver for the arcs of these sentences."""
        return ArcSolver(templates, codes, gold, copies=False, **{**self.settings, **more})

    def score(self, model: ArcModel, dev: Held) -> float:
        """UAS on development data."""
        bank, codes, guides = dev
        heads, _ = model.parse(codes, self.settings["projective"], guides, self.n_jobs)
        return float((heads[words_of(codes)] == bank.heads).mean()) if bank.n_words else np.nan


def share(parts: list[ArcTemplates]) -> None:
    """Let several sets of templates read the same columns, so that one encoding of a sentence serves all."""
    columns = {name for templates in parts for name in templates.columns}
    for templates in parts:
        templates.also = tuple(sorted(columns))


def train_arcs(run: Run, solver: ArcSolver, epochs: int, stage: str, dev: Held | None = None) -> ArcModel:
    """Epochs of learning; with development data the best epoch's weights, and an end after `patience` worse ones."""
    best, best_score, bad = None, -np.inf, 0
    before = solver.seconds
    try:
        for state in _states(run, solver, epochs, stage):
            info = _described(run, solver, state, stage, before)
            before = solver.seconds
            if dev is not None:
                model = solver.model()
                info["dev"] = run.score(model, dev)
                bad = 0 if info["dev"] > best_score else bad + 1
                if bad == 0:
                    best, best_score = model, info["dev"]
            run.history.append(info)
            if run.watch.epoch(info):
                break
            if bad > run.patience:
                run.stopped = "converged"
                break
    except KeyboardInterrupt:
        # A stop by hand keeps what was learnt, if anything was.
        if solver.k == 0:
            raise
        run.stopped = "interrupted"
    return solver.model() if best is None else best


def _states(run: Run, solver: ArcSolver, epochs: int, stage: str) -> Iterator[State]:
    """The epochs that are still to be made, with progress and checkpoints."""
    path = None
    if run.checkpoint is not None:
        path = run.checkpoint if not stage else run.checkpoint.with_name(run.checkpoint.name + ".second")
        start = saved(path) if run.resume else None
        if start is not None:
            solver.restore(start)
    left = max(0, epochs - solver.k) if path is not None else epochs
    states = take(solver, left)
    if run.verbose:
        states = progress(states, left, f"arcs ({stage})" if stage else "arcs")
    if path is not None:
        states = checkpoint(states, path, run.checkpoint_every)
    return iter(states)


def _described(run: Run, solver: ArcSolver, state: State, stage: str, before: float) -> dict[str, Any]:
    """An entry of `history_`."""
    norms = np.zeros(0) if state.block_norms is None else state.block_norms
    return {
        **{"epoch": state.k, "stage": stage or "arcs", "objective": state.objective, "loss": state.loss},
        "blocks_kept": int(np.count_nonzero(norms)),
        "nonzeros": state.nnz,
        "per_second": int(solver.codes.sizes.sum()) / max(solver.seconds - before, 1e-9),
        "seconds": time.perf_counter() - run.begin,
        "block_weights": norms / norms.sum() if norms.any() else norms,
    }


def crossed_guides(run: Run, templates: ArcTemplates, codes: ArcCodes, gold: Ints, folds: int, epochs: int) -> Ints:
    """Trees of the first stage for its own training data, each from a model that did not see the sentence.

    Folds are runs of sentences, so that a document is hardly ever on both sides.
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


def train_labels(run: Run, learner: LabelLearner, codes: ArcCodes, trees: Ints, gold: Ints, epochs: int) -> None:
    """Epochs of learning relations on gold trees."""
    words = int(codes.sizes.sum())
    for epoch in range(1, epochs + 1):
        begin = time.perf_counter()
        loss = learner.epoch(codes, trees, gold)
        now = time.perf_counter()
        info: dict[str, Any] = {"epoch": epoch, "stage": "relations", "loss": loss, "objective": loss}
        info |= {"per_second": words / max(now - begin, 1e-9), "seconds": now - run.begin}
        run.history.append(info)
        if run.watch.epoch(info):
            break


def gold_relations(bank: Treebank, names: tuple[str, ...], codes: ArcCodes) -> Ints:
    """The relations of a treebank as indices of `names`, laid out as the codes are; unknown ones are an error."""
    index = {name: k for k, name in enumerate(names)}
    unknown = [name for name in bank.relation_names if name not in index]
    used = set(np.unique(bank.relations).tolist())
    unknown = [name for name in unknown if bank.relation_names.index(name) in used]
    if unknown:
        raise ValueError(
            f"the relation {unknown[0]!r} was not there at the first call: announce all of them then, with relations="
        )
    table = np.array([index.get(name, 0) for name in bank.relation_names], dtype=np.int64)
    return with_roots(table[bank.relations], codes)
