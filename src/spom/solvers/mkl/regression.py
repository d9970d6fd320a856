r"""Regression with several kernels: accelerated proximal gradient steps in the spaces of the kernels.

    min over theta and b of  h(norm(theta_1), ..., norm(theta_M)) + 1/2 sum_i w_i (y_i - b - f(x_i))^2,
    f(x) = sum_m <theta_m, phi_m(x)>,  theta_m = sum_i a_mi phi_m(x_i),  sum_i w_i = 1.

With r_i = w_i (f(x_i) + b - y_i), at the best b, a step of length 1 / L subtracts r / L from every a_m, and the prox
scales each block to its new norm: blocks that are switched off are exactly zero. A step costs only one product of each
Gram matrix with r, since the outputs f_m = K_m a_m are updated along with a_m. The momentum restarts
when the objective rises. The duality gap tells when to stop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats
from spom.core.registry import register
from spom.core.state import Counters, State
from spom.errors import DataError, SpomError
from spom.kernels.gram import DenseGram, Gram, as_gram
from spom.solvers import examples
from spom.solvers.batch.duality import feasible
from spom.solvers.mkl.problem import on_norms

# Power iterations for the first guess of L; a step doubles a guess that is too low.
POWER = 20


def product(gram: Gram, r: Floats) -> Floats:
    """K r, without a copy of K in another precision."""
    if isinstance(gram, DenseGram):
        return np.asarray(gram.values @ r.astype(gram.values.dtype, copy=False), dtype=np.float64)
    return gram.dot(r)


@dataclass
class _Point:
    """Coefficients a_m and their outputs f_m = K_m a_m, one row per kernel."""

    a: Floats
    f: Floats

    def norms(self) -> Floats:
        """norm(theta_m) = sqrt(a_m' K_m a_m)."""
        return np.asarray(np.sqrt(np.maximum((self.a * self.f).sum(axis=1), 0.0)))

    def plus(self, c: float, other: _Point) -> _Point:
        """self + c (self - other)."""
        return _Point(self.a + c * (self.a - other.a), self.f + c * (self.f - other.f))

    def distance(self, other: _Point) -> float:
        """Return the squared distance in the spaces of the kernels."""
        return float(((self.a - other.a) * (self.f - other.f)).sum())


@register(
    "solver",
    "kernel-regression",
    examples=lambda: [KernelRegression(*examples.two_grams(), epochs=5)],
    cost="a product with each Gram matrix per step",
)
class KernelRegression:
    r"""min over theta, b of Omega(theta) + 1/2 sum_i w_i (y_i - b - f(x_i))^2, with a block per kernel.

    Iterating yields a `State` after each step, until the duality gap is at most `tol` times the objective at theta = 0,
    or for `epochs` steps. `theta` is the coefficients, one row per kernel.

    Parameters
    ----------
    grams : Gram matrices, as arrays, scipy sparse matrices or `Gram` objects.
    y : real targets.
    penalty : a penalty of block norms (`SparseMKL`, `GroupLasso`, `LqMKL`, `ElasticNetMKL`, `SquaredL2`, ...).
    weight : a weight per example; they are divided by their sum.
    fit_intercept : whether there is an unpenalised b.
    start : a state to start from (only its coefficients).

    Examples
    --------
    >>> import numpy as np
    >>> from spom.penalties import SparseMKL
    >>> from spom.solvers.iterate import last
    >>> x = np.linspace(-1.0, 1.0, 9)
    >>> solver = KernelRegression([np.outer(x, x), np.outer(x**2, x**2)], x**2, SparseMKL(1e-3))
    >>> (last(solver).block_norms > 0).tolist()
    [False, True]
    """

    def __init__(
        self,
        grams: Sequence[Any],
        y: ArrayLike,
        penalty: Any,
        *,
        weight: ArrayLike | None = None,
        fit_intercept: bool = True,
        epochs: int = 1000,
        tol: float = 1e-4,
        start: State | None = None,
    ) -> None:
        self.grams = [as_gram(g, f"the Gram matrix of kernel {m}", check=False) for m, g in enumerate(grams)]
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        n = self.y.size
        if not self.grams or any(gram.n != n for gram in self.grams):
            raise DataError(f"there must be Gram matrices of {n} rows, one row for each target")
        w = np.ones(n) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
        self.w = w / w.sum()
        self.h = on_norms(penalty, len(self.grams))
        self.fit_intercept, self.epochs, self.tol, self.start = fit_intercept, int(epochs), float(tol), start
        self.converged, self.products = False, 0

    # --- the problem -----------------------------------------------------------------------------------

    def residuals(self, f: Floats) -> Floats:
        """f + b - y at the best b."""
        found = f - self.y
        return found - self.w @ found if self.fit_intercept else found

    def intercept(self, f: Floats) -> float:
        """Return the best b for these outputs."""
        return float(self.w @ (self.y - f)) if self.fit_intercept else 0.0

    def _loss(self, point: _Point) -> float:
        left = self.residuals(point.f.sum(axis=0))
        return 0.5 * float(self.w @ left**2)

    def _products(self, r: Floats) -> Floats:
        self.products += len(self.grams)
        return np.array([product(gram, r) for gram in self.grams])

    def _largest(self) -> float:
        """Return the largest eigenvalue of sqrt(W) (sum of all K_m) sqrt(W), approximately."""
        root, v = np.sqrt(self.w), np.sqrt(self.w) + 1e-3 * np.cos(np.arange(self.y.size))
        size = 0.0
        for _ in range(POWER):
            v /= max(float(np.linalg.norm(v)), 1e-300)
            v = root * self._products(root * v).sum(axis=0)
            size = float(np.linalg.norm(v))
        return max(size, 1e-12)

    def gap(self, point: _Point, KR: Floats, r: Floats) -> float:
        """Return the duality gap at a point with residuals r / w and products K_m r; nan if no conjugate is known."""
        u = np.sqrt(np.maximum(KR @ r, 0.0))
        try:
            c, conjugate = feasible(self.h, u)
        except (SpomError, NotImplementedError):
            return np.nan
        some = self.w > 0
        dual = float((r[some] ** 2 / self.w[some]).sum()) * 0.5 * c * c + c * float(self.y @ r) + conjugate
        return float(self.h.value(point.norms())) + self._loss(point) + dual

    # --- the run ---------------------------------------------------------------------------------------

    def _beginning(self) -> _Point:
        shape = (len(self.grams), self.y.size)
        a = np.zeros(shape) if self.start is None else self.start.theta.reshape(shape).copy()
        f = np.array([product(gram, row) for gram, row in zip(self.grams, a, strict=True)])
        return _Point(a, f)

    def _step(self, z: _Point, KR: Floats, r: Floats, L: float) -> tuple[_Point, float]:
        """Return the point after a proximal step from z, and the L for which the step is safe."""
        loss = self._loss(z)
        while True:
            moved = _Point(z.a - r / L, z.f - KR / L)
            norms = moved.norms()
            scale = np.divide(self.h.prox(norms, 1.0 / L), norms, out=np.zeros_like(norms), where=norms > 0.0)[:, None]
            after = _Point(scale * moved.a, scale * moved.f)
            slope = float(r @ (after.f - z.f).sum(axis=0))
            bound = loss + slope + 0.5 * L * after.distance(z)
            if self._loss(after) <= bound + 1e-12 * abs(loss) or L > 1e300:
                return after, L
            L *= 2.0

    def __iter__(self) -> Iterator[State]:
        begin, self.converged, self.products = time.perf_counter(), False, 0
        x = z = self._beginning()
        L, t, value = 1.02 * self._largest(), 1.0, np.inf
        most = max(self._loss(_Point(0.0 * x.a, 0.0 * x.f)), 1e-300)
        for k in range(1, self.epochs + 1):
            r = self.w * self.residuals(z.f.sum(axis=0))
            KR = self._products(r)
            if self.gap(z, KR, r) <= self.tol * most:
                x, self.converged = z, True
            else:
                after, L = self._step(z, KR, r, L)
                new = self._objective(after)
                if new > value:
                    # The momentum led uphill, so the next step does without it.
                    z, t, value = x, 1.0, np.inf
                    continue
                faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
                z, x, t, value = after.plus((t - 1.0) / faster, x), after, faster, new
            yield self._state(x, k, 1.0 / L, time.perf_counter() - begin)
            if self.converged:
                return

    def _objective(self, point: _Point) -> float:
        return float(self.h.value(point.norms())) + self._loss(point)

    def _state(self, x: _Point, k: int, step: float, seconds: float) -> State:
        loss = self._loss(x)
        norms = x.norms()
        return State(
            k=k,
            theta=x.a.reshape(-1).copy(),
            step=step,
            objective=float(self.h.value(norms)) + loss,
            loss=loss,
            block_norms=norms,
            counters=Counters(gradients=k, proxes=k, examples=self.products),
            seconds=seconds,
            internal={"intercept": np.array(self.intercept(x.f.sum(axis=0)))},
        )
