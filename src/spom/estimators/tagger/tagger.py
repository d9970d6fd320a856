"""SequenceTagger: label sequences learnt online, with a selection of templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Arrays, Floats, Ints, check_dev, is_sparse
from spom.core.callbacks import TakesCallbacks
from spom.core.container import check_shape, take
from spom.core.registry import TakesPenalty, keep, register
from spom.core.state import State
from spom.core.warning import warn
from spom.errors import DataError, Unsupported
from spom.estimators.tagger import defaults
from spom.estimators.tagger.defaults import MANY, Allowed, candidates_for, metric
from spom.estimators.tagger.inputs import (
    Features,
    Names,
    TaggerParts,
    Task,
    Weights,
    as_columns,
    check_labels_fit,
    label_codes,
    label_names,
    make_features,
    recode,
    split_labels,
)
from spom.estimators.tagger.kernels import check_options_of_kernels, fit_with_kernels
from spom.estimators.tagger.model import TaggerModel
from spom.estimators.tagger.optimum import (
    Certifying,
    FieldLearner,
    TaggerPath,
    batch_solver,
    check_options_of_batch,
    gap_of,
    solve_path,
)
from spom.estimators.tagger.pruning import (
    HeldOutPruning,
    check_prune,
    chosen_pruning,
    share_of,
    without_small,
)
from spom.estimators.training import (
    Learner,
    Trainer,
    all_or_nothing,
    described,
    digest,
    kept_epoch,
    last_entry,
    shares,
)
from spom.estimators.training.goal import Goal
from spom.estimators.training.streams import as_stream, is_iterator
from spom.penalties.base import block_weights
from spom.solvers.steps import InverseSqrt, InverseSqrtEpoch, LinearDecay
from spom.solvers.structured.chains.adaptive_engine import LEARNT, AdaptiveEngine
from spom.solvers.structured.chains.data import as_blocks, as_tokens, entries, padded
from spom.solvers.structured.chains.predict import compacted, largest
from spom.solvers.structured.chains.solver import OnlineChain, forbidden_scores, penalty_value, summarised
from spom.solvers.structured.chains.sparse.engine import Candidates, PairEngine
from spom.solvers.structured.structures import block_norms

# The attributes that `fit` sets besides arrays.
_FITTED = ("blocks_", "converged_", "n_epochs_", "penalty_")
# The attributes for settings that may be chosen by the data, and their values in older files.
_CHOSEN = {"templates_": "as given", "loss_": "log", "cost_": None, "epochs_": 0, "constraints_": None}


@register("estimator", "sequence-tagger", examples=lambda: [SequenceTagger()], cost="O(features + labels^2) per token")
class SequenceTagger(TakesPenalty, TakesCallbacks, TaggerModel):
    r"""argmax over y of sum_t <w_{y_t}, x_t> + sum_t c_{y_(t-1) y_t}: a label for each token of a sentence.

    The weights minimise Omega(w) + (1/N) sum_i L(w; x_i, y_i), sentence by sentence. With the defaults that is a
    conditional random field with a margin under an l1 penalty, by dual averaging with AdaGrad's rates: most weights are
    exactly zero, and features without a weight are dropped from the model. Settings of `"auto"` follow from the data by
    rules (`spom.estimators.tagger.defaults`), are stored with a trailing underscore, and are summarised by `settings_`;
    the guide's page on tagging describes how each rule was chosen.

    Parameters
    ----------
    templates : the name of a ready set (`"chunking"`, `"pos"`, `"entities"`, `"tags"`), a `Templates`, a list of
        templates, the path of a file (CRF++'s format too), or `"auto"`: by the labels (phrases or not), the columns
        and whether words have capital letters. For vectors, a `Blocks` that tells which columns belong together.
    kernels : a list of kernels on the vectors of tokens (`spom.kernels`). X is then one matrix per sentence or, with
        templates too, a pair (sentences, matrices). Blocks are the kernels, then the templates; the
        penalty must be one of blocks.
    transitions : the block of label pairs, first and last labels is `"fixed"` (always on), `"learnt"` (penalised like
        the other blocks), or None: labels do not depend on each other.
    loss : `"log"`, `"hinge"`, `"perceptron"`, `"softmax-margin"`; `"auto"` is softmax-margin, or the log loss if the
        penalty is one of templates, or the hinge loss with kernels.
    penalty : of single weights (`L1`, `ElasticNet`, `SquaredL2`), or of templates (`SparseMKL`, `GroupLasso`, `LqMKL`,
        `ElasticNetMKL`), as an object, or by name with a strength from the number of sentences. `"auto"` is
        `L1(.4 / N)` for phrases, `L1(.4 / (N + 200))` for other labels (`.4 / (N + 1000)` at a margin of 1); None is no
        penalty. Losses are means over the N sentences.
    solver : `"online"`; `"batch"` continues from its result to the optimum of the log loss; with kernels
        `"frank-wolfe"` does. `"auto"` is online.
    tol : `"batch"` stops when the duality gap is at most tol times the objective (None: 1e-3). Online, under the log
        loss, None means no certificate during training. With a number, `history_` has the gap of each epoch, at the
        cost of one more pass, and training stops in the same way.
    epochs : passes over the sentences; `"auto"` is 12 for phrases and 6 for other labels, and up to 20 for few
        sentences (see `spom.estimators.tagger.defaults`).
    cost : the margin: the cost of a wrong token; `"auto"` is 1, but 1 + 3600 / (N + 400) for labels that are no phrases
        under the chosen penalty and softmax-margin in `fit`.
    update, step, average, shuffle : see `spom.solvers.structured.chains.OnlineChain`.
    prune : choose templates first and learn with those: `"auto"` (templates and small weights are dropped if held-out
        sentences show that a smaller model is good enough, see `spom.estimators.tagger.pruning`), a
        number of templates, a strength (a float), or `{"false_discovery_rate": 0.1}`: those that stand out against
        knockoffs, with at most that share expected to be noise (`solvers.structured.chains.knockoffs`).
        `pruning_` tells which templates were dropped, and why.
    max_weights : the maximum number of feature weights: the largest are kept and learnt again, under a penalty of
        single weights by dual averaging. None: as many as the penalty gives.
    constraints : `"BIO"`, `"IOB1"`, `"BIOES"`, `"BILOU"`, `Constraints`, None (any label may follow any other), or
        `"auto"`: the scheme of the labels, if any. Gold labels that break it are reported and not changed.
    patience : with `dev=` in `fit`, stop after that many epochs without a better score on it; None runs all epochs.
    scoring : the measure of `score` and `dev`: `"f1"` of phrases, `"accuracy"` of tokens, or `"auto"`: F1 for
        labels of a scheme such as BIO.
    random_state, verbose, callbacks : as in other estimators; see `spom.core.callbacks`.
    memory : the limit for Gram matrices of kernels; see `MKLClassifier`.

    Attributes
    ----------
    classes_ : the labels. weights_, chain_ : the weights of the remaining features, padded; those of the chain.
        With more than 100 labels `weights_` is a CSR matrix: there are weights only for features and labels that were
        seen together, or that a first pass confuses (`spom.estimators.tagger.defaults`).
    settings_ : the chosen settings, in one line. templates_, loss_, cost_, penalty_, epochs_, constraints_ : its parts.
    blocks_ : the names of the templates. block_weights_ : their shares of the norm. selected_ : the non-zero ones.
    pruning_ : the result of `prune`, which prints as a table; None without it.
    gap_ : an upper bound of the distance of the objective to the optimum, under the log loss; NaN if the chain has no
        penalty (`transitions="fixed"` and a penalty without a squared part) or a part of the penalty has no known dual.
    history_ : one dict per epoch. converged_ : whether early stopping ended the run.

    Examples
    --------
    >>> from spom import SequenceTagger
    >>> X = [[("the", "DT"), ("cat", "NN"), ("sleeps", "VBZ")], [("dogs", "NNS"), ("bark", "VBP")]] * 10
    >>> y = [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]] * 10
    >>> tagger = SequenceTagger(templates="chunking", random_state=0).fit(X, y)
    >>> tagger.predict([[("the", "DT"), ("dogs", "NNS"), ("bark", "VBP")]])
    [['B-NP', 'I-NP', 'B-VP']]
    """

    def __init__(
        self,
        templates: Any = "auto",
        kernels: Any = None,
        transitions: str | None = "fixed",
        loss: str = "auto",
        penalty: Any = "auto",
        solver: str = "auto",
        epochs: int | str = "auto",
        *,
        update: str = "auto",
        step: Any = "auto",
        average: bool | str = "auto",
        cost: float | str = "auto",
        prune: Any = None,
        max_weights: int | None = None,
        constraints: Any = "auto",
        shuffle: bool = True,
        patience: int | None = 3,
        scoring: str = "auto",
        random_state: Any = None,
        verbose: int = 1,
        callbacks: Any = None,
        memory: Any = "2GB",
        tol: float | None = None,
    ) -> None:
        keep(self, locals())

    _allowed: Allowed

    # --- learning ----------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        dev: Any = None,
        classes: ArrayLike | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | float | str = "60s",
        resume: bool = False,
    ) -> Self:
        """Learn from sentences.

        X is `Columns` (y may be omitted: the last column; or name a column), or a list of sentences, whose tokens are
        words, tuples of fields, feature dicts, lists of feature strings, or rows of a matrix (dense or CSR); or `Rows`.
        y has a list of labels for each sentence. None is an unknown label: the sentence is then learnt from all
        sequences that agree with the known labels. `sample_weight` has a number for each sentence, or a list of numbers
        for its tokens (`spom.estimators.tagger.weights` defines their meaning). `dev` is (X, y),
        or `Columns`: the epoch with the best score on it is kept. Without y, X may also be a stream: an iterator
        of (sentence, labels), of blocks of them or of `Columns`, or a `spom.scale.Stream`; features are then hashed
        (into 2**20 slots, unless the templates set another number), and `penalty="auto"` is no penalty.
        `checkpoint` is a file for the state of the run, written every N epochs, every N seconds ("60s"), or only when
        the run is stopped ("stop"); with `resume` the run continues from there, to the same bits.
        """
        self._check()
        watch: dict[str, Any] = {"checkpoint": checkpoint, "every": checkpoint_every, "resume": resume}
        watch["patience"] = self.patience
        with all_or_nothing(self):
            if y is None and is_iterator(X):
                from spom.estimators.tagger.streaming import fit_stream

                fit_stream(self, as_stream(X), classes, dev, watch)
                return self
            if self.kernels is not None:
                fit_with_kernels(self, (X, y, sample_weight), classes, dev, watch)
                return self
            task = self._first_task(*split_labels(X, y), classes).weighted(sample_weight)
            whole = task
            trainer = Trainer(self, lambda: self._contents(whole, dev), **watch)
            with trainer.running():
                weights, task = self._learn(task, trainer, dev)
            self.gap_ = gap_of(self, task, weights) if self.loss_ == "log" else np.nan
            self._keep(weights, trainer, task, compact=True)
            self._going = None
        return self

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: ArrayLike | None = None
    ) -> Self:
        """Run one more pass, over these sentences; `classes` announces labels, in the first call or in a later one.

        The features are those of the first call (after `fit`, those with a weight). With templates that hash,
        `Templates(..., table=2**20)`, every feature has a slot from the start.
        """
        self._check()
        if self.kernels is not None:
            raise Unsupported("kernels= needs all sentences at once: use fit")
        if self.prune is not None or self.solver == "batch":
            what = "solver='batch'" if self.prune is None else "prune="
            raise Unsupported(f"{what} needs all sentences at once: use fit, or set prune=None and solver='online'")
        with all_or_nothing(self):
            X, y = split_labels(X, y)
            first = not hasattr(self, "classes_")
            before = None if first else self.classes_
            if first:
                self.pruning_ = None
                task = self._first_task(X, y, classes, more=True)
            else:
                rows = self._features.transform(X)
                codes, labels = self._labels(y, rows.offsets, classes, before)
                if rows.n_tokens == 0:
                    return self
                task = self._task(self._features, rows, codes, labels)
            solver = self._next_pass(task.weighted(sample_weight), before)
            trainer = Trainer(self)
            if not first:
                trainer.history = list(self.history_)
            with trainer.running():
                learner = ChainLearner(lambda start: solver, 1)
                found = trainer.run(learner)
            self._keep(learner.weights_of(found.model), trainer, task, compact=False)
            self._going = solver
        return self

    # --- parts of it -------------------------------------------------------------------------------------

    def _auto_penalty(self) -> str:
        return "l1" if self.kernels is None else "sparse-mkl"

    def _check(self) -> None:
        if self.kernels is not None:
            check_options_of_kernels(self)
        elif self.solver not in ("auto", "online", "batch"):
            raise Unsupported(f"unknown solver {self.solver!r} for taggers; available: online, batch")
        if self.tol is not None and not (isinstance(self.tol, (int, float, np.number)) and self.tol >= 0.0):
            raise ValueError(f"tol must be a number >= 0 or None; it is {self.tol!r}")
        if self.solver == "batch":
            check_options_of_batch(self)
        metric(self.scoring, [])
        check_prune(self.prune)
        if self.max_weights is not None and (
            not isinstance(self.max_weights, (int, np.integer)) or self.max_weights < 1
        ):
            raise ValueError(f"max_weights must be a positive integer or None; it is {self.max_weights!r}")

    def _labels(
        self, y: Any, offsets: Ints, classes: ArrayLike | None, before: Names | None = None
    ) -> tuple[Ints, Names]:
        """Return (label numbers, all classes): known classes first, in their order, then new ones."""
        codes, labels = label_codes(y, offsets, unknown=True)
        if classes is None and before is None:
            return codes, labels
        known = [] if before is None else before.tolist()
        announced = [] if classes is None else np.unique(np.asarray(classes)).tolist()
        every = np.array([*known, *(label for label in announced if label not in set(known))])
        return recode(codes, labels, every, offsets), every

    def _all_auto(self, loss: str) -> bool:
        """Return whether the penalty is chosen, and the loss is the one that goes with it."""
        return defaults.is_auto(self.penalty) and loss in ("auto", "softmax-margin")

    def _first_task(self, X: Any, y: Any, classes: ArrayLike | None, features: Any = None, more: bool = False) -> Task:
        """Encode sentences and labels, and choose the settings that depend on them; `more` sentences may follow."""
        X = as_columns(self.templates, X)
        templates, self.templates_ = defaults.chosen_templates(self.templates, X, label_names(y))
        found = make_features(templates if features is None else features, X)
        rows = found.fit(X)
        codes, labels = self._labels(y, rows.offsets, classes)
        if len(rows) == 0 or rows.n_tokens == 0:
            raise DataError("there are no tokens to learn from: X has no sentence with one")
        if labels.size == 1:
            warn(f"y has only one label, {str(labels[0])!r}: every token will get it")
        task = self._task(found, rows, codes, labels)
        self.blocks_ = tuple(found.blocks.names)
        phrases = metric("auto", labels.tolist()) == "f1"
        loss = "log" if self.solver == "batch" and defaults.is_auto(self.loss) else self.loss
        self.cost_ = defaults.chosen_cost(self.cost, not more and self._all_auto(loss), len(task.tokens), phrases)
        self.penalty_ = defaults.chosen_penalty(self.penalty, len(task.tokens), phrases, self.cost_)
        self.loss_ = defaults.chosen_loss(loss, self.penalty_)
        self.epochs_ = defaults.chosen_epochs(self.epochs, len(task.tokens), phrases)
        return task

    def _task(self, features: Features, rows: Any, codes: Ints, labels: Names) -> Task:
        self.classes_, blocks = labels, as_blocks(features.blocks)
        check_labels_fit(labels.size, blocks.total if labels.size <= MANY else 0)
        self._allowed = defaults.chosen_constraints(self.constraints, labels, codes, rows.offsets)
        self.constraints_ = self._allowed.scheme
        self._forbidden = forbidden_scores(self._allowed.constraints, labels.size)
        return Task(features, as_tokens(rows, blocks.total), codes, blocks)

    @property
    def settings_(self) -> str:
        """The settings used for training, in one line."""
        penalty = re.sub(r"strength=([\d.e+-]+)", lambda found: f"{float(found[1]):.2g}", repr(self.penalty_))
        loss = self.loss_ if self.cost_ == 1.0 else f"{self.loss_} with a margin of {self.cost_:.3g}"
        parts = [f"templates {self.templates_}", f"loss {loss}", f"penalty {penalty}", f"{self.epochs_} epochs"]
        parts.append(f"constraints {self.constraints_}" if self.constraints_ else "no constraints")
        if is_sparse(self.weights_):
            parts.append(f"{self.classes_.size} labels, weights for those that were seen with a feature")
        return "; ".join(parts)

    @property
    def block_weights_(self) -> Floats:
        """beta of each block, summing to one (zero if all are zero); shares of the norms for penalties of weights."""
        return block_weights(self.block_norms_, getattr(self, "penalty_", None))

    @property
    def selected_(self) -> Ints:
        """The templates with non-zero weights, as indices into `blocks_`."""
        return np.flatnonzero(self.block_norms_)

    @property
    def nonzeros_(self) -> int:
        """The number of non-zero weights of features."""
        return int(np.count_nonzero(entries(self.weights_, 0, self.weights_.shape[0])))

    def _solver(
        self,
        task: Task,
        epochs: int | None,
        seed: Any,
        start: State | None = None,
        candidates: Candidates | None = None,
    ) -> OnlineChain:
        """Return the solver for a task; `epochs` is None if it is unknown which pass is the last."""
        if candidates is None:
            check_labels_fit(self.classes_.size, task.blocks.total)
        solver = OnlineChain(
            task.tokens,
            task.y,
            self.classes_.size,
            blocks=task.blocks,
            loss=self.loss_,
            penalty=self.penalty_,
            update=self.update,
            step=defaults.chosen_step(self.step, task.tokens, self.penalty_, self.update),
            candidates=candidates,
            transitions=self.transitions,
            constraints=self._allowed.while_learning,
            cost=self.cost_,
            average=self.average,
            epochs=1 if epochs is None else epochs,
            shuffle=self.shuffle,
            random_state=seed,
            start=start,
            weight=task.weight,
        )
        if epochs is None and isinstance(solver.step, LinearDecay):
            # A step cannot fall to zero at an unknown end.
            solver.step = InverseSqrtEpoch(solver.step.eta0)
        return solver

    def _seed(self) -> int:
        """Return the seed of a run: `random_state` itself if it is a number."""
        given = self.random_state
        if isinstance(given, (int, np.integer)):
            return int(given)
        return int(check_random_state(given).randint(2**31))

    def _learn(self, task: Task, trainer: Trainer, dev: Any) -> tuple[Weights, Task]:
        """Choose templates (`prune`), learn, and keep only the largest weights (`max_weights`)."""
        self.pruning_ = chosen_pruning(self, task)
        if self.pruning_ is not None:
            task = task.only(task.blocks.ids(self.pruning_.selection.kept))
        given = self.random_state
        seed = given if isinstance(given, np.random.Generator) else trainer.seed(self._seed)
        many = candidates_for(self, task.tokens, task.y)
        batch = self.solver == "batch"
        learner = ChainLearner(
            lambda start: self._solver(task, self.epochs_, seed, start, candidates=many),
            self.epochs_,
            self._dev(dev, task),
            None if self.tol is None or batch else Certifying(lambda w: gap_of(self, task, w), self.tol),
        )
        found = trainer.run(learner)
        W, chain = first = learner.weights_of(found.model)
        if batch:
            field = FieldLearner(lambda start: batch_solver(self, task, start or first), Goal(self.tol))
            found = trainer.run(field, "batch")
            W, chain = found.model["W"], found.model["chain"]
        if self.pruning_ is not None:
            self.pruning_.refit_seconds = learner.solver.seconds
        most = np.inf if self.max_weights is None else self.max_weights
        if isinstance(self.pruning_, HeldOutPruning) and self.pruning_.chosen is not None:
            chosen = self.pruning_.chosen
            if not chosen.again:
                W = without_small(W, task.tokens, chosen.share)
            most = min(most, share_of(W, chosen.share)) if chosen.again else most
        if most == np.inf or np.count_nonzero(W) <= most:
            return (W, chain), task
        support = largest(W, int(most))
        used = np.flatnonzero(support.any(axis=1))
        fewer = task.only(used)

        def again(start: State | None) -> OnlineChain:
            solver = self._solver(fewer, self.epochs_, seed, start)
            if not isinstance(solver.engine, AdaptiveEngine):
                raise Unsupported("max_weights needs dual averaging of single weights: a penalty such as L1, or none")
            solver.engine.learn_only(support[used])
            return solver

        found = trainer.run(ChainLearner(again, self.epochs_, self._dev(dev, fewer)), "largest weights")
        return (found.model["W"], found.model["chain"]), fewer

    def _learning_forbidden(self) -> Floats:
        return forbidden_scores(self._allowed.while_learning, self.classes_.size)

    def path(
        self, X: Any, y: Any = None, *, strengths: ArrayLike | None = None, n_strengths: int = 10, ratio: float = 0.01
    ) -> TaggerPath:
        """Solve the random field for each strength of the penalty, strongest first, each with a warm start.

        By default there are `n_strengths`, falling from the smallest that gives zero weights to `ratio` of it. This
        does not fit the tagger; `tol` sets the accuracy of each solution.
        """
        self._check()
        tagger = clone(self)
        return solve_path(tagger, tagger._first_task(*split_labels(X, y), None), strengths, n_strengths, ratio)

    # --- as a model file ---------------------------------------------------------------------------------

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state and the arrays of a model file: features and non-zero weights."""
        check_is_fitted(self)
        features, W = self._features, self.weights_[:, : self.classes_.size]
        if self._going is not None:
            # After partial_fit all features are still there: only those with a weight are written.
            used, W = compacted(W)
            features = features.compact(used)
        about, arrays = TaggerParts(features, W, self.chain_, self._forbidden, self.classes_).packed()
        # Without its times, because the same seed must give the same bytes.
        pruned = None if self.pruning_ is None else re.sub(r" in [\d.]+ s\b", "", str(self.pruning_))
        state = {name: getattr(self, name) for name in (*_FITTED, *_CHOSEN)}
        state |= {"history": last_entry(self.history_), "pruned": pruned}
        return {**state, **about}, {**arrays, "block_norms": self.block_norms_}

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """Return the tagger of a model file."""
        model, parts = cls(**state["params"]), TaggerParts.of(state, arrays)
        norms = check_shape(take(arrays, "block_norms", "f"), (len(state["blocks_"]),), "block_norms")
        model.__dict__.update({name: state[name] for name in _FITTED})
        model.__dict__.update({name: state.get(name, before) for name, before in _CHOSEN.items()})
        if model.cost_ is None:
            model.cost_ = defaults.chosen_cost(model.cost, False, 0, phrases=False)
        model.__dict__.update(
            classes_=parts.classes,
            blocks_=tuple(state["blocks_"]),
            weights_=parts.weights,
            chain_=parts.chain,
            block_norms_=np.array(norms),
            history_=state["history"],
            pruning_=state["pruned"],
            _forbidden=parts.forbidden,
            _features=parts.features,
            _going=None,
        )
        return model

    def _training(self) -> dict[str, Any]:
        entry, W = kept_epoch(self.history_), self.weights_
        told = {key: float(value) for key, value in entry.items() if key in ("loss", "dev")}
        kept: dict[str, Any] = {key: value for key, value in told.items() if np.isfinite(value)}
        sizes = {"nonzeros": self.nonzeros_, "weights": W.shape[0] * self.classes_.size}
        return {**kept, **sizes, "blocks_kept": self.selected_.size}

    def __getstate__(self) -> dict[str, Any]:
        # The data for the next partial_fit are many times the size of the model.
        return {name: value for name, value in super().__getstate__().items() if name not in ("_going", "_ready")}

    # --- for the trainer ---------------------------------------------------------------------------------

    def _contents(self, task: Task, dev: Any) -> dict[str, Any]:
        """Return the part of a checkpoint's fingerprint that describes the sentences."""
        tokens = task.tokens
        sizes = {"sentences": len(tokens), "tokens": int(tokens.total), "features": int(task.blocks.total)}
        return {
            **({} if task.weight is None else {"weights": digest(task.weight)}),
            "data": {**sizes, "digest": digest(*tokens)},
            "targets": digest(task.y),
            "labels": described(self.classes_.tolist()),
            "templates": list(self.blocks_),
            "dev": task.digest_of(dev),
        }

    def _dev(self, dev: Any, task: Task) -> Any:
        if dev is None:
            return None
        tokens, gold = task.held_out(dev)
        check_dev(gold[1], self.classes_)
        return lambda weights: self._measure(tokens, gold, weights)

    def _next_pass(self, task: Task, before: Names | None) -> OnlineChain:
        """Return a solver for one more pass, which continues the last call."""
        going = getattr(self, "_going", None)
        given = self.random_state
        seed = given if isinstance(given, np.random.Generator) else self._seed()
        # The choice of the first call is kept: later calls add labels and pairs.
        many = Candidates() if before is not None and is_sparse(self.weights_) else None
        if before is None:
            many = candidates_for(self, task.tokens, task.y)
        solver = self._solver(task, None, seed, candidates=many)
        if before is None:
            return solver
        place, k = np.arange(before.size), self.classes_.size
        if going is not None:
            solver.engine.take(going.engine, place)
            solver.rounds, solver.random, solver.step = going.rounds, going.random, going.step
        else:
            W = self.weights_
            if many is None:
                W = np.zeros((task.blocks.total, padded(k)), dtype=np.float32)
                W[:, place] = self.weights_[:, : before.size]
            chain = np.zeros((k + 2, k))
            chain[np.append(place, [k, k + 1])[:, None], place] = self.chain_
            # Steps that fall are as small as after 400 epochs, or as many as there were, of 400 sentences. With the
            # first ones, ten more sentences cost up to .44 of F1 under penalties of templates (twelve taggings).
            if isinstance(solver.step, InverseSqrtEpoch):
                solver.step = InverseSqrtEpoch(solver.step.eta0 / LEARNT)
            elif isinstance(solver.step, InverseSqrt):
                solver.rounds = int(LEARNT**2) * self.n_epochs_
            solver.start_at(W, chain)
        return solver

    def _keep(self, weights: Weights, trainer: Trainer, task: Task, compact: bool) -> None:
        """Store the model; with `compact` only the features with a weight."""
        W, chain = weights
        where = [self.blocks_.index(name) for name in task.blocks.names]
        norms: Floats = np.zeros(len(self.blocks_))
        norms[where] = block_norms(W, task.blocks.starts)
        self.block_norms_, self._features = norms, task.features
        if compact:
            used, W = compacted(W)
            self._features = task.features.compact(used if task.ids is None else task.ids[used])
        if self.classes_.size > 1 and not entries(W, 0, W.shape[0]).any():
            todo = "" if defaults.is_auto(self.penalty) else ": lower its strength, or use penalty='auto'"
            warn(
                f"every weight is zero: the features do not predict the labels, or {self.penalty_!r} is too "
                f"strong{todo}"
            )
        self.weights_, self.chain_ = W, chain
        self.history_, self.converged_ = trainer.history, trainer.stopped == "converged"
        self.n_epochs_ = len(trainer.history)


# --- passes of a chain for the trainer -------------------------------------------------------------------------

NONE: Floats = np.zeros(0)


class ChainLearner(Learner):
    """Passes of an `OnlineChain`: the model is the weights of features (`W`) and of the chain (`chain`).

    `make` returns the solver, from the start or from a state; `dev` scores weights.
    """

    def __init__(
        self,
        make: Callable[[State | None], OnlineChain],
        epochs: int,
        dev: Callable[[Weights], float] | None = None,
        certifying: Certifying | None = None,
    ) -> None:
        self.make, self.epochs, self.dev, self.scores = make, epochs, dev, dev is not None
        self.rule = self.certifying = certifying
        self._made: OnlineChain | None = None
        self._weights: Weights | None = None

    @property
    def solver(self) -> OnlineChain:
        """The solver of this run."""
        if self._made is None:
            self._made = self.make(None)
        return self._made

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Yield a state for each pass, without theta, which would copy all weights."""
        if start is not None:
            self._made = self.make(start)
        for loss in self._losses(done):
            self._weights = None
            yield State(k=self.solver.done, theta=NONE, loss=loss)

    def _losses(self, done: int) -> Iterator[float]:
        """Run the passes after the first `done`, and yield the mean loss of each."""
        return (epoch.loss for epoch in self.solver.passes())

    def entry(self, state: State) -> dict[str, Any]:
        """Return the entry of an epoch; the objective is the mean loss of its rounds plus the penalty at its end."""
        solver = self.solver
        if self.scores or self.certifying is not None:
            self._weights = solver.weights()
        found = solver.engine.summary() if self._weights is None else summarised(*self._weights, solver.blocks.starts)
        entry = {
            "epoch": state.k,
            "objective": state.loss + penalty_value(solver.penalty, found, solver.transitions),
            "loss": state.loss,
            **shares(found.norms),
            "nonzeros": found.nonzeros,
            "per_second": state.k * solver.tokens.total / max(solver.seconds, 1e-9),
        }
        return entry if self.certifying is None else self.certifying.entry(self._weights, entry)

    def model(self, state: State) -> Arrays:
        """Return the current weights."""
        W, chain = self.solver.weights() if self._weights is None else self._weights
        return {"W": W.data if isinstance(self.solver.engine, PairEngine) else W, "chain": chain}

    def weights_of(self, model: Arrays) -> Weights:
        """Return the weights of the arrays that `model` returns."""
        engine, W = self.solver.engine, model["W"]
        return engine.matrix(W) if isinstance(engine, PairEngine) else W, model["chain"]

    def score(self, model: Arrays) -> float:
        """Return the score on development sentences."""
        assert self.dev is not None
        return self.dev(self.weights_of(model))

    def snapshot(self, state: State, copy: bool = True) -> State:
        """Return the tables of the solver, which determine the weights."""
        solver = self.solver
        internal: Arrays = {f"engine.{n}": a.copy() if copy else a for n, a in solver.engine.pack().items()}
        return State(
            k=solver.rounds,
            theta=NONE,
            loss=state.loss,
            seconds=solver.seconds,
            internal={**internal, "epoch": np.array(solver.done)},
            random=dict(solver.random.bit_generator.state),
        )
