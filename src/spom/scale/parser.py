"""Parsers from shards: a first pass counts words, then arcs and relations are learnt by iterative parameter mixing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from spom.core.arrays import Ints, Singles
from spom.core.state import State
from spom.data.treebank import Treebank
from spom.errors import DataError, Unsupported
from spom.estimators.parser.defaults import CROSSING, SAMPLE, chosen_penalty, crossing_share
from spom.estimators.parser.parser import LABEL_BITS
from spom.estimators.parser.pruning import Pruning, select_templates
from spom.estimators.parser.stages import ArcLearner, Held, RelationLearner, Stages, gold_relations, share
from spom.features.arc_sets import LABELS
from spom.features.arcs import ArcCodes, ArcTemplates, with_roots
from spom.scale.averaged_merge import Averaged, Both, Room, Whole, changed, merge_into, put_back
from spom.scale.executor import Threads
from spom.scale.pruning import MOST
from spom.scale.team import Team
from spom.solvers.structured.trees.learning import SUM
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.relations import LabelLearner, LabelModel, rows_of
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.space import arc_limits


@dataclass(frozen=True)
class SeenTrees:
    """What the first pass finds in a shard: sizes, strings with counts, relations, share of crossing trees."""

    sentences: int
    words: int
    counts: dict[str, dict[str, int]]
    relations: tuple[str, ...]
    crossing: float


@dataclass(frozen=True)
class ParserLook:
    """The first pass over trees; `sample` trees of a shard are checked for crossing arcs."""

    templates: ArcTemplates
    sample: int

    def look(self, loaded: tuple[Any, Any, Any]) -> SeenTrees:
        """Count the strings of a shard."""
        bank = trees_of(loaded)
        relations, share = tuple(bank.relation_names), crossing_share(bank, self.sample)
        return SeenTrees(len(bank), bank.n_words, self.templates.count(bank), relations, share)


def trees_of(loaded: tuple[Any, Any, Any]) -> Treebank:
    """Return the treebank of a shard, after checking it."""
    bank = loaded[0]
    if not isinstance(bank, Treebank):
        raise DataError(f"parsers learn from shards of trees, as Shards.conllu gives, not of a {type(bank).__name__}")
    bank.check_trees()
    return bank


@dataclass(frozen=True)
class Trees:
    """The sentences of a shard as solvers take them, room for changes in a pass, and the rows of their relations."""

    codes: ArcCodes
    gold: Ints
    relations: Ints | None
    room: list[Room] = field(default_factory=list)
    rows: list[Ints] = field(default_factory=list)


@dataclass(frozen=True)
class ParserLesson:
    """Passes over the trees of a shard: for limits of arcs, for arcs, or for relations."""

    templates: ArcTemplates
    labels: ArcTemplates
    relations: tuple[str, ...]
    settings: dict[str, Any]
    limits: Any = None
    # Solvers of earlier tasks in this process, with their pass and what it changed: their tables are reused.
    _spare: list[tuple[ArcSolver, int, Ints]] = field(default_factory=list)

    def prepare(self, loaded: Any) -> Trees:
        """Return the sentences as codes."""
        bank = trees_of(loaded)
        codes = self.templates.transform(bank)
        relations = gold_relations(bank, self.relations, codes) if self.relations else None
        return Trees(codes, with_roots(bank.heads, codes), relations)

    def learn(self, trees: Trees, state: Any, seed: list[int]) -> Any:
        """Return the limits of arcs if there are none yet; else pass over arcs or relations, or draw sentences."""
        if not trees.codes.first.size:
            return None
        if self.limits is None:
            return arc_limits(self.templates, trees.codes, trees.gold)
        what: dict[str, Callable[..., Any]] = {"arcs": self._arcs, "relations": self._labels, "draw": self._drawn}
        return what[state[0]](trees, state[1], np.random.default_rng(seed))

    def _drawn(self, trees: Trees, share: float, random: Any) -> tuple[ArcCodes, Ints]:
        """Return a share of the sentences and their heads."""
        codes, count = trees.codes, trees.codes.first.size
        chosen = np.sort(random.permutation(count)[: int(np.ceil(share * count))])
        spans = zip(codes.first[chosen].tolist(), codes.sizes[chosen].tolist(), strict=True)
        places = np.concatenate([np.arange(a, a + n + 1) for a, n in spans])
        first = np.cumsum(np.append(0, codes.sizes[chosen] + 1))[:-1]
        return ArcCodes(codes.codes[:, places], codes.kinds[places], first, codes.sizes[chosen]), trees.gold[places]

    def _arcs(self, trees: Trees, kept: State, random: Any) -> Averaged:
        solver = self._begun(kept) or ArcSolver(
            self.templates, trees.codes, trees.gold, limits=self.limits, copies=False, start=kept, **self.settings
        )
        solver.codes, solver.gold, solver.blocks[:] = trees.codes, trees.gold, kept.internal["blocks"]
        solver.k, solver.rounds, solver.random = kept.k, int(kept.internal["rounds"]), random
        loss, before = solver.epoch().loss, (kept.theta, kept.internal["sums"])
        found = changed(before, (solver.weights, solver.sums), trees.room)
        self._spare.append((solver, kept.k, found[0]))
        return Averaged(*found, float(solver.rounds), float(trees.codes.first.size), loss, None)

    def _labels(self, trees: Trees, kept: State, random: Any) -> Averaged:
        """Make a pass over relations, with the rows of weights that the sentences of the shard use."""
        assert trees.relations is not None
        rows = trees.rows[0] if trees.rows else rows_of(self.labels, trees.codes, trees.gold)
        trees.rows[:] = [rows]
        learner = LabelLearner(self.labels, self.relations, random, copies=False, rows=rows)
        before = kept.theta, kept.internal["sums"]
        for mine, whole in zip((learner.weights, learner.sums), before, strict=True):
            np.take(whole.reshape(learner.layout.rows, -1), rows, axis=0, out=mine.reshape(rows.size, -1), mode="clip")
        learner.k, learner.rounds = kept.k, float(kept.internal["rounds"])
        loss = learner.feed(trees.codes, trees.gold, trees.relations).epoch().loss
        found, words = changed(before, (learner.weights, learner.sums), trees.room, rows), trees.codes.sizes.sum()
        return Averaged(*found, learner.rounds, float(words), loss, learner.seen)

    def _begun(self, kept: State) -> ArcSolver | None:
        """Return a solver that no other thread uses, with the tables of a state, or None if there is none."""
        try:
            solver, done, places = self._spare.pop()
        except IndexError:
            return None
        if done == kept.k:
            before = Both(cast("Singles", kept.theta), kept.internal["sums"])
            put_back(places, before, Both(solver.weights, solver.sums))
        else:
            solver.weights[:], solver.sums[:] = kept.theta, kept.internal["sums"]
        return solver

    def drop(self) -> None:
        """Free the tables when arcs are done, for reuse: memory used recently is much cheaper than fresh memory."""
        self._spare.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_spare": []}


class ShardedArcs(ArcLearner):
    """Passes of arcs over all shards; the solver has the merged weights but no sentences."""

    team: Team
    seed: int

    def states(self, start: State | None, done: int) -> Iterator[State]:
        """Yield one state per pass."""
        solver = self.solver
        self.restore(start)
        assert self.epochs is not None
        for epoch in range(done, self.epochs):
            if _forgets(epoch):
                solver.sums[:], solver.blocks[SUM], solver.rounds = 0.0, 0.0, 0
            kept = solver._state(np.nan, np.nan)
            whole = _merged(self.team, ("arcs", kept), (self.seed, epoch), (solver.weights, solver.sums))
            solver.rounds = round(whole.rounds)
            solver.blocks[SUM] = whole.rounds
            solver.k += 1
            if epoch + 1 == self.epochs:
                self.team.taught.drop()
            yield solver._state(whole.loss, solver.step)


class ShardedRelations(RelationLearner):
    """Passes of relations over all shards; the learner has the merged weights but no sentences."""

    team: Team
    seed: int

    def states(self, start: State | None, done: int) -> Iterator[State]:
        """Yield one state per pass."""
        learner = self.solver
        self.restore(start)
        assert self.epochs is not None
        for epoch in range(done, self.epochs):
            if _forgets(epoch):
                learner.sums[:], learner.rounds = 0.0, 0.0
            kept = learner._state(np.nan)
            tables = learner.weights, learner.sums
            whole = _merged(self.team, ("relations", kept), (self.seed + 1, epoch), tables)
            learner.rounds, learner.k = whole.rounds, learner.k + 1
            for seen in whole.more:
                learner.seen |= seen
            yield learner._state(whole.loss)


def _forgets(epoch: int) -> bool:
    """Tell whether the mean of iterates restarts: after 1, 2, 4, 8, ... passes, so it covers at least the last half.

    The first passes over shards make less progress than those on one machine, and their iterates would pull the mean
    back. On 3,000 trees of EWT in 8 shards, UAS on 500 held-out trees after 6 and 10 passes: .825 and .836 with the
    mean of all, .843 and .849 with this rule; one machine has .848 after 6.
    """
    return epoch > 0 and epoch & (epoch - 1) == 0


def _merged(team: Team, state: Any, seed: tuple[int, int], tables: tuple[Any, Any]) -> Whole:
    """Make one pass over all shards and merge it into the tables; with threads, several of them do the merging."""
    jobs = team.executor.workers if isinstance(team.executor, Threads) else 1
    return merge_into(*tables, team.learn(state, seed), jobs)


def fit_parser(estimator: Any, team: Team, dev: Any, watch: dict[str, Any], classes: Any = None) -> None:
    """Fit a `DependencyParser` to shards of trees."""
    _check(estimator)
    templates = ArcTemplates(estimator._names(), estimator.table_bits, estimator.min_count)
    labels = ArcTemplates(LABELS, LABEL_BITS, estimator.min_count)
    share([templates, *([labels] if estimator.labels else [])])
    team.teach(ParserLook(templates, -(-SAMPLE // max(len(team.shards), 1))))
    seen: list[SeenTrees] = [part for part in team.look() if part is not None]
    projective, why = _projective(estimator.projective, seen)
    templates.learn(_counts(seen))
    labels.vocabularies = {name: templates.vocabularies[name] for name in templates.columns}
    relations = tuple(dict.fromkeys(name for part in seen for name in part.relations)) if estimator.labels else ()
    total = sum(part.sentences for part in seen)
    run = estimator._run(projective, total, lambda: _contents(estimator, team, relations, dev), **watch)
    settings = {name: value for name, value in run.settings.items() if name != "seed"}
    lesson = ParserLesson(templates, labels, relations, settings)
    team.teach(lesson)
    limits = np.maximum.reduce(list(team.learn(None, (0, 0))))
    team.teach(ParserLesson(templates, labels, relations, settings, limits))
    pruning = None
    if estimator.prune is not None:
        templates, pruning = _pruned(run, templates, estimator.prune, (team, total))
        team.teach(ParserLesson(templates, labels, relations, settings, limits))
    with run.trainer.running():
        arcs = _arcs(run, templates, limits, (estimator, team, dev))
        model = _relations(run, labels, relations, (estimator, team)) if estimator.labels else None
    estimator.__dict__.update(
        {
            **{"arcs_": arcs, "second_": None, "labels_": model, "relations_": relations, "pruning_": pruning},
            **{"converged_": run.trainer.stopped == "converged", "history_": run.trainer.history},
            **{"projective_": projective, "penalty_": None, "trees_": why, "_learners": None},
        }
    )


def _check(estimator: Any) -> None:
    if isinstance(estimator.prune, (str, dict)):
        raise Unsupported(f"prune={estimator.prune!r} compares on sentences of one machine: give a number of templates")
    if estimator.second_stage or estimator.order != 1:
        raise Unsupported("second_stage and order=2 need all sentences at once: use fit of the parser, or leave it out")
    if chosen_penalty(estimator.penalty, 1) is not None:
        raise Unsupported(
            "shards of trees do not support a penalty of templates: use fit of the parser, or penalty=None"
        )


def _pruned(run: Stages, templates: ArcTemplates, prune: Any, of: tuple[Team, int]) -> tuple[ArcTemplates, Pruning]:
    """Return the templates to keep, ranked as on one machine, by sentences drawn from all shards."""
    team, total = of
    parts: list[tuple[ArcCodes, Ints]] = list(team.learn(("draw", min(1.0, MOST / total)), (0, 1)))
    codes = [part for part, _ in parts]
    begin = np.cumsum([0, *(part.kinds.size for part in codes)])
    whole = ArcCodes(
        np.ascontiguousarray(np.concatenate([part.codes for part in codes], axis=1)),
        np.concatenate([part.kinds for part in codes]),
        np.concatenate([part.first + a for part, a in zip(codes, begin[:-1].tolist(), strict=True)]),
        np.concatenate([part.sizes for part in codes]),
    )
    return select_templates(run, templates, whole, np.concatenate([heads for _, heads in parts]), prune, (0, False))


def _counts(seen: list[SeenTrees]) -> dict[str, dict[str, int]]:
    """Count how many times each string occurs in all shards, in order of first occurrence."""
    total: dict[str, dict[str, int]] = {name: {} for name in seen[0].counts}
    for part in seen:
        for name, counts in part.counts.items():
            mine = total[name]
            for text, count in counts.items():
                mine[text] = mine.get(text, 0) + count
    return total


def _projective(given: Any, seen: list[SeenTrees]) -> tuple[bool, str]:
    """Decide as for one treebank; the share of trees with crossing arcs is that of all shards."""
    if not (isinstance(given, str) and given == "auto"):
        return bool(given), f"{'projective' if given else 'all'} trees, as given"
    found = float(np.average([part.crossing for part in seen], weights=[part.sentences for part in seen]))
    projective = found <= CROSSING
    return projective, f"{'projective' if projective else 'all'} trees: {100 * found:.1f} % have crossing arcs"


def _arcs(run: Stages, templates: ArcTemplates, limits: Any, how: tuple[Any, Team, Any]) -> ArcModel:
    """Run the stage of arcs."""
    estimator, team, dev = how
    codes = templates.transform(Treebank.from_sentences([]))
    solver = run.solver(templates, codes, np.zeros(0, dtype=np.int64), limits=limits)
    held: Held | None = None if dev is None else (dev, templates.transform(dev), None)
    learner = ShardedArcs(solver, estimator.epochs, "arcs", None if held is None else lambda m: run.score(m, held))
    learner.team, learner.seed = team, run.settings["seed"]
    found = run.trainer.run(learner, "arcs")
    model: ArcModel = solver.model_of(found.model["weights"])
    return model


def _relations(run: Stages, labels: ArcTemplates, names: tuple[str, ...], how: tuple[Any, Team]) -> LabelModel:
    """Run the stage of relations."""
    estimator, team = how
    learner = LabelLearner(labels, names, run.settings["seed"], copies=False)
    stage = ShardedRelations(learner, estimator.label_epochs)
    stage.team, stage.seed = team, run.settings["seed"]
    found = run.trainer.run(stage, "relations")
    return learner.model_of(found.model["weights"], int(found.model["root"]))


def _contents(estimator: Any, team: Team, relations: tuple[str, ...], dev: Any) -> dict[str, Any]:
    from spom.data.conllu import conllu_text
    from spom.estimators.training import digest

    return {
        "shards": list(team.stamps),
        "labels": list(relations),
        "dev": None if dev is None else digest(conllu_text(dev)),
    }
