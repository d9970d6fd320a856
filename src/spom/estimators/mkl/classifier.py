"""A classifier that learns the combination of its kernels."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Floats, Ints
from spom.core.registry import keep, register
from spom.core.warning import warn
from spom.errors import DataError, Unsupported
from spom.estimators.checking import (
    FLOATS,
    check_classes,
    check_data,
    check_labels,
    check_same_length,
    check_weights,
    class_weights,
    combined_weights,
    encode,
    merged,
    operator,
)
from spom.estimators.explanation import Explanation, explain_blocks
from spom.estimators.linear.choosing import FEW_ROWS
from spom.estimators.linear.judging import calibrated
from spom.estimators.mkl.base import KernelEstimator
from spom.estimators.mkl.candidates import Rows, free_widths
from spom.estimators.mkl.choosing import DEFAULT, MANY, at_cost, chosen_on_held_out
from spom.estimators.mkl.held_out import held_out_scores
from spom.estimators.mkl.model import KernelModel, named_blocks
from spom.estimators.mkl.pairs import MANY_CLASSES, chosen_machine, fitted_machine
from spom.estimators.mkl.pruning import Task, pruned
from spom.estimators.mkl.training import KernelFit, Making, Options, as_kernels, blocks_of, fit_kernels, grams_of, tell
from spom.estimators.training import Trainer, all_or_nothing, described, digest
from spom.kernels import Gaussian, Laplacian, Linear, Polynomial
from spom.kernels.gram import DenseGram
from spom.penalties.base import with_strength
from spom.solvers.mkl.problem import KernelProblem, chosen_penalty

# Passes over the rows, and those with more than 20 kernels, which take most of the time. On ten draws of digits among
# 50 or 290 kernels of noise (halves of the training rows), 40 passes had .00025 less accuracy than 60, and kept 6.3
# kernels (5.5 with 60).
PASSES, PASSES_OF_MANY = 60, 40
# The version of the default kernels, which is stored in a model file.
DEFAULT_KERNELS = 2


def _gives_probabilities(estimator: Any) -> bool:
    if estimator.loss != "log" and not estimator.probability and not hasattr(estimator, "calibration_"):
        how = "probability=True, fit(..., dev=...), calibrate(X, y) on held-out rows and loss='log' do"
        raise AttributeError(f"loss={estimator.loss!r} alone gives no probabilities; {how}")
    return True


@register(
    "estimator", "mkl-classifier", examples=lambda: [MKLClassifier()], cost="one Gram row a kernel and wrong example"
)
class MKLClassifier(ClassifierMixin, KernelEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""min over theta of Omega(theta) + (1/N) sum_i L(theta; x_i, y_i), with one block theta_m per kernel.

    The penalty decides how much of each kernel is used, and which kernels get weight zero: with `SparseMKL` this is the
    support vector machine whose kernel is the best sum of beta_m K_m. It handles any number of classes.

    Parameters
    ----------
    kernels : a list of kernels (`spom.kernels`), their registered names, names of scikit-learn's pairwise kernels,
        functions of two matrices, or `Nystroem(...)` features; None is ((<x, z> / s + 1) / 2)^p, where s is the mean
        squared norm of a row, for p = 1, 2 and 3, plus a Gaussian and, for dense data, a Laplacian kernel;
        `"precomputed"` means that X is a list of Gram matrices, one per kernel.
    loss : `"hinge"`, `"log"` (gives probabilities) or `"perceptron"`.
    penalty : a penalty of block norms: `SparseMKL`, `LqMKL`, `ElasticNetMKL`, `GroupLasso`, `SquaredL2` (a plain sum of
        the kernels), or any other with such a form. `"auto"` is `SparseMKL` with a strength from held-out rows; with at
        most 20 kernels they may also choose equal weights or a single kernel, with another width unless that was given
        (`mkl.pairs`). For the name of another penalty the strength is chosen on held-out rows (`mkl.choosing`); None is
        no penalty.
    solver : `"online"`, or `"frank-wolfe"`, which stops at a gap of `tol` times the objective; `"auto"` is online.
    update : of the online solver: `"dual-averaging"` (`solvers.mkl.dual_averaging`: exact zeros, kernels scaled to a
        mean diagonal of one) or `"forward-backward"` (`solvers.mkl.online`); `"auto"` is dual averaging for the hinge
        loss, and forward-backward for the others or if a step is given.
    step, epochs, output : of the online solver; `"auto"` needs no number (60 passes, 40 with more than 20 kernels).
        If penalty, solver, update, step and output are all `"auto"`, the loss is the hinge loss, no `dev` is given
        and whole Gram matrices fit into memory, the online solver finds only the weights of the kernels, and a
        machine for each pair of classes is learnt with them. Scores are then votes, one per pair that a class wins.
    memory : the limit for Gram matrices: they are kept if they fit, else rows are computed and cached, else kernels
        become explicit features. `memory_plan_` and the log, `spom.kernels`, tell what was chosen.
    precision : of the Gram matrices, `"single"` or `"double"`.
    prune : None; "auto": learn with the fewest of the heaviest kernels that do as well on held-out rows; or
        `{"false_discovery_rate": 0.1}`: learn only with the kernels that stand out against knockoffs; at most that
        share of them is expected to be noise (`solvers.mkl.knockoffs`).
    probability : with a loss that is not a likelihood, fit up to five more times on parts of the rows and calibrate
        scores on the others, for `predict_proba`. Without it, `dev=` in `fit` and `calibrate` do so without extra fits.
    patience : with `dev=` in `fit`, stop after that many passes without a better score on it; None runs all epochs.
    class_weight, random_state, n_jobs, verbose : as in scikit-learn; `n_jobs` threads build the Gram matrices.
    callbacks : objects with `on_epoch(info)` (True stops the run) and `on_end(info)`; see `spom.core.callbacks`.

    Attributes
    ----------
    classes_ : the distinct labels.
    penalty_ : the penalty with its strength.
    blocks_, block_weights_, selected_ : the kernels; beta, which sums to one; the kernels with non-zero weight.
    kernels_ : the selected kernels with the widths that the data chose; empty for Gram matrices.
    n_support_ : the number of training rows with weight; the model keeps only these.
    calibration_ : the softmax of this number times the scores is `predict_proba`, if the loss is not a likelihood.
    pruning_ : the result of `prune`, which prints as a table; None without it.
    history_, converged_, memory_plan_ : one dict per pass; whether the loss settled; the form of the matrices.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from spom import MKLClassifier
    >>> from spom.kernels import Gaussian, Linear
    >>> X, y = load_iris(return_X_y=True)
    >>> names = np.array(["setosa", "versicolor", "virginica"])[y]
    >>> model = MKLClassifier([Linear(normalize=True), Gaussian(1.0)], random_state=0).fit(X, names)
    >>> model.predict(X[[0, 75, 120]]).tolist()
    ['setosa', 'versicolor', 'virginica']
    """

    epochs: int | str
    _saved = (
        *("classes_", "penalty_", "n_features_in_", "feature_names_in_"),
        *("converged_", "memory_plan_", "n_support_", "solver_", "update_", "calibration_", "default_kernels_"),
    )

    def __init__(
        self,
        kernels: Any = None,
        loss: str = "hinge",
        penalty: Any = "auto",
        solver: str = "auto",
        *,
        update: str = "auto",
        step: Any = "auto",
        epochs: int | str = "auto",
        output: str = "auto",
        tol: float = 1e-2,
        memory: Any = "2GB",
        precision: str = "single",
        class_weight: Any = None,
        probability: bool = False,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
        prune: Any = None,
    ) -> None:
        keep(self, locals())

    # --- learning ----------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        dev: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | float | str = "60s",
        resume: bool = False,
    ) -> Self:
        """Learn from rows X (or, with `kernels="precomputed"`, a list of Gram matrices) with labels y.

        `dev` is a pair (X, y): the pass with the best score on it is kept. `checkpoint` is a file for the state of the
        run, written every so many passes, or seconds ("60s"), or only when the run is stopped ("stop"). With `resume`
        the run continues from there, to the same bits.
        """
        with all_or_nothing(self):
            if self.precision not in ("single", "double"):
                raise ValueError(f"precision must be 'single' or 'double'; it is {self.precision!r}")
            if dev is not None and (not isinstance(dev, (tuple, list)) or len(dev) != 2):
                raise DataError("dev must be a pair (X, y)")
            trainer = Trainer(
                self,
                lambda: self._contents(X, y, sample_weight, dev),
                patience=self.patience,
                checkpoint=checkpoint,
                every=checkpoint_every,
                resume=resume,
            )
            with trainer.running():
                fit = self._fit_grams if self._is_precomputed() else self._fit_rows
                fit(X, y, sample_weight, trainer, dev)
            self._calibrate(X, y, sample_weight, dev)
        return self

    def _calibrate(self, X: Any, y: Any, sample_weight: Any, dev: Any) -> None:
        """Set `calibration_` if there are held-out rows, or `probability` asks for them."""
        self.__dict__.pop("calibration_", None)
        if self.loss == "log":
            return
        if dev is not None:
            self.calibrate(*dev)
        elif self.probability:
            scores, index, weight = held_out_scores(self, X, y, sample_weight)
            self.calibration_ = calibrated(scores, index, weight)[0] if index.size else 1.0

    def calibrate(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Turn scores into probabilities: find the factor that minimises the log-loss of held-out rows X with labels y.

        The rows must not be those of `fit`, whose scores are too good.
        """
        check_is_fitted(self)
        if self.loss == "log":
            raise Unsupported("loss='log' gives probabilities by itself: there is nothing to calibrate")
        index = encode(check_labels(y), self.classes_)
        weight = np.ones(index.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.calibration_ = calibrated(self._scores(X), index, weight)[0]
        return self

    def _contents(self, X: Any, y: Any, sample_weight: Any, dev: Any) -> dict[str, Any]:
        """Return the data's part of the fingerprint of a checkpoint."""
        listed = list(X) if self._is_precomputed() else [X]
        return {
            "data": {"digest": digest(*(part if sparse.issparse(part) else np.asarray(part) for part in listed))},
            "targets": digest(np.asarray(y)),
            "weights": None if sample_weight is None else digest(np.asarray(sample_weight)),
            "labels": described(self.classes_.tolist()),
            "dev": None if dev is None else digest(*(p if sparse.issparse(p) else np.asarray(p) for p in dev)),
        }

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _fit_rows(self, X: Any, y: Any, sample_weight: ArrayLike | None, trainer: Trainer, dev: Any) -> None:
        X = check_data(self, X, reset=True, dtype=FLOATS)
        if (X.max(axis=0) != X.min(axis=0)).sum() == 0:
            warn("all rows of X are equal: every row will get the same label")
        given = as_kernels(self._given(4 if sparse.issparse(X) else 5))
        self.default_kernels_ = DEFAULT_KERNELS
        index, weight = self._labels(y, X, check_weights(sample_weight, X))
        if X.shape[0] <= FEW_ROWS:
            # Equal rows become one with a weight, so a weight is equivalent to repetition.
            X, index, weight = merged(X, index, weight)
        blocks = blocks_of(given, X, Making.of(self, self.classes_.size))
        self.blocks_ = list(given)
        self._keep(self._run(blocks, index, weight, X, trainer, dev))

    def _fit_grams(self, X: Any, y: Any, sample_weight: ArrayLike | None, trainer: Trainer, dev: Any) -> None:
        blocks = grams_of(list(X))
        if not blocks.grams:
            raise DataError("X must be a list of one or more Gram matrices, because kernels='precomputed'")
        sizes = [gram.n for gram in blocks.grams]
        if len(set(sizes)) > 1:
            raise DataError(f"the Gram matrices must have the same size; their sizes are {sizes}")
        like = np.empty((sizes[0], 0))
        index, weight = self._labels(y, like, check_weights(sample_weight, like))
        self.n_features_in_ = sizes[0]
        self.blocks_ = list(range(len(sizes)))
        self._keep(self._run(blocks, index, weight, None, trainer, dev))

    def _given(self, count: int, version: int = DEFAULT_KERNELS) -> Any:
        """Return the kernels, or the first `count` default ones, which differ in version 1."""
        if self.kernels is not None:
            return self.kernels
        if version == 1:
            quadratic, cubic = (Polynomial(degree, bias=1.0, normalize=True) for degree in (2, 3))
            return [Linear(normalize=True), quadratic, Gaussian(), cubic, Laplacian()][:count]
        first, second, third = (Polynomial(degree, bias=0.5, scale=None) for degree in (1, 2, 3))
        return [first, second, Gaussian(), third, Laplacian()][:count]

    def _labels(self, y: Any, X: Any, weight: Floats | None) -> tuple[Ints, Floats | None]:
        labels = check_labels(y)
        check_same_length(X, labels)
        self.classes_ = check_classes(labels if weight is None else labels[weight > 0])
        if weight is not None:
            labels = np.where((weight == 0) & ~np.isin(labels, self.classes_), self.classes_[0], labels)
        index = encode(labels, self.classes_)
        return index, combined_weights(weight, class_weights(self.class_weight, self.classes_, labels), index)

    def _run(self, blocks: Any, index: Ints, weight: Floats | None, X: Any, trainer: Trainer, dev: Any) -> KernelFit:
        """Learn from rows (or None)."""
        if weight is not None:
            weight = weight * (weight.size / weight.sum())
        options: dict[str, Any] = {"explicit": blocks.explicit, "weight": weight, "check": False}
        problem = KernelProblem.of(blocks.grams, index, self.classes_.size, **options)
        weight = np.ones(index.size) if weight is None else weight
        # The mean weight of a row is one for every unit of the given weights, as C has no unit.
        total = float(np.count_nonzero(weight))
        weight = weight * (total / weight.sum())
        task = Task(self, blocks, X, index, weight)
        blocks, self.pruning_ = pruned(self.prune, task, self._targets(problem.y, weight), self._seed(trainer))
        problem = replace(problem, grams=tuple(blocks.grams))
        if self._takes_pairs(blocks) and dev is None:
            return self._run_pairs(blocks, problem, X, weight, trainer)
        if isinstance(self.penalty, str):
            blocked = partial(blocks.part, X)
            alone = self.penalty == "auto" and not blocks.explicit
            chosen = chosen_on_held_out(self, blocked, problem.y, weight, self._seed(trainer), alone)
            self.penalty_ = chosen.penalty
            how = f"chosen on {chosen.held:,} held-out rows" if chosen.held else "a default"
            if chosen.only is not None:
                blocks = blocks.some(np.array([chosen.only]))
                problem = replace(problem, grams=tuple(blocks.grams))
                how += f", {self.blocks_[blocks.order[0]]!r} alone"
            tell(f"penalty {self.penalty_!r} ({how})", self.verbose, type(self).__name__)
        else:
            given = None if self.penalty is None else operator("penalty", self.penalty)
            self.penalty_ = chosen_penalty(given, problem.n_blocks, total)
        return fit_kernels(
            blocks,
            problem,
            X,
            trainer,
            self._options(blocks, trainer),
            dev=None if dev is None else lambda found: self._scored(found, dev),
            among=len(self.blocks_),
        )

    def _targets(self, index: Ints, weight: Floats) -> Floats:
        """Return a column per class: one where a row has it, minus the mean, times the weight of the row."""
        found = np.eye(self.classes_.size)[index]
        return (found - np.average(found, axis=0, weights=weight)) * weight[:, None]

    def _takes_pairs(self, blocks: Any) -> bool:
        """Tell whether all choices are automatic: then held-out rows weigh kernels, and classes are learnt in pairs."""
        given = (self.penalty, self.solver, self.update, self.step, self.output)
        plain = all(isinstance(value, str) and value == "auto" for value in given) and self.loss == "hinge"
        whole = not blocks.explicit and all(isinstance(gram, DenseGram) for gram in blocks.grams)
        return plain and whole and len(blocks.grams) <= MANY and self.classes_.size <= MANY_CLASSES

    def _run_pairs(self, blocks: Any, problem: KernelProblem, X: Any, weight: Floats, trainer: Trainer) -> KernelFit:
        """Learn the weights of the kernels with the penalty, then the machine chosen on held-out rows."""
        total = float(weight.sum())
        self.penalty_ = at_cost("auto", problem.n_blocks, total, DEFAULT)
        own, among = np.array(blocks.order), len(self.blocks_)
        found = fit_kernels(blocks, problem, X, trainer, self._options(blocks, trainer), among=among)
        sizes = np.asarray(problem.mean_squares())
        free = free_widths(blocks.kernels, [self.blocks_[m] for m in blocks.order])
        rows = Rows([gram.values for gram in blocks.grams], sizes, problem.y, weight, blocks.kernels, free)
        machine = chosen_machine(rows, found.block_weights[own], self._seed(trainer))
        self.penalty_ = with_strength(self.penalty_, float(f"{1.0 / (machine.cost * total):.3g}"))
        tell(f"penalty {self.penalty_!r}, {machine.told()}", self.verbose, type(self).__name__)
        found.model, norms = fitted_machine(rows, machine, X)
        found.model.kept = own[found.model.kept]
        weights = machine.weights.kernels
        found.block_weights, found.block_norms = np.zeros(among), np.zeros(among)
        found.block_weights[own], found.block_norms[own] = weights, norms
        # The last entry of the history describes the model, as in other fits.
        shares = {
            "blocks_kept": int(np.count_nonzero(weights)),
            "block_norms": found.block_norms.tolist(),
        }
        found.history[-1] |= {**shares, "block_weights": found.block_weights.tolist()}
        return found

    def _seed(self, trainer: Trainer) -> int:
        return trainer.seed(lambda: int(check_random_state(self.random_state).randint(2**31 - 1)))

    def _passes(self, blocks: Any) -> int:
        """Return the number of passes of the online solver."""
        if isinstance(self.epochs, str):
            if self.epochs != "auto":
                raise ValueError(f"epochs must be 'auto' or an integer >= 1; it is {self.epochs!r}")
            return PASSES if len(blocks.grams) <= MANY else PASSES_OF_MANY
        return self.epochs

    def _options(self, blocks: Any, trainer: Trainer) -> Options:
        seed = self._seed(trainer)
        options = Options(
            solver=self.solver,
            update=self.update,
            loss=self.loss,
            penalty=self.penalty_,
            step=self.step,
            epochs=self._passes(blocks),
            output=self.output,
            tol=self.tol,
            seed=seed,
        ).chosen()
        self.solver_, self.update_ = options.solver, options.update
        return options

    def _scored(self, found: KernelFit, dev: Any) -> float:
        """Return the score of the current model on development data."""
        model = copy.copy(self)
        model._keep(found)
        return model.score(*dev)

    def _keep(self, found: KernelFit) -> None:
        self._model = found.model
        self.n_support_ = int(found.model.columns.size)
        self.block_norms_, self.block_weights_ = found.block_norms, found.block_weights
        self.history_, self.converged_ = found.history, found.converged
        self.memory_plan_ = found.message

    # --- what was learnt ---------------------------------------------------------------------------------

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        if self._is_precomputed():
            return self._model.scores_precomputed(list(X), self.n_features_in_, len(self.blocks_))
        return self._model.scores(check_data(self, X, reset=False, dtype=FLOATS))

    def decision_function(self, X: Any) -> Floats:
        """Return the scores: a vector for two classes (positive means `classes_[1]`), else one column per class."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest score for each row."""
        scores = self._scores(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, one column per class; `calibration_` scales the scores."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        scores = getattr(self, "calibration_", 1.0) * self._scores(X)
        scores -= scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))

    def explain(self, X: Any) -> list[Explanation]:
        """Explain why each row has its class and not the runner-up: what each kernel contributes to the lead."""
        check_is_fitted(self)
        if self._is_precomputed():
            raise Unsupported("explain needs rows and kernels; with kernels='precomputed' there are none")
        X = check_data(self, X, reset=False, dtype=FLOATS)
        numbers, parts = self._model.by_block(X)
        names = named_blocks(self.blocks_, numbers)
        return explain_blocks(self.classes_.tolist(), names, parts, self._model.scores(X))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of correct labels; raise an error for a label that was not in `fit`."""
        check_is_fitted(self)
        labels = check_labels(y)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            at = int(np.flatnonzero(unknown)[0])
            raise DataError(f"y has the label {labels.tolist()[at]!r} at entry {at}, which was not seen in fit")
        weight: Any = sample_weight
        return float(np.average(self.predict(X) == labels, weights=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._is_precomputed()
        return tags

    # --- files -------------------------------------------------------------------------------------------

    def _blocks_among(self, count: int) -> list[Any]:
        if self._is_precomputed():
            return [*range(count)]
        return [*as_kernels(self._given(count, getattr(self, "default_kernels_", 1)))]

    def _fits(self, found: KernelModel) -> bool:
        inside = not self._is_precomputed() or not (found.columns >= self.n_features_in_).any()
        return inside and np.shape(self.classes_) == (found.coef.shape[2],)
