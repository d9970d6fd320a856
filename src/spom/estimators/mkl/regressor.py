"""A regressor that learns the combination of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Floats
from spom.core.registry import keep, register
from spom.core.state import State
from spom.errors import DataError
from spom.estimators.checking import (
    FLOATS,
    check_data,
    check_same_length,
    check_targets,
    check_weights,
    merged,
    operator,
)
from spom.estimators.explanation import Explanation, explain_blocks
from spom.estimators.linear.choosing import FEW_ROWS
from spom.estimators.mkl.base import KernelEstimator
from spom.estimators.mkl.candidates import Rows, free_widths
from spom.estimators.mkl.model import KernelModel, named_blocks
from spom.estimators.mkl.pruning import Task, pruned
from spom.estimators.mkl.ridges import LEARNT, chosen_ridge, fitted_ridge
from spom.estimators.mkl.strength import MULTIPLES, STEPS, TOLERANCE, Path, chosen_multiple
from spom.estimators.mkl.training import Blocks, Making, as_kernels, blocks_of, tell
from spom.estimators.training import Arrays, Learner, Trainer, all_or_nothing
from spom.kernels import Gaussian, Laplacian, Linear, Polynomial
from spom.kernels.gram import DenseGram, FeatureGram, Gram
from spom.penalties import SparseMKL
from spom.penalties.base import block_weights, with_strength
from spom.solvers.iterate import last
from spom.solvers.mkl.regression import KernelRegression


@register(
    "estimator", "mkl-regressor", examples=lambda: [MKLRegressor()], cost="a product with each Gram matrix per step"
)
class MKLRegressor(RegressorMixin, KernelEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""min over theta, b of Omega(theta) + 1/(2 N) sum_i (y_i - b - f(x_i))^2, with one block theta_m per kernel.

    f(x) is the sum of <theta_m, phi_m(x)>. The penalty decides how much of each kernel is used, and which kernels get
    weight zero. Each kernel is divided by the mean of its diagonal on the training rows, so units do not matter.
    With one kernel and `SquaredL2(s)` this is kernel ridge regression with alpha = s N.

    Parameters
    ----------
    kernels : a list of kernels (`spom.kernels`), their registered names, names of scikit-learn's pairwise kernels,
        functions of two matrices, or `Nystroem(...)` features; None is a linear, a quadratic, a Gaussian and, for dense
        data, a Laplacian kernel.
    penalty : a penalty of block norms: `SparseMKL`, `LqMKL`, `ElasticNetMKL`, `GroupLasso`, `SquaredL2`, or any other
        with such a form. `"auto"` is `SparseMKL` with a strength that is best for rows left out, which may also choose
        equal weights or a single kernel (`mkl.ridges`); for the name of a penalty the strength is chosen on held-out
        rows; None is no penalty.
    epochs, tol : the maximum number of steps; stop at a duality gap of `tol` times half the variance of y. With
        `penalty="auto"` they end the search for weights of the kernels; the model itself is exact.
    memory, precision, n_jobs : of the Gram matrices, as in `MKLClassifier`.
    prune : None, "auto" or `{"false_discovery_rate": 0.1}`, as in `MKLClassifier`.
    random_state : of the held-out rows.
    callbacks, verbose : as in other estimators; see `spom.core.callbacks`.

    Attributes
    ----------
    blocks_, block_weights_, selected_ : the kernels; beta, which sums to one; the kernels with non-zero weight.
    kernels_ : the selected kernels with the widths that the data chose.
    penalty_ : the penalty with its strength. strengths_, held_out_errors_ : the strengths tried, and their errors.
    intercept_ : b. n_support_ : the number of training rows that the model keeps.
    pruning_ : the result of `prune`, which prints as a table; None without it.
    history_, converged_, memory_plan_ : one dict per step; whether `tol` was reached; the form of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from spom import MKLRegressor
    >>> from spom.kernels import Gaussian, Linear
    >>> x = np.linspace(-3.0, 3.0, 60)[:, None]
    >>> model = MKLRegressor([Linear(), Gaussian(1.0)]).fit(x, np.sin(2.0 * x[:, 0]))
    >>> bool(model.score(x, np.sin(2.0 * x[:, 0])) > 0.99)
    True
    """

    _saved = (
        *("penalty_", "n_features_in_", "feature_names_in_", "intercept_", "converged_", "memory_plan_", "n_support_"),
        *("strengths_", "held_out_errors_"),
    )
    _unsaved = ("seconds", "block_weights")

    strengths_: list[float]
    held_out_errors_: list[float]

    def __init__(
        self,
        kernels: Any = None,
        penalty: Any = "auto",
        *,
        epochs: int = 1000,
        tol: float = 1e-4,
        memory: Any = "2GB",
        precision: str = "double",
        n_jobs: int | None = None,
        random_state: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
        prune: Any = None,
    ) -> None:
        keep(self, locals())

    # --- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows X with real targets y."""
        if self.precision not in ("single", "double"):
            raise ValueError(f"precision must be 'single' or 'double'; it is {self.precision!r}")
        with all_or_nothing(self):
            X = check_data(self, X, reset=True, dtype=FLOATS)
            targets, weight = check_targets(y), check_weights(sample_weight, X)
            check_same_length(X, targets)
            if X.shape[0] <= FEW_ROWS:
                # Equal rows become one with a weight, so a weight is equivalent to repetition.
                X, targets, weight = merged(X, targets, weight)
            given = as_kernels(self._given(3 if sparse.issparse(X) else 4))
            blocks = blocks_of(given, X, Making.of(self, 1, averaged=False))
            self.blocks_, self.memory_plan_ = list(given), blocks.message
            trainer = Trainer(self)
            with trainer.running():
                blocks = self._pruned(blocks, X, targets, weight)
                grams, scales = _scaled(blocks, weight)
                if self._takes_ridge(blocks):
                    blocks, state = self._run_ridge(blocks, grams, targets, weight, trainer)
                else:
                    self.penalty_ = self._chosen(grams, targets, weight)
                    solver = KernelRegression(grams, targets, self.penalty_, weight=weight, **self._limits())
                    state = self._run(blocks, solver, self.penalty_, trainer)
            self.history_ = trainer.history
            self._keep(blocks, scales, state, X)
        return self

    def _takes_ridge(self, blocks: Blocks) -> bool:
        """Tell whether rows left out choose the weights of the kernels."""
        whole = not blocks.explicit and all(isinstance(gram, DenseGram) for gram in blocks.grams)
        return isinstance(self.penalty, str) and self.penalty == "auto" and whole

    def _run(self, blocks: Blocks, solver: KernelRegression, penalty: Any, trainer: Trainer) -> Arrays:
        state = trainer.run(_Steps(solver, penalty, self._in_order(blocks))).model
        self.converged_ = solver.converged
        return state

    def _run_ridge(
        self, blocks: Blocks, grams: list[Gram], y: Floats, weight: Floats | None, trainer: Trainer
    ) -> tuple[Blocks, Arrays]:
        """Learn weights of the kernels with the penalty, then the machine that rows left out choose."""
        size, limits = Path(grams, y, weight, SparseMKL(1.0), {}).size(), self._limits()
        limits |= {"tol": max(TOLERANCE, self.tol), "epochs": min(STEPS, limits["epochs"])}
        penalties = [SparseMKL(multiple * size) for multiple in LEARNT]
        first, *others = (KernelRegression(grams, y, p, weight=weight, **limits) for p in penalties)
        learnt = [self._run(blocks, first, penalties[0], trainer)["norms"]]
        learnt += [np.asarray(last(solver).block_norms) for solver in others]
        rows = self._rows_of(blocks, grams, y, weight)
        seed = trainer.seed(lambda: int(check_random_state(self.random_state).randint(2**31 - 1)))
        ridge = chosen_ridge(rows, learnt, seed)
        self.penalty_ = SparseMKL(ridge.strength)
        self.strengths_, self.held_out_errors_ = list(ridge.errors), list(ridge.errors.values())
        tell(f"penalty {self.penalty_!r}, {ridge.told()}", self.verbose, type(self).__name__)
        theta, norms, intercept = fitted_ridge(rows, ridge)
        # The solution is exact for these weights.
        self.converged_ = True
        wide, order = ridge.weights.width, self._in_order(blocks)
        if wide != 1.0:
            blocks = replace(blocks, kernels=[k.widened(wide)[0] if k.has_width else k for k in blocks.kernels])
        # The last entry of the history describes the model, as in other fits.
        weights = order(ridge.weights.kernels)
        shares = {"blocks_kept": int(np.count_nonzero(weights)), "block_weights": weights.tolist()}
        trainer.history[-1] |= {**shares, "block_norms": order(norms).tolist()}
        state = {"theta": theta, "norms": norms, "intercept": np.float64(intercept), "weights": ridge.weights.kernels}
        return blocks, {name: np.asarray(value) for name, value in state.items()}

    def _rows_of(self, blocks: Blocks, grams: list[Gram], y: Floats, weight: Floats | None) -> Rows:
        values: list[Any] = [gram.values for gram in grams if isinstance(gram, DenseGram)]
        sizes = np.array([float(gram.diagonal().any()) for gram in grams])
        free = free_widths(blocks.kernels, [self.blocks_[m] for m in blocks.order])
        return Rows(values, sizes, y, np.ones(y.size) if weight is None else weight, blocks.kernels, free)

    def _pruned(self, blocks: Blocks, X: Any, y: Floats, weight: Floats | None) -> Blocks:
        """Return the blocks that `prune` keeps."""
        seed = 0 if self.prune is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        less = y - np.average(y, weights=weight)
        targets = (less if weight is None else weight * less)[:, None]
        task = Task(self, blocks, X, y, np.ones(y.size) if weight is None else weight)
        blocks, self.pruning_ = pruned(self.prune, task, targets, seed)
        return blocks

    def _given(self, count: int) -> Any:
        """Return the kernels, or the first `count` default ones."""
        if self.kernels is not None:
            return self.kernels
        return [Linear(), Polynomial(2, bias=1.0), Gaussian(), Laplacian()][:count]

    def _limits(self) -> dict[str, Any]:
        if not isinstance(self.epochs, (int, np.integer)) or self.epochs < 1:
            raise ValueError(f"epochs must be an integer >= 1; it is {self.epochs!r}")
        return {"epochs": int(self.epochs), "tol": self.tol}

    def _chosen(self, grams: list[Gram], y: Floats, weight: Floats | None) -> Any:
        """Return the penalty, with a strength from held-out rows if none was given."""
        self.strengths_, self.held_out_errors_ = [], []
        if self.penalty is None:
            return operator("penalty", "zero")
        if not isinstance(self.penalty, str):
            return operator("penalty", self.penalty)
        penalty = SparseMKL(1.0) if self.penalty == "auto" else operator("penalty", self.penalty)
        if not hasattr(penalty, "strength"):
            return penalty
        path = Path(grams, y, weight, penalty, self._limits())
        size = path.size()
        if y.size < 10:
            return with_strength(penalty, MULTIPLES[len(MULTIPLES) // 2] * size)
        multiple, self.held_out_errors_ = chosen_multiple(path, check_random_state(self.random_state))
        self.strengths_ = [float(f"{m * size:.3g}") for m in MULTIPLES[: len(self.held_out_errors_)]]
        return with_strength(penalty, float(f"{multiple * size:.3g}"))

    def _keep(self, blocks: Blocks, scales: Floats, state: Arrays, X: Any) -> None:
        """Store the model in the units of the given kernels."""
        A = state["theta"].reshape(scales.size, -1) / scales[:, None]
        count = len(blocks.kernels)
        weights = [
            np.ascontiguousarray((block.matrix().T @ a)[:, None])
            for block, a in zip(blocks.explicit, A[count:], strict=True)
        ]
        self._model = blocks.model(A[:count, :, None], X, weights)
        self.n_support_ = int(self._model.columns.size)
        self.intercept_ = float(state["intercept"])
        self.block_norms_ = self._in_order(blocks)(state["norms"])
        given = state.get("weights")
        self.block_weights_ = (
            block_weights(self.block_norms_, self.penalty_) if given is None else self._in_order(blocks)(given)
        )

    def _in_order(self, blocks: Blocks) -> Callable[[Any], Floats]:
        """Return the map from norms of blocks to norms of the given kernels, zero for those that were dropped."""

        def in_order(norms: Any) -> Floats:
            found = np.zeros(len(self.blocks_))
            found[blocks.order] = norms
            return found

        return in_order

    # --- what was learnt ---------------------------------------------------------------------------------

    def predict(self, X: Any) -> Floats:
        """Return b + f(x) of each row."""
        rows = self._rows(X)
        return self._model.scores(rows)[:, 0] + self.intercept_

    def explain(self, X: Any) -> list[Explanation]:
        """Explain the prediction of each row by the contribution of each kernel."""
        X = self._rows(X)
        numbers, parts = self._model.by_block(X)
        names = [*named_blocks(self.blocks_, numbers), "intercept"]
        b = np.full((1, X.shape[0], 1), self.intercept_)
        return explain_blocks(None, names, np.concatenate([parts, b]))

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_data(self, X, reset=False, dtype=FLOATS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- files -------------------------------------------------------------------------------------------

    def _blocks_among(self, count: int) -> list[Any]:
        return [*as_kernels(self._given(count))]

    def _fits(self, found: KernelModel) -> bool:
        return found.coef.shape[2] == 1 and bool(np.isfinite(self.intercept_))


class _Steps(Learner):
    """Steps of the solver, for the trainer; `in_order` puts norms of blocks in the order of the given kernels."""

    def __init__(self, solver: KernelRegression, penalty: Any, in_order: Callable[[Any], Floats]) -> None:
        self.solver, self.penalty, self.in_order = solver, penalty, in_order

    def states(self, start: State | None, done: int) -> Iterable[State]:
        """Return the solver."""
        return self.solver

    def entry(self, state: State) -> dict[str, Any]:
        """Return an entry of the history."""
        norms = self.in_order(state.block_norms)
        return {
            **{"epoch": state.k, "objective": state.objective, "loss": state.loss},
            **{"blocks_kept": int(np.count_nonzero(norms)), "block_norms": norms.tolist()},
            "block_weights": block_weights(norms, self.penalty).tolist(),
        }

    def model(self, state: State) -> Arrays:
        """Return coefficients, norms and the intercept."""
        found: Arrays = {"theta": state.theta, "norms": np.asarray(state.block_norms)}
        return {**found, "intercept": state.internal["intercept"]}


def _scaled(blocks: Blocks, weight: Floats | None) -> tuple[list[Gram], Floats]:
    """Return (Gram matrices with a mean diagonal of one, their divisors): kernels, then explicit features."""
    every: list[Any] = [*blocks.grams, *(FeatureGram(block.matrix()) for block in blocks.explicit)]
    scales = np.array([max(float(np.average(gram.diagonal(), weights=weight)), 0.0) for gram in every])
    if not np.isfinite(scales).all():
        raise DataError("a kernel is not finite on the diagonal: scale the columns of X")
    scales[scales == 0.0] = 1.0
    found: list[Gram] = []
    for gram, scale in zip(every, scales.tolist(), strict=True):
        if isinstance(gram, DenseGram):
            found.append(DenseGram(gram.values / gram.values.dtype.type(scale)))
        elif isinstance(gram, FeatureGram):
            found.append(FeatureGram(gram.features / np.sqrt(scale)))
        else:
            found.append(_Divided(gram, scale))
    return found, scales


class _Divided(Gram):
    """A Gram matrix divided by a number, without a copy."""

    def __init__(self, gram: Gram, scale: float) -> None:
        self.gram, self.scale, self.n = gram, scale, gram.n

    def diagonal(self) -> Floats:
        """K(x_i, x_i)."""
        return self.gram.diagonal() / self.scale

    def rows(self, indices: ArrayLike) -> Any:
        """Return these rows of the matrix."""
        return self.gram.rows(indices) / self.scale

    def dot(self, A: ArrayLike) -> Floats:
        """K A."""
        return self.gram.dot(A) / self.scale
