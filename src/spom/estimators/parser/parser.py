"""DependencyParser: trees over words, learnt online, with a selection of templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]  # joblib has no types
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Floats, Ints, check_dev
from spom.core.callbacks import TakesCallbacks
from spom.core.registry import TakesPenalty, keep, register
from spom.data.conllu import conllu_text
from spom.data.treebank import Treebank, as_treebank
from spom.decoders.inside_outside import inside_outside
from spom.decoders.nonprojective import matrix_tree
from spom.errors import DataError, Unsupported
from spom.estimators.explanation import Explanation, explain_heads, template_scores
from spom.estimators.parser.defaults import WHOLE, check_batch, chosen_penalty, chosen_projective, chosen_update
from spom.estimators.parser.pruning import Pruning, largest_share, relation_share, select_templates
from spom.estimators.parser.saving import SavingParser
from spom.estimators.parser.stages import Held, Stages, crossed_guides, gold_relations, share
from spom.estimators.training import Trainer, digest
from spom.estimators.training.streams import as_stream, is_iterator
from spom.features.arc_sets import LABELS, guided_templates
from spom.features.arcs import ArcCodes, ArcTemplates, with_roots, words_of
from spom.metrics.attachment import Attachment, attachment
from spom.penalties.base import block_weights, with_strength
from spom.solvers.structured.trees.gap import tree_gap
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.relations import LabelLearner, LabelModel
from spom.solvers.structured.trees.second_order.model import SecondOrderModel, left_heads
from spom.solvers.structured.trees.second_order.templates import PART_COLUMNS
from spom.solvers.structured.trees.select import TemplateSelection, after_selection, select_arcs
from spom.solvers.structured.trees.solver import ArcSolver

LABEL_BITS = 14


@register("estimator", "dependency-parser", examples=lambda: [DependencyParser()], cost="O(templates) an arc")
class DependencyParser(TakesPenalty, TakesCallbacks, SavingParser, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """max over trees of the sum over arcs of theta . features(head, modifier), with theta learnt sentence by sentence.

    Input and output are a `Treebank`, as from `spom.data.read_conllu`.

    Parameters
    ----------
    templates : `"default"` (the compact set and templates of morphological features), `"compact"`, `"large"`, or names
        such as `"h.form m.upos dist"` (the language is that of `spom.features.arc_sets`). Each template is one block.
    projective : True: only trees without crossing arcs (Eisner); False: all trees (maximum spanning arborescence);
        `"auto"`: the former if at most a quarter of the treebank's trees have crossing arcs. Trees always have one
        root. `projective_` has the choice, `trees_` the reason.
    loss : `"mira"` (the smallest step that makes the cost-augmented hinge zero, at most `step`), `"hinge"`,
        `"perceptron"` or `"log"` (a random field over trees).
    penalty : a penalty on the blocks' norms: `GroupLasso`, `SparseMKL` (SPOM), `LqMKL`, `ElasticNetMKL`,
        `TreeGroupLasso` over templates; on single weights: `L1`, `ElasticNet`; on both: `SparseGroupLasso`, and sums
        whose order of proxes is exact. For a name the strength follows from the number of sentences.
        `"auto"` and None are no penalty: a parser is the mean of its iterates, which needs none.
    update : `"select"`: one pass of group dual averaging under the penalty sets templates to zero, then the remaining
        ones are learnt under its part on single weights, if it has one. `"dual-averaging"`: for penalties of single
        weights, which become exactly zero. `"forward-backward"`: each sentence's step, then the prox of a penalty of
        block norms; no template is exactly zero then, as the model is the mean of all iterates. `"auto"`: the
        first, but the last under the log loss, to whose optimum `gap_` refers; the second for single weights.
    labels : whether relations are learnt too, by a second stage that uses the whole tree.
    epochs, label_epochs : passes for arcs and for relations.
    prune : None, a number of templates to keep, a share of them below one, or `"auto"`: half of the templates and small
        weights are dropped if held-out sentences show that they are not needed. Templates are ranked by what they add
        on held-out sentences (see `spom.estimators.parser.pruning`); `pruning_` has the evidence.
        `{"false_discovery_rate": 0.1}`: families of templates that stand out against knockoffs, with at most that share
        of them expected to be noise.
    second_stage : whether a second parser, which sees the first one's tree (grandparents, siblings, children), decides.
    order : 1: trees score by their arcs; 2: also by siblings and grandparents, over the arcs that a parser of order 1
        keeps. The best tree is exact, and projective; if `projective_` is False, `order_` is 1. With `second_stage`,
        there is a second stage only in that case.
    folds : the number of parts of the training data, to get trees of the first stage for the second one.
    step, cost : the largest step (default: one over the number of templates), and the cost of a wrong head.
    table_bits, min_count : see `spom.features.arcs.ArcTemplates`.
    patience : with `fit(..., dev=...)`, end a stage after this many epochs without a better score; None runs all.
    n_jobs : threads of `predict`. random_state : the seed. verbose : 1 shows progress on a terminal.
    solver : `"online"`; `"batch"` continues from its result to the optimum of the log loss under the penalty, which
        makes whole templates and single weights exactly zero if it is of that kind; nothing is selected before.
    tol : `"batch"` stops when `gap_` is at most tol times the objective (None: 1e-3).
    callbacks : objects with `on_epoch(info)`, `on_end(info)`; see `spom.core.callbacks`.

    Attributes
    ----------
    blocks_ : the names of the templates in the model. block_weights_ : the papers' beta of each, summing to one: shares
        of the sum of norms, for `LqMKL` under `"forward-backward"` powers of them.
    selected_ : the indices of the non-zero templates. relations_ : the names of the relations.
    selection_ : the result of `update="select"`, or None: the templates, those that were kept, and their evidence.
    penalty_ : the penalty with its strength, or None.
    gap_ : an upper bound of the distance of the arcs' objective to its optimum, under the log loss and a penalty; else
        NaN. After a selection the objective is that of the kept templates, with the penalty's part on single weights.
    pruning_ : what was dropped and why, or None. history_ : one dict per epoch of each stage. converged_ : whether
        development data ended the training.

    Examples
    --------
    >>> from spom import DependencyParser
    >>> from spom.data import Treebank
    >>> words = [{"form": "dogs", "upos": "NOUN", "head": 2, "deprel": "nsubj"},
    ...          {"form": "bark", "upos": "VERB", "head": 0, "deprel": "root"}]
    >>> bank = Treebank.from_sentences([words, [{**words[0], "form": "cats"}, {**words[1], "form": "meow"}]])
    >>> parser = DependencyParser(min_count=1, verbose=0).fit(bank)
    >>> parser.predict(bank.without_trees()).heads
    array([2, 0, 2, 0])
    >>> parser.score(bank)
    1.0
    """

    pruning_: Pruning | None
    selection_: TemplateSelection | None
    gap_: float
    _learners: tuple[Any, ...] | None

    def __init__(
        self,
        templates: Any = "default",
        projective: bool | str = "auto",
        loss: str = "mira",
        penalty: Any = "auto",
        labels: bool = True,
        epochs: int = 6,
        *,
        label_epochs: int = 4,
        prune: Any = None,
        second_stage: bool = False,
        folds: int = 4,
        step: float | None = None,
        cost: float = 1.0,
        table_bits: int = 16,
        min_count: int = 2,
        patience: int | None = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 1,
        callbacks: Any = None,
        update: str = "auto",
        order: int = 1,
        solver: str = "online",
        tol: float | None = None,
    ) -> None:
        keep(self, locals())

    # --- learning ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Treebank,
        y: Any = None,
        dev: Treebank | None = None,
        *,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | float | str = "60s",
        resume: bool = False,
        relations: Iterable[str] | None = None,
    ) -> Self:
        """Learn from a treebank; `dev` chooses the best epoch. `y` is not used: the trees are in the treebank.

        X may also be a stream: an iterator of treebanks, such as from `iter_conllu`, or a `spom.scale.Stream`. Words
        are then those of the first window, and so are relations, plus those that `relations` announces.

        `checkpoint` is a file for the state of the run, written every N epochs, every N seconds ("60s"), or only when
        the run is stopped ("stop"); with `resume` the run continues from there, to the same bits. Ctrl-C ends the run
        after the current epoch, and keeps the result.
        """
        watch = {"checkpoint": checkpoint, "every": checkpoint_every, "resume": resume}
        held = None if dev is None else _trees(dev, "dev")
        if is_iterator(X):
            from spom.estimators.parser.streaming import fit_stream

            fit_stream(self, as_stream(X), held, relations, watch)
            return self
        bank = _trees(X, "X")
        if self.labels and held is not None:
            check_dev(np.array(held.relation_names), np.array(bank.relation_names))
        projective, why = chosen_projective(self.projective, bank)
        run = self._run(projective, len(bank), lambda: self._contents(bank, held), **watch)
        with run.trainer.running():
            self.__dict__.update(self._learnt(run, bank, held), trees_=why)
        return self

    def _contents(self, bank: Treebank, dev: Treebank | None) -> dict[str, Any]:
        """Return the part of a checkpoint's fingerprint that describes the sentences."""
        return {
            "data": {"sentences": len(bank), "words": bank.n_words, "digest": digest(conllu_text(bank))},
            "labels": list(bank.relation_names) if self.labels else None,
            "dev": None if dev is None else digest(conllu_text(dev)),
        }

    def _learnt(self, run: Stages, bank: Treebank, dev: Treebank | None, blank: bool = False) -> dict[str, Any]:
        """Learn, and return the attributes of a fitted parser; with `blank`, those before training."""
        epochs, label_epochs = (0, 0) if blank else (self.epochs, self.label_epochs)
        templates = ArcTemplates(self._names(), self.table_bits, self.min_count)
        labels = ArcTemplates(LABELS, LABEL_BITS, self.min_count)
        sets = [templates, *([labels] if self.labels else []), *self._guided(run, templates)]
        share(sets, PART_COLUMNS if self._deep(run) else ())
        codes = templates.fit(bank)
        gold = with_roots(bank.heads, codes)
        held: Held | None = None if dev is None else (dev, templates.transform(dev), None)
        pruning: Pruning | None = None
        templates, selection = self._selected(run, templates, codes, gold, blank)
        if self.prune is not None and not blank:
            how = (epochs + 1) // 2, not (self.second_stage or self._deep(run))
            templates, pruning = select_templates(run, templates, codes, gold, self.prune, how)
        first = run.solver(templates, codes, gold)
        arcs = first.model() if blank else run.arcs(first, epochs, "arcs", held)
        if self.solver == "batch" and not run.trainer.over:
            arcs = run.optimum(arcs, codes, gold, self.tol)
        # Free its memory for later stages.
        del first
        second, label_model = None, None
        if not run.trainer.over:
            second = self._second(run, arcs, codes, gold, held, epochs)
        relations = bank.relation_names if self.labels else ()
        if self.labels:
            labels.vocabularies = {name: templates.vocabularies[name] for name in templates.columns}
            learner = LabelLearner(labels, relations, run.settings["seed"], copies=False)
            learner.feed(codes, gold, gold_relations(bank, relations, codes))
            label_model = learner.model() if blank else run.relations(learner, label_epochs)
        if pruning is not None and self.prune == "auto":
            arcs, label_model, pruning = self._cut(run, (arcs, label_model, pruning), labels, bank)
        under = run.penalty if self.solver == "batch" else run.settings["penalty"]
        bounded = self.loss == "log" and under is not None and not blank
        gap = tree_gap(arcs, codes, gold, under, run.settings["projective"]).gap if bounded else np.nan
        # The batch solver has the best upper bound that it found, which need not be the last.
        gap = min([gap, *(entry["gap"] for entry in run.trainer.history[-1:] if "gap" in entry)])
        found = {"arcs_": arcs, "second_": second, "labels_": label_model, "relations_": relations}
        found |= {"pruning_": pruning, "selection_": selection, "penalty_": run.penalty, "gap_": gap}
        found |= {"converged_": run.trainer.stopped == "converged", "history_": run.trainer.history}
        return {**found, "projective_": run.settings["projective"], "_learners": None}

    def _cut(
        self, run: Stages, found: tuple[ArcModel, LabelModel | None, Pruning], labels: ArcTemplates, bank: Treebank
    ) -> tuple[ArcModel, LabelModel | None, Pruning]:
        """Return the same models without the weights that pruning drops."""
        arcs, relations, pruning = found
        arcs = replace(arcs, stored=largest_share(arcs.weights, pruning.share))
        if relations is None:
            return arcs, None, pruning
        share, figures = relation_share(run, labels, relations.names, bank, self.label_epochs)
        why = "; ".join([pruning.why, *figures])
        return arcs, replace(relations, stored=largest_share(relations.weights, share)), replace(pruning, why=why)

    def _second(self, run: Stages, arcs: ArcModel, codes: ArcCodes, gold: Ints, held: Held | None, epochs: int) -> Any:
        """Return the model of second order or of a second stage, or None; without epochs, the model before training."""
        templates, stage = arcs.templates, "second order"
        solver: ArcSolver | None = None
        seen: Any = None
        if self._deep(run):
            solver, seen = run.second_order(arcs, codes, gold), arcs
        for guided in self._guided(run, templates):
            guided.also, guided.vocabularies = templates.columns, templates.vocabularies
            guides = crossed_guides(run, templates, codes, gold, self.folds, (epochs + 1) // 2)
            seen = None if held is None else arcs.parse(held[1], run.settings["projective"])[0]
            solver, stage = run.solver(guided, codes, gold, guides=guides, limits=arcs.limits), "second stage"
        if solver is None or not epochs:
            return None if solver is None else solver.model()
        return run.arcs(solver, epochs, stage, None if held is None else (held[0], held[1], seen))

    def _selected(
        self, run: Stages, templates: ArcTemplates, codes: ArcCodes, gold: Ints, blank: bool
    ) -> tuple[ArcTemplates, TemplateSelection | None]:
        """Return the templates that the penalty keeps; they are learnt only under its part on single weights."""
        settings, seed = run.settings, run.settings["seed"]
        if run.update != "select" or blank:
            return templates, None
        number = seed if isinstance(seed, (int, np.integer)) else 0
        while True:
            found = select_arcs(templates, codes, gold, run.penalty, projective=settings["projective"], seed=number)
            if not found.evidence.any():
                # No arc is ever in doubt, so there is nothing to choose by.
                return templates, None
            if found.kept.size:
                break
            if not isinstance(self.penalty, str):
                raise ValueError(f"{run.penalty!r} leaves no template: give a smaller strength")
            # This strength was not chosen by the user: lower it.
            run.penalty = with_strength(run.penalty, 0.5 * run.penalty.strength)
            settings["penalty"] = after_selection(run.penalty, len(templates.blocks))
        return templates.keep(found.kept), found

    def partial_fit(self, X: Treebank, y: Any = None, relations: Iterable[str] | None = None) -> Self:
        """Run one more pass, over these sentences. Words and templates are those of the first call.

        `relations` announces, in the first call, all relations that will come; an unannounced one is an error.
        """
        bank = _trees(X, "X")
        if hasattr(self, "arcs_"):
            run = self._run(self.projective_, None)
        else:
            projective, why = chosen_projective(self.projective, bank)
            run = self._run(projective, len(bank))
            self._begin(run, bank, relations)
            self.trees_ = why
        templates = self.arcs_.templates
        codes = templates.transform(bank)
        gold = with_roots(bank.heads, codes)
        # This comes before any training: an unknown relation must leave the parser unchanged.
        wanted = gold_relations(bank, self.relations_, codes) if self.labels else None
        if self._learners is None:
            self._learners = self._continued(run, codes, gold)
        first, second, labels = self._learners
        with run.trainer.running():
            if second is not None:
                # These sentences are new, so the first stage's trees are as good as on any others.
                now = first.model()
                if self.order_ == 2:
                    second.feed(codes, gold, left_heads(now, codes))
                else:
                    second.feed(codes, gold, now.parse(codes, self.projective_)[0])
                self.second_ = run.arcs(second, 1, "second order" if self.order_ == 2 else "second stage")
            first.feed(codes, gold)
            self.arcs_ = run.arcs(first, 1)
            if labels is not None:
                self.labels_ = run.relations(labels.feed(codes, gold, wanted if wanted is not None else gold), 1)
        self.history_ = [*self.history_, *run.trainer.history]
        return self

    def _begin(self, run: Stages, bank: Treebank, relations: Iterable[str] | None) -> None:
        """Set the attributes of a parser before training."""
        if self.solver == "batch":
            raise Unsupported("solver='batch' needs all sentences at once: use fit")
        if self.prune is not None or run.update == "select":
            raise Unsupported(f"{WHOLE} need all sentences at once: use fit, or leave them out")
        found = self._learnt(run, bank, None, blank=True)
        if found["labels_"] is not None:
            names = tuple(dict.fromkeys([*(relations or ()), *bank.relation_names]))
            found["relations_"] = names
            found["labels_"] = LabelLearner(found["labels_"].templates, names, self.random_state).model()
        self.__dict__.update(found)

    def _continued(self, run: Stages, codes: ArcCodes, gold: Ints) -> tuple[Any, ...]:
        """Return learners that start at the mean weights of the model."""
        found: list[Any] = []
        for model in (self.arcs_, self.second_):
            solver: Any = None
            if isinstance(model, SecondOrderModel):
                solver = run.second_order(self.arcs_, codes, gold)
            elif model is not None:
                guides = np.zeros_like(gold) if model is self.second_ else None
                solver = run.solver(model.templates, codes, gold, guides=guides, limits=model.limits)
            if model is not None:
                solver.weights[:] = model.weights
            found.append(solver)
        labels = None
        if self.labels_ is not None:
            labels = LabelLearner(self.labels_.templates, self.relations_, self.random_state, copies=False)
            labels.weights[:] = self.labels_.weights
            if self.labels_.root >= 0:
                labels.seen[0, self.labels_.root] = True
        return (*found, labels)

    # --- using it ----------------------------------------------------------------------------------

    def predict(self, X: Any) -> Treebank:
        """Return the same sentences with the best trees; everything else is unchanged.

        X is a `Treebank`, or has a list per sentence of (word, tag) pairs, or of dicts with the names of columns.
        """
        check_is_fitted(self)
        bank = as_treebank(X, tuple(self.arcs_.templates.columns))
        codes = self.arcs_.templates.transform(bank)
        jobs = int(effective_n_jobs(self.n_jobs))
        heads, words = self._heads(codes, jobs)[0], words_of(codes)
        if self.labels_ is None:
            return bank.with_trees(heads[words])
        found = self.labels_.find(codes, heads, jobs)
        return bank.with_trees(heads[words], found[words].astype(np.int32), self.relations_)

    def _heads(self, codes: ArcCodes, n_jobs: int = 1) -> tuple[Ints, Ints | None]:
        """Return (the best trees, those of the first stage if a second one uses them), laid out as the codes are."""
        if isinstance(self.second_, SecondOrderModel):
            return self.second_.parse(codes, self.projective_, self.arcs_, n_jobs)[0], None
        heads, _ = self.arcs_.parse(codes, self.projective_, None, n_jobs)
        if self.second_ is None:
            return heads, None
        return self.second_.parse(codes, self.projective_, heads, n_jobs)[0], heads

    def predict_blocks(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        """Return an iterator of predictions block by block, for a stream such as from `iter_conllu`."""
        return (self.predict(block) for block in blocks)

    def predict_marginals(self, X: Treebank) -> list[Floats]:
        """P(head -> modifier) of each sentence as an (n + 1, n + 1) matrix, the root first, over trees with one root.

        The probability of a tree is proportional to exp(score). Arcs that the filter drops have probability 0. With
        `order=2` the probabilities are those of the parser of order 1, which filters the arcs.
        """
        check_is_fitted(self)
        codes = self.arcs_.templates.transform(X)
        guides = None
        model = self.arcs_
        if isinstance(self.second_, ArcModel):
            model, (guides, _) = self.second_, self.arcs_.parse(codes, self.projective_)
        found = []
        for s in range(len(X)):
            scores = model.scores(codes, s, guides)
            out = np.zeros_like(scores)
            if scores.shape[0] > 1:
                _ = (inside_outside if self.projective_ else matrix_tree)(scores, True, out)
            found.append(out)
        return found

    def explain(self, X: Any) -> list[list[Explanation]]:
        """Explain why each word has its head and not the runner-up: what each template contributes to the lead.

        With `order=2` these are the templates of arcs; siblings and grandparents, which decide too, are not shown.
        """
        check_is_fitted(self)
        bank = as_treebank(X, tuple(self.arcs_.templates.columns))
        codes = self.arcs_.templates.transform(bank)
        heads, guides = self._heads(codes)
        model = self.second_.arcs if isinstance(self.second_, SecondOrderModel) else self.second_ or self.arcs_
        parts, heads, at = template_scores(model, codes, guides), heads[words_of(codes)], bank.offsets
        found = []
        for s in range(len(bank)):
            words = [row[1] for row in bank[s]]
            found.append(explain_heads(model.templates.blocks, parts[s], heads[at[s] : at[s + 1]], words))
        return found

    def score(self, X: Treebank, y: Any = None) -> float:
        """Return the LAS, or the UAS if no relations were learnt; punctuation counts. `evaluate` returns both."""
        found = self.evaluate(X)
        return found.uas if self.labels_ is None else found.las

    def evaluate(self, X: Treebank, punctuation: bool = True) -> Attachment:
        """Return UAS and LAS against the trees of a treebank; see `spom.metrics.attachment`."""
        return attachment(_trees(X, "X"), self.predict(X), punctuation)

    @property
    def settings_(self) -> str:
        """The settings used for training, in one line."""
        given = self.templates if isinstance(self.templates, str) else "as given"
        under = "no penalty" if self.penalty_ is None else f"penalty {self.penalty_!r}"
        return f"templates {given} ({len(self.blocks_)} templates); {under}; {self.trees_}; order {self.order_}"

    @property
    def order_(self) -> int:
        """2 if siblings and grandparents count, else 1."""
        return 2 if isinstance(self.second_, SecondOrderModel) else 1

    @property
    def blocks_(self) -> list[str]:
        """The names of the templates of the model."""
        return self.arcs_.templates.blocks

    @property
    def block_weights_(self) -> Floats:
        """beta of each template, summing to one; the norms' shares if they were learnt without their penalty."""
        count = len(ArcTemplates(self._names()).blocks)
        update = chosen_update(self.update, self.penalty_, self.loss, count)
        under = self.solver == "batch" or update == "forward-backward"
        return block_weights(self.arcs_.block_norms(), self.penalty_ if under else None)

    @property
    def selected_(self) -> Ints:
        """The indices of the non-zero templates."""
        return np.flatnonzero(self.arcs_.block_norms())

    # --- parts -------------------------------------------------------------------------------------

    def _auto_penalty(self) -> str:
        # "auto" is no penalty: a strength that is set belongs to a penalty of templates.
        return "group-lasso"

    def _names(self) -> Any:
        return self.templates if isinstance(self.templates, str) else list(self.templates)

    def _deep(self, run: Stages) -> bool:
        """Return whether trees are of second order."""
        return self.order == 2 and bool(run.settings["projective"])

    def _guided(self, run: Stages, templates: ArcTemplates) -> list[ArcTemplates]:
        """Return the templates of the second stage, if there is one."""
        if not self.second_stage or self._deep(run):
            return []
        return [ArcTemplates([*templates.blocks, *guided_templates()], self.table_bits, self.min_count)]

    def _run(
        self, projective: bool, sentences: int | None, contents: Callable[[], dict[str, Any]] = dict, **watch: Any
    ) -> Stages:
        """Return a run over this many sentences, or, for None, one that continues with its penalty."""
        if self.epochs < 1 or self.label_epochs < 1:
            raise ValueError(f"epochs and label_epochs must be >= 1; they are {self.epochs}, {self.label_epochs}")
        trainer = Trainer(self, contents, patience=self.patience, **watch)
        seed = self.random_state
        if not isinstance(seed, np.random.Generator):
            seed = trainer.seed(self._seed)
        penalty = self.penalty_ if sentences is None else chosen_penalty(self.penalty, sentences)
        count = len(ArcTemplates(self._names()).blocks)
        update = chosen_update(self.update, penalty, self.loss, count)
        if isinstance(self.prune, dict) and update == "select":
            raise Unsupported("a false discovery rate chooses among all templates: set penalty=None, or prune=None")
        # Templates selected by a penalty are learnt without its part on blocks.
        learnt_with = after_selection(penalty, count) if update == "select" else penalty
        if self.solver != "online":
            check_batch(self, penalty)
            # The batch solver starts at any online solution: nothing is selected before.
            update = "forward-backward" if update == "select" else update
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2; it is {self.order!r}")
        if self.order == 2 and (self.loss == "log" or learnt_with is not None):
            what = "a penalty but for one of templates alone, by update='select'"
            raise Unsupported(f"order=2 does not go with loss='log', or with {what}")
        settings = {"loss": self.loss, "penalty": learnt_with, "step": self.step, "cost": self.cost}
        settings |= {"projective": projective, "seed": seed}
        return Stages(settings, trainer, int(effective_n_jobs(self.n_jobs)), penalty, update)

    def _seed(self) -> int:
        """Return the seed of a run: `random_state` itself if it is a number."""
        given = self.random_state
        return int(given) if isinstance(given, (int, np.integer)) else int(check_random_state(given).randint(2**31))


def _trees(X: Any, name: str) -> Treebank:
    if not isinstance(X, Treebank):
        raise TypeError(f"{name} must be a Treebank, such as read_conllu gives, not {type(X).__name__}")
    if len(X) == 0:
        raise DataError(f"{name} has no sentences", X.columns.source or None)
    X.check_trees()
    return X
