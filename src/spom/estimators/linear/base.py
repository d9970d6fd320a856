"""The base of fitted linear models: scores, predictions, summaries of their blocks, and their model file."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.errors import ModelFileError
from spom.estimators.checking import check_data, operator
from spom.estimators.explanation import Explanation, explain_linear
from spom.estimators.saving import Saving, known
from spom.losses.base import Loss
from spom.solvers.iterate import History
from spom.solvers.linear.scores import MANY_SCORES

# The attributes that `fit` sets in a linear model besides its weights and its history.
FITTED = (
    *("classes_", "feature_names_in_", "n_features_in_", "loss_", "penalty_", "mirror_", "intercept_"),
    *("calibration_", "converged_", "n_rounds_", "n_iter_", "objective_", "dual_gap_"),
    *("strength_", "strengths_", "best_score_", "cv_scores_"),
)


class LinearModel(Saving, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Scores X coef_^T + intercept_, and the summary of a fitted linear model."""

    coef_: Any
    intercept_: Any

    def _scores(self, X: Any) -> Floats:
        """Return one column per row of coef_, for checked or raw X."""
        check_is_fitted(self)
        return self._products(check_data(self, X, reset=False))

    def _products(self, X: Any) -> Floats:
        coef = self.coef_ if sparse.issparse(self.coef_) else np.atleast_2d(self.coef_)
        return np.asarray(safe_sparse_dot(X, coef.T, dense_output=True) + np.atleast_1d(self.intercept_))

    def _weights(self) -> Floats:
        """Return the weights as the penalty sees them: a vector, or a row of all classes' weights per feature."""
        check_is_fitted(self)
        coef = self.coef_.toarray() if sparse.issparse(self.coef_) else np.asarray(self.coef_)
        rows = np.atleast_2d(coef)
        return np.ascontiguousarray(rows[0] if rows.shape[0] == 1 else rows.T)

    def explain(self, X: Any) -> list[Explanation]:
        """Explain the prediction of each row: the contribution of each feature to the winner's lead.

        >>> from spom import OnlineClassifier
        >>> model = OnlineClassifier(random_state=0, verbose=0).fit([[1.0, 0.0], [0.0, 1.0]] * 20, ["a", "b"] * 20)
        >>> (why,) = model.explain([[1.0, 0.0]])
        >>> why.label, why.against, why.top(1)[0][0]
        ('a', 'b', 'x0')
        """
        scores = self._scores(X)
        return explain_linear(self, scores, check_data(self, X, reset=False))

    @property
    def blocks_(self) -> Any:
        """The features of each block of the penalty: its groups, or every feature by itself."""
        check_is_fitted(self)
        rows, d = np.atleast_2d(self.coef_).shape if not sparse.issparse(self.coef_) else self.coef_.shape
        groups = _groups_of(getattr(self, "penalty_", None), (d,) if rows == 1 else (d, rows))
        return np.arange(d)[:, None] if groups is None else groups

    def _block_norms(self) -> Floats:
        if sparse.issparse(self.coef_) and _groups_of(getattr(self, "penalty_", None), self.coef_.T.shape) is None:
            return np.asarray(row_norms(self.coef_.T))
        weights = self._weights()
        squares = weights**2 if weights.ndim == 1 else (weights**2).sum(axis=1)
        groups = _groups_of(getattr(self, "penalty_", None), weights.shape)
        if groups is None:
            return np.sqrt(squares)
        return np.sqrt([squares[members].sum() for members in groups])

    @property
    def block_weights_(self) -> Floats:
        """Each block's share of the sum of the blocks' norms: they sum to one (to zero if all blocks are zero)."""
        norms = self._block_norms()
        total = norms.sum()
        return np.asarray(norms / total) if total > 0 else norms

    @property
    def selected_(self) -> Ints:
        """The blocks that are not zero, as indices into `blocks_`."""
        return np.flatnonzero(self._block_norms())

    def sparsify(self) -> Self:
        """Turn `coef_` into a CSR matrix: smaller and faster if most weights are zero."""
        check_is_fitted(self)
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Turn `coef_` back into an array."""
        check_is_fitted(self)
        if sparse.issparse(self.coef_):
            dense = self.coef_.toarray()
            self.coef_ = dense if isinstance(self, ClassifierMixin) else dense.reshape(-1)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- as a model file: the weights as an array or, if most are zero, as the positions and values of the others -----

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state for `spom.models`; of the history only the last entry is kept, without its time."""
        check_is_fitted(self)
        # This comes first: a model between `partial_fit` calls computes its attributes when they are read.
        coef, held = self.coef_, vars(self)
        state = {name: held[name] for name in FITTED if name in held}
        arrays, state["coef"] = _packed(coef)
        state["history"] = _last(held.get("history_"))
        return state, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """Return the estimator restored from a model file."""
        model = cls(**state["params"])
        coef = _unpacked(state["coef"], arrays)
        model.__dict__.update({name: state[name] for name in FITTED if name in state})
        model.__dict__.update(coef_=coef, history_=_history(state["history"]), _resume=None)
        _check_fit(model, coef)
        return model

    def _training(self) -> dict[str, Any]:
        last = _last(getattr(self, "history_", None))
        kept = {name: last["last"][name] for name in ("objective", "loss") if known(last["last"].get(name))}
        coef = self.coef_
        nonzero = coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef)
        selected = np.asarray(self.selected_).size
        return {**kept, "nonzeros": int(nonzero), "weights": int(np.prod(coef.shape)), "blocks_kept": int(selected)}


def _groups_of(penalty: Any, shape: tuple[int, ...]) -> list[Ints] | None:
    """Return the features of each group of a group penalty, or None if the blocks are the features."""
    if penalty is None or getattr(penalty, "groups", None) is None or not hasattr(penalty, "_structure"):
        return None
    groups = penalty._structure(shape)[0]
    columns = 1 if len(shape) == 1 else shape[1]
    return [np.unique(groups.members(m) // columns) for m in range(groups.count)]


def _gives_probabilities(estimator: Any) -> bool:
    loss = getattr(estimator, "loss_", None)
    if loss is None:
        loss = operator("loss", "logistic" if estimator.loss in (None, "auto") else estimator.loss)
    if not loss.probabilistic and not hasattr(estimator, "calibration_"):
        raise AttributeError(f"{loss!r} gives no probabilities; loss='logistic' does")
    return True


class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier by linear scores; subclasses set classes_, coef_, intercept_, loss_ and penalty_."""

    classes_: NDArray[Any]
    loss_: Any
    calibration_: float

    def decision_function(self, X: Any) -> Floats:
        """Return the scores: a vector for two classes (positive means `classes_[1]`), else one column per class."""
        scores = self._scores(X)
        return scores.reshape(-1) if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest score for each row."""
        check_is_fitted(self)
        X = check_data(self, X, reset=False)
        # Work in parts: the scores of many rows and classes may not fit into memory.
        part = max(1, MANY_SCORES // self.classes_.size)
        found = [self._winners(self._products(X[low : low + part])) for low in range(0, max(1, X.shape[0]), part)]
        return np.asarray(self.classes_[np.concatenate(found)])

    def _winners(self, scores: Floats) -> Ints:
        index = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return index.astype(np.int64)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, one column per class.

        If the loss is not a likelihood, they are the softmax of the scores times `calibration_`, a number chosen on
        held-out rows.
        """
        scores = self.decision_function(X)
        if not self.loss_.probabilistic:
            return np.asarray(softmax(self._odds(scores), axis=1))
        if scores.ndim == 2:
            return np.asarray(self.loss_.probability(scores))
        return np.column_stack([self.loss_.probability(-scores), self.loss_.probability(scores)])

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        scores = self.decision_function(X)
        if not self.loss_.probabilistic:
            return np.asarray(log_softmax(self._odds(scores), axis=1))
        # The logistic losses are minus the log-likelihood; this avoids a probability that rounds to 0.
        n, labels = scores.shape[0], ((-1, 1) if scores.ndim == 1 else range(scores.shape[1]))
        return np.column_stack([-self.loss_.value(np.full(n, label), scores) for label in labels])

    def _odds(self, scores: Floats) -> Floats:
        pairs = scores if scores.ndim == 2 else np.column_stack([-0.5 * scores, 0.5 * scores])
        return self.calibration_ * pairs


class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor by a linear score; subclasses set coef_, intercept_, loss_ and penalty_."""

    def predict(self, X: Any) -> Floats:
        """Return the score of each row."""
        return self._scores(X).reshape(-1)


# --- from a model file --------------------------------------------------------------------------------


def _packed(coef: Any) -> tuple[Arrays, dict[str, Any]]:
    rows = coef if sparse.issparse(coef) else np.atleast_2d(coef)
    form = {"sparse": sparse.issparse(coef), "ndim": coef.ndim, "shape": list(rows.shape)}
    # A stored entry of a sparse matrix takes 12 bytes with its index, one of an array 8.
    if not form["sparse"] and 3 * np.count_nonzero(rows) > 2 * rows.size:
        return {"coef": rows}, form
    listed = sparse.csr_matrix(rows)
    listed.eliminate_zeros()
    return {"coef.data": listed.data, "coef.indices": listed.indices, "coef.indptr": listed.indptr}, form


def _unpacked(form: dict[str, Any], arrays: Arrays) -> Any:
    shape = (int(form["shape"][0]), int(form["shape"][1]))
    if "coef" in arrays:
        rows: Any = check_shape(take(arrays, "coef", "f", 2), shape, "coef")
    else:
        data = take(arrays, "coef.data", "f")
        indices = check_shape(check_indices(take(arrays, "coef.indices", "i"), shape[1], "coef"), data.shape, "coef")
        indptr = check_shape(take(arrays, "coef.indptr", "i"), (shape[0] + 1,), "coef")
        rows = sparse.csr_matrix((data, indices, check_offsets(indptr, data.size, "coef")), shape=shape)
        rows = rows if form["sparse"] else rows.toarray()
    return rows if form["ndim"] == 2 else rows.reshape(-1)


def _check_fit(model: Any, coef: Any) -> None:
    """Check that the weights fit the features and the classes."""
    held = vars(model)
    width, bias = coef.shape[-1], np.shape(held["intercept_"])
    rows = 1 if coef.ndim == 1 else coef.shape[0]
    classes = held.get("classes_")
    wanted = hasattr(model, "predict_log_proba")
    if (wanted or classes is not None) and (not isinstance(classes, np.ndarray) or classes.ndim != 1):
        raise ModelFileError("the classes are no list of labels: the file is damaged")
    if not isinstance(held.get("loss_"), Loss):
        raise ModelFileError("the loss is none: the file is damaged")
    intercept = np.asarray(held["intercept_"])
    if intercept.dtype.kind != "f" or not np.isfinite(intercept).all():
        raise ModelFileError("the intercept is not finite: the file is damaged")
    fits = classes is None or rows == (1 if len(classes) == 2 and rows == 1 else len(classes))
    if width != held["n_features_in_"] or bias not in ((), (1,), (rows,)) or not fits:
        raise ModelFileError("the weights do not fit the features and classes: the file is damaged")


def _last(history: Any) -> dict[str, Any]:
    """Return the last entry of a history, which is an object or a dict of columns."""
    if history is None:
        return {"object": False, "last": {}}
    columns = history if isinstance(history, dict) else history.as_dict()
    last = {name: column[-1] for name, column in columns.items() if len(column)}
    if "seconds" in last:
        last["seconds"] = float("nan")
    return {"object": not isinstance(history, dict), "last": last}


def _history(kept: dict[str, Any]) -> Any:
    columns = {name: [value] for name, value in kept["last"].items()}
    if not kept["object"]:
        return columns
    history = History()
    vars(history).update({name: column for name, column in columns.items() if name in vars(history)})
    return history
