"""Linear models learnt on the whole data, with any penalty that has a prox."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from spom.core.arrays import Floats, check_room
from spom.core.registry import keep, register
from spom.core.warning import warn
from spom.errors import SpomError
from spom.estimators.checking import (
    check_classes,
    check_examples,
    check_labels,
    check_targets,
    class_weights,
    combined_weights,
    encode,
    loss_for,
    regression_loss,
)
from spom.estimators.linear.base import LinearClassifier, LinearRegressor
from spom.estimators.linear.choosing import AUTO, FEW_ROWS, Choosing, is_auto
from spom.estimators.linear.strength import Examples
from spom.estimators.training import all_or_nothing
from spom.penalties import L1
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.path import Path, path
from spom.solvers.batch.problem import Gpm, Solution, constant_theta, solve
from spom.solvers.batch.quasi_newton import is_smooth
from spom.solvers.iterate import last
from spom.solvers.linear.online import OnlineProximal

# Strengths are chosen by the loss on held-out rows, which needs no exact solutions.
ROUGH, ROUGH_ROUNDS = 1e-2, 200
# Online passes before L-BFGS: after 10 it needed 0 to 70 rounds on six sets; without them 30 to 250, which cost more.
PASSES = 20
# Rows are held out by a fixed seed: these estimators use none otherwise.
SEED = 0


class Proximal(Choosing):
    """The base of the regressor and the classifier: the problem, the solver, and the results of a run."""

    loss: Any
    penalty: Any
    solver: str
    norm: Any
    tol: float
    max_iter: int
    fit_intercept: bool
    warm_start: bool
    verbose: int
    coef_: Any
    intercept_: Any

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from X (dense or sparse, one row per example) and y, the real targets or labels."""
        with all_or_nothing(self):
            problem, start = self._chosen(self._checked(X, y, sample_weight))
            self._solve(problem, self.penalty_, start)
        return self

    def path(
        self,
        X: Any,
        y: Any,
        *,
        strengths: ArrayLike | None = None,
        n_strengths: int = 100,
        ratio: float = 1e-3,
        sample_weight: ArrayLike | None = None,
    ) -> Path:
        """Return the solutions for decreasing strengths, with warm starts and safe screening; this fits nothing.

        With more than two classes each of `coefs` has one row per feature and one column per class.

        >>> import numpy as np
        >>> from spom import ProximalRegressor
        >>> X, y = np.eye(2), np.array([4.0, 2.0])
        >>> ProximalRegressor(fit_intercept=False).path(X, y, strengths=[2.0, 1.0]).coefs.round(6)
        array([[0., 0.],
               [2., 0.]])
        """
        with all_or_nothing(self):
            problem = self._checked(X, y, sample_weight)
        options: dict[str, Any] = {"strengths": strengths, "n_strengths": n_strengths, "ratio": ratio}
        options |= {"tol": self.tol, "max_iter": self.max_iter, "verbose": bool(self.verbose)}
        return path(problem, self._penalty(), solver=self._method, **options)

    def _checked(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> LinearSmooth:
        """Return the problem defined by X and y; set `classes_` of a classifier."""
        raise NotImplementedError  # regressors and classifiers have their own

    @property
    def _method(self) -> str | Gpm:
        if self.solver in ("gpm", "accgpm"):
            return Gpm(self.norm, self.solver == "accgpm")
        return self.solver

    def _problem(self, X: Any, y: Any, weights: Floats | None, loss: Any, classes: int) -> LinearSmooth:
        outputs = classes if classes > 2 or loss.target == "class" else None
        return LinearSmooth(X, y, loss, fit_intercept=self.fit_intercept, sample_weight=weights, outputs=outputs)

    def _penalty(self) -> Any:
        """Return the penalty of a path, whose strengths are given separately; "auto" is L1 there."""
        return self._given_penalty(L1(1.0))[0]

    def _chosen(self, problem: LinearSmooth) -> tuple[LinearSmooth, Floats | None]:
        """Return the problem with the chosen scale and loss, and its optimum if it is known.

        Sets `penalty_`, `loss_` and `scale_`.
        """
        self.loss_ = problem.loss
        weights = None if np.ptp(problem.weights) == 0.0 else problem.weights * problem.y.size
        examples = Examples(problem.X, problem.y, weights, problem.outputs, self.fit_intercept)
        named = isinstance(self.penalty, str) and self.penalty != "auto"
        # Working sets and steps in other norms do not support a squared penalty.
        kind = L1(1.0) if self.solver in ("working-set", "gpm", "accgpm") else AUTO
        X, theta = self._prepared(examples, kind, SEED, self._path if named or kind is not AUTO else None)
        unchanged = self._scaling is None and self.loss_ is problem.loss
        return problem if unchanged else replaced(problem, X, self.loss_), theta

    def _path(self, examples: Examples, loss: Any, penalties: Iterable[Any], seed: int) -> Iterator[Floats]:
        """Yield rough solutions for the penalties of a path, each with a warm start from the previous one."""
        options: dict[str, Any] = {"sample_weight": examples.weight, "outputs": examples.outputs}
        part = LinearSmooth(examples.X, examples.y, loss, fit_intercept=examples.intercept, **options)
        theta = None
        for penalty in penalties:
            limit = min(self.max_iter, ROUGH_ROUNDS)
            theta = solve(part, penalty, solver=self._method, tol=ROUGH, max_iter=limit, start=theta).theta
            yield theta

    def _solve(self, problem: LinearSmooth, penalty: Any, start: Floats | None = None, polish: bool = False) -> None:
        """Run the solver and keep its solution; `polish` runs a few more rounds, to near rounding."""
        if self.warm_start:
            start = self._start(problem)
        elif start is None:
            start = self._online(problem, penalty)
        solution = solve(
            problem,
            penalty,
            solver=self._method,
            tol=self.tol,
            max_iter=self.max_iter,
            start=start,
            verbose=bool(self.verbose),
        )
        if polish and solution.converged:
            start = solution.theta
            better = solve(problem, penalty, solver=self._method, tol=1e-9 * self.tol, max_iter=100, start=start)
            if better.objective <= solution.objective:
                solution = replace(better, converged=True, rounds=solution.rounds + better.rounds)
        self.loss_, self.penalty_ = problem.loss, penalty
        self._keep(solution, problem)
        warn_if_not(solution, self.max_iter)
        self._warn_if_zero(self.coef_)

    def _online(self, problem: LinearSmooth, penalty: Any) -> Floats | None:
        """Return the result of online passes as the start of L-BFGS; None for other solvers, and if it does not help.

        With few rows a start would save nothing, and the order of the rows would matter.
        """
        few = problem.X.shape[0] <= FEW_ROWS
        if few or self.solver not in ("auto", "quasi-newton") or not is_smooth(penalty):
            return None
        solver = OnlineProximal(
            problem.X.tocsr() if sparse.issparse(problem.X) else problem.X,
            problem.y,
            loss=problem.loss,
            penalty=penalty,
            epochs=PASSES,
            fit_intercept=problem.fit_intercept,
            sample_weight=problem.weights * problem.y.size,
            outputs=problem.outputs,
            random_state=SEED,
        )
        try:
            theta = last(solver).theta
        except SpomError:
            return None
        before, after = constant_theta(problem), problem.value(theta) + penalty.value(theta[problem.penalised])
        return theta if after < problem.value(before) else None

    def _keep(self, solution: Solution, problem: LinearSmooth) -> None:
        theta, d = self._unfolded(solution.theta), self.n_features_in_
        self.coef_, self.intercept_ = self._shaped(theta[:d], theta[d] if self.fit_intercept else 0.0)
        self.objective_, self.dual_gap_ = solution.objective, solution.gap
        self.n_iter_, self.converged_ = max(solution.rounds, 1), solution.converged
        self.history_ = solution.history.as_dict()

    def _shaped(self, w: Floats, b: Any) -> tuple[Floats, Any]:
        """Return coef_ and intercept_ in scikit-learn's shapes."""
        raise NotImplementedError  # regressors and classifiers have their own

    def _start(self, problem: LinearSmooth) -> Floats | None:
        """Return the weights of the previous fit, if their shape fits."""
        if not hasattr(self, "coef_"):
            return None
        w, d = self._weights(), self.n_features_in_
        theta = np.zeros((d + self.fit_intercept, *problem.shape[1:]))
        if w.shape != theta[:d].shape:
            return None
        theta[:d] = w
        if self.fit_intercept:
            theta[-1] = self.intercept_ if np.ndim(theta[-1]) else np.ravel(self.intercept_)[0]
        return self._folded(theta)


def replaced(problem: LinearSmooth, X: Any, loss: Any) -> LinearSmooth:
    """Return the same examples with other columns and another loss."""
    options: dict[str, Any] = {"fit_intercept": problem.fit_intercept, "outputs": problem.outputs}
    return LinearSmooth(X, problem.y, loss, sample_weight=problem.weights, **options)


def warn_if_not(solution: Solution, max_iter: int) -> None:
    """Warn if the solver stopped before it converged."""
    if solution.converged:
        return
    measure = "residual" if np.isnan(solution.gap) else "duality gap"
    left = solution.residual if np.isnan(solution.gap) else solution.gap
    warn(
        f"the solver stopped after {solution.rounds} rounds with a {measure} of {left:.2g}, above the "
        f"tolerance: raise max_iter (now {max_iter}) or tol, or scale the features",
        ConvergenceWarning,
    )


@register(
    "estimator",
    "proximal-regressor",
    examples=lambda: [ProximalRegressor()],
    cost="passes over the data to a duality gap",
)
class ProximalRegressor(LinearRegressor, Proximal):
    r"""minimise (1/N) sum_i s_i phi(y_i, x_i . w + b) + Omega(w), with phi = 1/2 (y - a)^2.

    `ProximalRegressor(penalty=L1(s))` is scikit-learn's `Lasso(alpha=s)`. Any other penalty with a prox can be used
    instead: elastic net, group, sparse group, tree, overlapping and latent groups, balls and boxes.

    Parameters
    ----------
    loss : loss or name
        A smooth regression loss, by default the squared loss.
    penalty : penalty, name, "auto" or None
        "auto": a `SquaredL2` with a strength that is chosen on held-out rows, or an `L1` if solver is
        "working-set", "gpm" or "accgpm". For a penalty given by name the strength is chosen in the same way, from the
        path of its strengths. None: no penalty. The intercept is never penalised.
    scale : "auto" or bool
        Whether to learn as if dense columns were standardised, as in `OnlineClassifier`. "auto" scales if the strength
        is chosen. `coef_` is in the scale of X in any case.
    solver : {"auto", "working-set", "quasi-newton", "fista", "ista", "gpm", "accgpm"}
        "auto" uses working sets (block coordinate descent with Newton steps) for L1, ElasticNet, GroupLasso
        and SparseGroupLasso, L-BFGS ("quasi-newton") for SquaredL2, and FISTA for all others.
    norm : "l1", "linf", "l2" or an `AtomicNorm`
        The norm of the steps of "gpm" (proximal gradients in that norm) and "accgpm" (the accelerated form); other
        solvers ignore it. In l1 a step moves few weights; in l-inf, for the latent group lasso, it is a linear program.
    tol : float
        The run ends when the duality gap is at most tol times the loss of the best constant; if no gap is
        known, when the proximal residual is at most tol times the gradient's norm at the best constant.
    max_iter : int
        The maximum number of rounds of the solver; a `ConvergenceWarning` is raised if it is too small.
    fit_intercept, warm_start
        As in scikit-learn.
    verbose : int
        1 shows a progress line on a terminal, for runs of more than two seconds.

    After `fit`: `coef_`, `intercept_`, `n_iter_`, `converged_`, `dual_gap_` (NaN where none is known),
    `objective_`, `history_`, `blocks_`, `block_weights_`, `selected_`.

    >>> import numpy as np
    >>> from spom.penalties import GroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 6))
    >>> y = X[:, 2] - X[:, 3]
    >>> model = ProximalRegressor(penalty=GroupLasso(0.1, groups=2)).fit(X, y)
    >>> model.selected_
    array([1])
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "auto",
        *,
        scale: Any = "auto",
        solver: str = "auto",
        norm: Any = "l1",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        fit_intercept: bool = True,
        warm_start: bool = False,
        verbose: int = 1,
    ) -> None:
        keep(self, locals())

    def _checked(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> LinearSmooth:
        X, targets, weights = check_examples(self, (X, y, sample_weight), check_targets, reset=True)
        return self._problem(X, targets, weights, regression_loss(self.loss, "squared"), 0)

    def _shaped(self, w: Floats, b: Any) -> tuple[Floats, Any]:
        return w.copy(), float(b)


@register(
    "estimator",
    "proximal-classifier",
    examples=lambda: [ProximalClassifier()],
    cost="passes over the data to a duality gap",
)
class ProximalClassifier(LinearClassifier, Proximal):
    r"""minimise (1/N) sum_i s_i phi(y_i, x_i . w + b) + Omega(w), with phi the logistic loss.

    With more than two classes the loss takes its multiclass form, and w is a matrix with one row per feature, which
    holds its weights for all classes. `GroupLasso(s)` or `GroupLInf(s)`, without groups, then set the weights of a
    feature to zero for all classes at once.

    Parameters
    ----------
    loss : loss or name
        A smooth classification loss: "logistic", `PowerHinge(2)`, or "auto": logistic for two classes, or the
        squared hinge if data are sparse with more features than rows and one class has less than a third of them;
        for more classes, held-out rows choose between the logistic loss and the squared hinge of each class against
        the rest.
    penalty, scale, solver, norm, tol, max_iter, fit_intercept, warm_start, verbose
        As in `ProximalRegressor`.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in scikit-learn.

    After `fit`: `classes_`, `coef_` (one row, or one row per class), `intercept_`, `n_iter_`, `converged_`,
    `dual_gap_` (NaN where none is known), `objective_`, `history_`, `blocks_`, `block_weights_`, `selected_`.

    >>> from sklearn.datasets import load_iris
    >>> from spom.penalties import GroupLasso
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ProximalClassifier(penalty=GroupLasso(0.02)).fit(X, y)
    >>> model.selected_
    array([2, 3])
    """

    def __init__(
        self,
        loss: Any = "auto",
        penalty: Any = "auto",
        *,
        scale: Any = "auto",
        solver: str = "auto",
        norm: Any = "l1",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        fit_intercept: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: int = 1,
    ) -> None:
        keep(self, locals())

    def _checked(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> LinearSmooth:
        X, labels, sample = check_examples(self, (X, y, sample_weight), check_labels, reset=True)
        self.classes_ = check_classes(labels)
        index = encode(labels, self.classes_)
        weights = combined_weights(sample, class_weights(self.class_weight, self.classes_, labels), index)
        classes = int(self.classes_.size)
        if classes > 2:
            check_room(X.shape[1], classes, 2, f"the weights of {classes:,} classes and {X.shape[1]:,} features")
        loss = loss_for(None if is_auto(self.loss) else self.loss, classes, "logistic")
        targets = index if loss.target == "class" else 2.0 * index - 1.0
        return self._problem(X, targets, weights, loss, classes)

    def _shaped(self, w: Floats, b: Any) -> tuple[Floats, Any]:
        if w.ndim == 1:
            return w[None, :].copy(), np.atleast_1d(np.asarray(b, dtype=np.float64)).copy()
        # Raising all intercepts together does not change the loss; return those that sum to zero.
        bias = np.zeros(w.shape[1]) if np.ndim(b) == 0 else b - np.mean(b)
        return np.ascontiguousarray(w.T), bias
