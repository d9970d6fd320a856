"""The strength chosen by cross-validation: a path on each fold, scored on the held-out part."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from spom.core.arrays import Floats
from spom.core.registry import keep, register
from spom.errors import Unsupported
from spom.estimators.linear.choosing import is_auto
from spom.estimators.linear.proximal import ProximalClassifier, ProximalRegressor, replaced
from spom.estimators.linear.scaling import column_squares, measured
from spom.estimators.training import all_or_nothing
from spom.penalties.base import with_strength
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.path import Path, check_grid, path, strength_grid

# The grid for penalties that no strength makes zero, such as squared norms, times the square of the unit of X.
WIDE = (1e3, 1e-7)


class ProximalCV:
    """The base of the cross-validated models, mixed into a regressor or a classifier."""

    strengths: Any
    n_strengths: int
    ratio: float
    cv: Any
    scoring: Any
    n_jobs: int | None
    # Parameters of the plain models that these models do not have.
    norm: Any = "l1"
    warm_start: bool = False

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the strength on folds of the data, then learn from all of it."""
        with all_or_nothing(self):
            self._fit_cv(X, y, sample_weight)
        return self

    def _fit_cv(self: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        problem, penalty = self._scaled(self._checked(X, y, sample_weight)), self._penalty()
        grid = self._grid(problem, penalty)
        splitter = check_cv(self._folds(problem.y), problem.y, classifier=is_classifier(self))
        folds = list(splitter.split(problem.X, problem.y))
        scores = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self._fold)(problem, penalty, grid, train, test) for train, test in folds
        )
        self.strengths_, self.cv_scores_ = grid, np.array(scores).T
        # Weight the folds by the examples in them.
        shares = np.array([problem.weights[test].sum() for _, test in folds])
        means = self.cv_scores_ @ (shares / shares.sum())
        best = int(np.argmax(means))
        self.strength_, self.best_score_ = float(grid[best]), float(means[best])
        # This is one more problem among hundreds: solve it to many digits.
        self._solve(problem, with_strength(penalty, self.strength_), polish=True)

    def _scaled(self: Any, problem: LinearSmooth) -> LinearSmooth:
        """Return the problem on scaled columns, if `scale` says so; "auto" scales them with `penalty="auto"`."""
        wanted = is_auto(self.penalty) if is_auto(self.scale) else bool(self.scale)
        real = problem.loss.target == "real"
        self._scaling = measured(problem.X, problem.weights, problem.fit_intercept, real) if wanted else None
        self.scale_ = None if self._scaling is None else self._scaling.scale
        return problem if self._scaling is None else replaced(problem, self._scaling.apply(problem.X), problem.loss)

    def _folds(self: Any, y: Any) -> Any:
        """Return `cv`, or five folds; fewer if the smallest class, or the data, has fewer members."""
        if self.cv is not None:
            return self.cv
        members = np.unique(y, return_counts=True)[1].min() if is_classifier(self) else y.size
        return int(np.clip(members, 2, 5))

    def _grid(self: Any, problem: LinearSmooth, penalty: Any) -> Floats:
        if "strength" not in penalty.get_params(deep=False):
            raise Unsupported(f"{type(penalty).__name__} has no strength to choose; use grid search")
        if self.strengths is not None:
            return check_grid(self.strengths)
        try:
            return strength_grid(problem, penalty, self.n_strengths, self.ratio)
        except Unsupported:
            return _square_unit(problem.X, problem.fit_intercept) * np.geomspace(*WIDE, self.n_strengths)

    def _fold(self: Any, problem: LinearSmooth, penalty: Any, grid: Floats, train: Any, test: Any) -> Floats:
        """Return the score of each strength on the test part, after a path on the training part."""
        part = _rows(problem, train)
        # Folds that run in parallel would overwrite each other's line.
        verbose = bool(self.verbose) and self.n_jobs in (None, 1)
        found = path(
            part, penalty, strengths=grid, solver=self.solver, tol=self.tol, max_iter=self.max_iter, verbose=verbose
        )
        if self.scoring is None:
            held_out = _rows(problem, test)
            return np.array([-held_out.value(theta) for theta in _thetas(found, problem)])
        scores: Floats = self._scored(problem, found, test)
        return scores

    def _scored(self: Any, problem: LinearSmooth, found: Path, test: Any) -> Floats:
        """Score a model with the path's weights by a scikit-learn scorer, which gets the sample weights."""
        model = clone(self)
        model.__dict__.update({k: v for k, v in vars(self).items() if k.endswith("_")})
        model.loss_ = problem.loss
        scorer = check_scoring(model, scoring=self.scoring)
        y = problem.y[test]
        if is_classifier(self):
            y = self.classes_[(y > 0).astype(np.int64) if problem.outputs is None else y]
        scores = []
        for theta in _thetas(found, problem):
            model.coef_, model.intercept_ = self._shaped(*problem.split(theta))
            scores.append(scorer(model, problem.X[test], y, sample_weight=problem.weights[test]))
        return np.array(scores)


def _square_unit(X: Any, intercept: bool) -> float:
    """Return the median variance of the columns that vary; the median mean square if X is sparse or not centred.

    >>> _square_unit(np.array([[1.0, 7.0, 0.0], [3.0, 7.0, 4.0]]), True)
    2.5
    """
    if sparse.issparse(X):
        squares = column_squares(X.tocsr())[1] / X.shape[0]
    else:
        squares = np.var(X, axis=0) if intercept else np.mean(X**2, axis=0)
    squares = squares[squares > 0.0]
    return float(np.median(squares)) if squares.size else 1.0


def _rows(problem: LinearSmooth, which: Any) -> LinearSmooth:
    weights = problem.weights[which]
    return LinearSmooth(
        problem.X[which],
        problem.y[which],
        problem.loss,
        fit_intercept=problem.fit_intercept,
        # A fold may contain only examples of weight zero; its share of the score is then zero too.
        sample_weight=weights if weights.any() else None,
        outputs=problem.outputs,
    )


def _thetas(found: Path, problem: LinearSmooth) -> Any:
    for w, b in zip(found.coefs, found.intercepts, strict=True):
        yield np.concatenate([w, np.asarray(b)[None]]) if problem.fit_intercept else w


@register(
    "estimator", "proximal-regressor-cv", examples=lambda: [ProximalRegressorCV()], cost="a path of strengths per fold"
)
class ProximalRegressorCV(ProximalCV, ProximalRegressor):
    """`ProximalRegressor` with the strength of its penalty chosen by cross-validation; `penalty="auto"` is L1.

    `strengths` is the grid; by default, `n_strengths` values from the smallest that gives zero weights down to
    `ratio` of it, or, if none does, from 1e3 to 1e-7 times the median variance of a column. `cv` is a number of folds,
    a splitter or an iterable of splits. `scoring` is a scorer of scikit-learn; None means the mean loss on the
    held-out part, with sample weights. All other parameters are those of `ProximalRegressor`. Further attributes after
    `fit`: `strength_`, `best_score_`, `strengths_` and `cv_scores_` (one row per strength, one column per fold).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 20))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> model = ProximalRegressorCV(n_strengths=20).fit(X, y)
    >>> 0.001 < model.strength_ < 0.2
    True
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "auto",
        *,
        scale: Any = "auto",
        strengths: ArrayLike | None = None,
        n_strengths: int = 50,
        ratio: float = 1e-3,
        cv: Any = None,
        scoring: Any = None,
        solver: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        verbose: int = 1,
    ) -> None:
        keep(self, locals())


@register(
    "estimator",
    "proximal-classifier-cv",
    examples=lambda: [ProximalClassifierCV()],
    cost="a path of strengths per fold",
)
class ProximalClassifierCV(ProximalCV, ProximalClassifier):
    """`ProximalClassifier` with the strength of its penalty chosen by cross-validation.

    See `ProximalRegressorCV` for `strengths`, `n_strengths`, `ratio`, `cv` and `scoring`, and for the attributes
    after `fit`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ProximalClassifierCV(n_strengths=10, cv=3).fit(scale(X), y)
    >>> 1e-4 < model.strength_ < 0.1
    True
    """

    def __init__(
        self,
        loss: Any = "auto",
        penalty: Any = "auto",
        *,
        scale: Any = "auto",
        strengths: ArrayLike | None = None,
        n_strengths: int = 50,
        ratio: float = 1e-3,
        cv: Any = None,
        scoring: Any = None,
        solver: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 1,
    ) -> None:
        keep(self, locals())
