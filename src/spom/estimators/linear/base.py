"""What fitted linear models share: scores, predictions, and summaries of their blocks."""

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

from spom.core.arrays import Floats, Ints
from spom.estimators.checking import check_data, operator
from spom.estimators.explanation import Explanation, explain_linear
from spom.estimators.saving import SavingLinear
from spom.solvers.linear.scores import MANY_SCORES


class LinearModel(SavingLinear, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Scores X coef_^T + intercept_, and the summary of a fitted linear model."""

    coef_: Any
    intercept_: Any

    def _scores(self, X: Any) -> Floats:
        """One column per row of coef_, for checked or raw X."""
        check_is_fitted(self)
        return self._products(check_data(self, X, reset=False))

    def _products(self, X: Any) -> Floats:
        coef = self.coef_ if sparse.issparse(self.coef_) else np.atleast_2d(self.coef_)
        return np.asarray(safe_sparse_dot(X, coef.T, dense_output=True) + np.atleast_1d(self.intercept_))

    def _weights(self) -> Floats:
        """The weights as the penalty sees them: a vector, or a row of all classes' weights for each feature."""
        check_is_fitted(self)
        coef = self.coef_.toarray() if sparse.issparse(self.coef_) else np.asarray(self.coef_)
        rows = np.atleast_2d(coef)
        return np.ascontiguousarray(rows[0] if rows.shape[0] == 1 else rows.T)

    def explain(self, X: Any) -> list[Explanation]:
        """Say why each row has its prediction: the contribution of each feature to the winner's lead.

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
        """Each block's share of the sum of the blocks' norms: they sum to one (to zero where all are off)."""
        norms = self._block_norms()
        total = norms.sum()
        return np.asarray(norms / total) if total > 0 else norms

    @property
    def selected_(self) -> Ints:
        """The blocks that are not switched off, as indices into `blocks_`."""
        return np.flatnonzero(self._block_norms())

    def sparsify(self) -> Self:
        """Turn `coef_` into a CSR matrix: smaller and faster where most weights are zero."""
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


def _groups_of(penalty: Any, shape: tuple[int, ...]) -> list[Ints] | None:
    """The features of each group of a group penalty, or None where the blocks are the features."""
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
    """A classifier by linear scores; the subclass sets classes_, coef_, intercept_, loss_ and penalty_."""

    classes_: NDArray[Any]
    loss_: Any
    calibration_: float

    def decision_function(self, X: Any) -> Floats:
        """The scores: a vector for two classes (positive means `classes_[1]`), else one column per class."""
        scores = self._scores(X)
        return scores.reshape(-1) if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the highest score, of each row."""
        check_is_fitted(self)
        X = check_data(self, X, reset=False)
        # In parts: the scores of many rows and classes may not fit into memory.
        part = max(1, MANY_SCORES // self.classes_.size)
        found = [self._winners(self._products(X[low : low + part])) for low in range(0, max(1, X.shape[0]), part)]
        return np.asarray(self.classes_[np.concatenate(found)])

    def _winners(self, scores: Floats) -> Ints:
        index = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return index.astype(np.int64)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, one column per class.

        Where the loss is no likelihood, they are the softmax of the scores times `calibration_`, a number chosen on
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
        """The logarithm of the probability of each class."""
        scores = self.decision_function(X)
        if not self.loss_.probabilistic:
            return np.asarray(log_softmax(self._odds(scores), axis=1))
        # The logistic losses are minus the log-likelihood, without the detour by a probability that rounds to 0.
        n, labels = scores.shape[0], ((-1, 1) if scores.ndim == 1 else range(scores.shape[1]))
        return np.column_stack([-self.loss_.value(np.full(n, label), scores) for label in labels])

    def _odds(self, scores: Floats) -> Floats:
        pairs = scores if scores.ndim == 2 else np.column_stack([-0.5 * scores, 0.5 * scores])
        return self.calibration_ * pairs


class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor by a linear score; the subclass sets coef_, intercept_, loss_ and penalty_."""

    def predict(self, X: Any) -> Floats:
        """The score of each row."""
        return self._scores(X).reshape(-1)
