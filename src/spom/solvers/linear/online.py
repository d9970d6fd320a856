"""Algorithm 1 of SPOM, FOBOS and online composite mirror descent, as one iterator of states."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import (
    Floats,
    Ints,
    all_finite,
    check_range,
    check_restored,
    check_saved,
    is_sparse,
    restore_random,
    under,
)
from spom.core.registry import make, register
from spom.core.state import Counters, State
from spom.errors import DataError, Diverged, Unsupported
from spom.penalties import Zero
from spom.solvers import examples
from spom.solvers.linear.data import Rows, as_rows
from spom.solvers.linear.dispatch import engine_for, resolve_projection, resolve_step
from spom.solvers.linear.lazy_multiclass import LazyRows
from spom.solvers.linear.problem import Engine, Problem, Staying
from spom.solvers.linear.proximal_point import ProximalPoint
from spom.solvers.linear.proximal_point_pairs import ProximalPointPairs
from spom.solvers.linear.scores import mean_loss, table_loss
from spom.solvers.linear.streaming_point import StreamingPoint
from spom.solvers.steps import Auto, Step, as_step

OUTPUTS = ("last", "average", "both")


@register(
    "solver",
    "online-proximal",
    examples=lambda: [OnlineProximal(*examples.signs(), epochs=3, random_state=0)],
    cost="O(non-zeros) per round",
)
class OnlineProximal:
    r"""min over theta of Omega(theta) + (1/N) sum_i phi(y_i, <theta, x_i>), one example at a time.

    A round takes a subgradient g of one example's loss (of the mean over a mini-batch), a step in the dual of
    the mirror map, one proximal step for each term of the penalty, and a projection:

        theta <- Pi( prox_{eta Omega_J}( ... prox_{eta Omega_1}(theta - eta g)))

    Iterating yields a `State` after each pass over the data, after each block of a stream, or after every
    `every` rounds. `theta` has shape (features,), or (features, outputs) for a loss of several scores; with
    `fit_intercept` it has one more row, the last, which is not penalised. `loss` of a state is the mean loss
    before each update since the last state; `objective` is computed if `objective=True`.

    Parameters
    ----------
    X, y : a dense or CSR matrix and targets (-1 and +1, real numbers, or class indices from 0, by the loss);
        or, without y, a stream: an iterable of (X, y) or (X, y, sample_weight) blocks, read once.
    loss, penalty, mirror : objects, or registered names. `penalty=None` is no penalty, `mirror=None` Euclidean.
    step : `"auto"` (no number needed, see Notes), a number (constant), `"sqrt"` (1/sqrt(t)), `"epoch"`,
        `"adagrad"`, `"theory"`, a rule of `spom.solvers.steps` with its own numbers, or a function of t = 1, 2, ...
    update : `"forward-backward"`, `"dual-averaging"`, `"proximal-point"`, or `"auto"`.
    projection : a set of `spom.penalties`, the radius of an l2 ball, or `"auto"`: the ball that contains the optimum
        anyway (Prop. 9 of SPOM).
    output : `"last"` iterate, `"average"` of the iterates, or `"both"`: theta is the last, `internal["average"]`
        the average.
    epochs, shuffle, batch_size, sample_weight, fit_intercept, random_state : as in scikit-learn;
        `batch_size=None` takes the full gradient. Weights are scaled to mean one (in a stream they are not).
    outputs : the number of scores of a multiclass loss; by default one more than the largest class in y.
    lazy : None chooses; False updates all of theta in each round; True insists on the lazy update.
    n_jobs : threads of proximal points of one score; everything else uses one. Each works on a part of the rows, and
        the result is the same for the same number. A pass with more threads makes less progress (on a million
        sparse rows 0.8, 3.6 and 9 % less for 2, 4 and 8), so many threads are only useful for many passes.
    regret : keep sum over t of Omega(theta_t) + phi_t(theta_t) in `internal["cumulative"]`; one state per round.
    start : a state to resume from: the same data give the same bits; other data continue the learning.

    Notes
    -----
    `step="auto"` needs no number. With an l1, squared l2 or elastic net penalty (for several scores also with l1/l2 or
    l1/l-inf over rows) it is the proximal point method with implicit dual steps (`update="proximal-point"`), which
    on data in memory stores one number per score and example and converges to the optimum, and on a stream, for
    one score, is implicit dual averaging. Otherwise it is distance over gradients, per coordinate if the penalty allows
    it. Both are compared with the best step of a grid in `benchmarks/online.py`.

    Sparse rows cost time for their non-zeros only, wherever skipped proximal steps have a closed form. If they have
    none and the data are wide, `Unsupported` is raised and names what would work.

    Examples
    --------
    >>> import numpy as np
    >>> from spom.penalties import L1
    >>> from spom.solvers.iterate import last
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 20))
    >>> y = np.sign(X[:, 0] - X[:, 1])
    >>> state = last(OnlineProximal(X, y, loss="logistic", penalty=L1(0.05), epochs=10, random_state=0))
    >>> np.flatnonzero(state.theta)
    array([0, 1])
    """

    # Whether proximal points compare passes on all rows, as a run to the optimum needs.
    exact = False

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        loss: Any = "logistic",
        penalty: Any = None,
        mirror: Any = None,
        step: Any = "auto",
        update: str = "auto",
        projection: Any = None,
        output: str = "last",
        epochs: int = 1,
        shuffle: bool = True,
        batch_size: int | None = 1,
        fit_intercept: bool = False,
        sample_weight: ArrayLike | None = None,
        outputs: int | None = None,
        lazy: bool | None = None,
        n_jobs: int = 1,
        objective: bool = False,
        regret: bool = False,
        every: int | None = None,
        random_state: Any = None,
        start: State | None = None,
    ) -> None:
        self.loss = make("loss", loss) if isinstance(loss, str) else loss
        self.penalty = Zero() if penalty is None else make("penalty", penalty) if isinstance(penalty, str) else penalty
        self.mirror = make("mirror", mirror) if isinstance(mirror, str) else mirror
        if self.mirror is not None and type(self.mirror).__name__ == "Euclidean":
            self.mirror = None
        self.step: Step = as_step(step)
        self.update, self.projection, self.output = update, projection, output
        self.epochs, self.shuffle, self.batch_size = epochs, shuffle, batch_size
        self.fit_intercept, self.outputs, self.lazy, self.n_jobs = bool(fit_intercept), outputs, lazy, n_jobs
        self.objective, self.regret, self.start = objective, regret, start
        self.every = 1 if regret else every
        self.random_state = random_state
        self._check()
        self.X, self.y, self.sample_weight = X, y, sample_weight
        self.engine: Engine | None = None

    def _check(self) -> None:
        if self.output not in OUTPUTS:
            raise Unsupported(f"unknown output {self.output!r}; available: {', '.join(OUTPUTS)}")
        for name, value, least in (("epochs", self.epochs, 0), ("n_jobs", self.n_jobs, 1)):
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}; it is {value!r}")
        for name, size in (("batch_size", self.batch_size), ("every", self.every)):
            if size is not None and (not isinstance(size, (int, np.integer)) or size < 1):
                raise ValueError(f"{name} must be an integer >= 1 or None; it is {size!r}")

    # --- the data --------------------------------------------------------------------------------------

    @property
    def stream(self) -> bool:
        """Whether the data come in blocks."""
        return self.y is None

    @property
    def _checks_later(self) -> bool:
        """Whether the engine itself detects that X is not finite; a separate check takes a twentieth of a pass."""
        return isinstance(self.step, Auto) and not self.stream and self.start is None

    def _rows(self, X: Any, y: Any, weight: Any, columns: int | None) -> Rows:
        mean, finite = not self.stream, not self._checks_later
        return as_rows(X, y, weight, self.loss.target, columns=columns, mean=mean, finite=finite, jobs=self.n_jobs)

    def _blocks(self) -> Iterator[Rows]:
        columns: int | None = None
        for block in self.X:
            if not isinstance(block, tuple) or len(block) not in (2, 3):
                raise DataError("a stream must give (X, y) or (X, y, sample_weight) blocks; did you forget y?")
            rows = self._rows(block[0], block[1], block[2] if len(block) == 3 else None, columns)
            columns = rows.columns
            if len(rows):
                yield rows

    # --- the run ---------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[State]:
        run = Run(self)
        if self.stream:
            for rows in self._blocks():
                yield from run.block(rows)
            return
        yield from run.passes(self._whole())

    def _whole(self) -> Rows:
        """Return the data in memory."""
        rows = self._rows(self.X, self.y, self.sample_weight, None)
        if len(rows) == 0:
            raise DataError("X has no rows: there is nothing to learn from")
        return rows

    def _engine(self, problem: Problem, rows: Rows) -> Engine:
        """Return the engine that runs the rounds."""
        return engine_for(problem, rows)


class Run:
    """One iteration over a solver: its engine, its random numbers and its counts."""

    def __init__(self, solver: OnlineProximal) -> None:
        self.solver = solver
        self.random = np.random.default_rng(solver.random_state)
        self.start = solver.start
        self.begin = time.perf_counter()
        self.seconds = 0.0 if self.start is None else self.start.seconds
        self.rounds = self.examples = self.epoch = 0
        self.cumulative = 0.0
        self.engine: Engine | None = None

    def _set_up(self, rows: Rows) -> Engine:
        """Create the engine at its start, which is zero or the state to resume from, and return it."""
        s = self.solver
        outputs = self._outputs(rows)
        size = rows.columns + s.fit_intercept
        shape: tuple[int, ...] = (size,) if outputs is None else (size, outputs)
        self.step = resolve_step(s.step, s.loss, s.penalty, s.mirror, rows)
        self.batch = len(rows) if s.batch_size is None else s.batch_size
        problem = Problem(
            s.loss,
            s.penalty,
            s.mirror,
            resolve_projection(s.projection, s.loss, s.penalty, rows, outputs),
            self.step,
            s.update,
            shape,
            s.fit_intercept,
            self.batch,
            s.output != "last",
            s.lazy,
            s.stream,
            s.n_jobs,
            s.exact,
        )
        engine = self.engine = s.engine = s._engine(problem, rows)
        if s._checks_later and not isinstance(engine, ProximalPoint):
            rows.check_finite(s.n_jobs)
        if self.start is not None:
            self._restore(engine, rows, shape)
        return engine

    def _outputs(self, rows: Rows) -> int | None:
        if self.solver.loss.target != "class":
            return None
        largest = int(rows.y.max()) + 1
        wanted = self.solver.outputs if self.solver.outputs is not None else max(2, largest)
        if largest > wanted:
            raise DataError(f"y has the class {largest - 1}, but there are {wanted} outputs: pass all classes")
        return wanted

    def _restore(self, engine: Engine, rows: Rows, shape: tuple[int, ...]) -> None:
        state = self.start
        assert state is not None
        theta = state.internal.get("iterate", state.theta)
        if theta.shape != shape:
            raise DataError(f"the state to resume from has theta of shape {theta.shape}, the data need {shape}")
        if theta.dtype.kind != "f" or not np.isfinite(_numbers(theta)).all():
            raise DataError("the state to resume from has weights that are not finite numbers: it is damaged")
        inner = under(state.internal, "engine.")
        late = {name: a for name, a in inner.items() if name.startswith("late")}
        if not all(a.dtype == np.float64 and np.isfinite(a).all() for a in late.values()):
            raise DataError("the state to resume from has numbers that are not finite: it is damaged")
        if is_sparse(theta) and not isinstance(engine, ProximalPointPairs):
            theta = theta.toarray()
        engine.unpack(theta, check_saved(inner, engine.pack(), len(rows)) | late)
        if isinstance(engine, (StreamingPoint, LazyRows)) and not inner:
            engine.earlier = float(state.k)
        self.rounds, self.examples = state.k, state.counters.examples
        counts = {"epoch": np.array(0), "cumulative": np.array(0.0)}
        kept = check_restored({**counts, **state.internal}, counts)
        self.epoch, self.cumulative = int(kept["epoch"]), float(kept["cumulative"])
        restore_random(self.random, state.random)

    def _order(self, rows: Rows) -> Ints:
        """Return the order of the rows in one pass."""
        return self.random.permutation(len(rows)) if self.solver.shuffle else np.arange(len(rows))

    # --- data in memory --------------------------------------------------------------------------------

    def passes(self, rows: Rows) -> Iterator[State]:
        """Make `epochs` passes over the rows, including those of the state to resume from."""
        engine = self._set_up(rows)
        left = np.zeros(0, dtype=np.int64)
        if self.start is not None and "order" in self.start.internal:
            left = check_range(self.start.internal["order"], 0, len(rows), "order")
            if left.ndim != 1 or left.dtype != np.int64:
                raise DataError("the saved state has an order of rows that is not a list of integers: it is damaged")
        while self.epoch < self.solver.epochs or left.size:
            if left.size:
                order = left
            else:
                order = self._order(rows)
                self.epoch += 1
            left = left[:0]
            yield from self._rounds(engine, rows, order)

    def block(self, rows: Rows) -> Iterator[State]:
        """Make one pass over a block of a stream."""
        engine = self.engine or self._set_up(rows)
        order = self._order(rows)
        self.epoch += 1
        yield from self._rounds(engine, rows, order)

    def stay(self, rows: Rows) -> bool:
        """Make one pass over a small block, without a state; return False if the engine cannot.

        If it returns False, or raises the error for a step that is too large, nothing has changed.
        """
        engine = self.engine or self._set_up(rows)
        small = not rows.dense and rows.data.size < rows.columns
        plain = self.solver.output == "last" and not self.solver.regret and self.solver.every is None
        if not (small and plain and isinstance(engine, Staying)):
            return False
        random = self.random.bit_generator.state
        finite = engine.mark(np.unique(rows.indices).astype(np.int64))
        order = self._order(rows)
        batch = min(self.batch, len(rows))
        count = -(-order.size // batch)
        steps = self.step.sizes(self.rounds + 1, count, count)
        total = engine.run_late(rows, order, steps)
        if total is None or not finite():
            self.random.bit_generator.state = random
            if total is None:
                return False
            raise _infinite(self.rounds + count)
        self.rounds, self.examples, self.epoch = self.rounds + count, self.examples + order.size, self.epoch + 1
        mass = float(rows.weight.sum())
        self._met = rows, total / mass if mass > 0 else np.nan, float(steps[-1])
        return True

    def state(self) -> State:
        """Return the state after the last block that `stay` took."""
        assert self.engine is not None
        return self._state(self.engine, *self._met, np.zeros(0, dtype=np.int64))

    def _rounds(self, engine: Engine, rows: Rows, order: Ints) -> Iterator[State]:
        """Run the rounds of one pass, in parts of `every`."""
        batch = min(self.batch, len(rows))
        per_pass = -(-order.size // batch)
        part = self.solver.every or per_pass
        epoch_rounds = -(-len(rows) // batch)
        for first in range(0, per_pass, part):
            count = min(part, per_pass - first)
            steps = self.step.sizes(self.rounds + 1, count, epoch_rounds)
            chosen = np.ascontiguousarray(order[first * batch : (first + count) * batch])
            omega = self.solver.penalty.value(self._penalised(engine.theta())) if self.solver.regret else 0.0
            total = engine.run(rows, chosen, steps)
            self.rounds += count
            self.examples += chosen.size
            mass = float(rows.weight[chosen].sum())
            mean = total / mass if mass > 0 else np.nan
            if self.solver.regret:
                self.cumulative += omega + total / chosen.size
            yield self._state(engine, rows, mean, float(steps[-1]), order[(first + count) * batch :])

    # --- a state ---------------------------------------------------------------------------------------

    def _penalised(self, theta: Any) -> Floats:
        if is_sparse(theta):
            # The penalty is one of single entries, to which zeros do not contribute.
            return np.asarray(theta[: theta.shape[0] - self.solver.fit_intercept].data)
        return np.ascontiguousarray(theta[: theta.shape[0] - self.solver.fit_intercept])

    def _state(self, engine: Engine, rows: Rows, mean: float, step: float, left: Ints) -> State:
        s = self.solver
        theta = iterate = engine.theta()
        if not all_finite(_numbers(iterate)):
            raise _infinite(self.rounds)
        internal: dict[str, Any] = {f"engine.{name}": a for name, a in engine.pack().items()}
        internal["epoch"] = np.array(self.epoch)
        if left.size:
            internal["order"] = left.copy()
        if s.regret:
            internal["cumulative"] = np.array(self.cumulative)
        if s.output != "last":
            average = engine.average()  # type: ignore[attr-defined]  # engines that average have it
            if s.output == "average":
                theta, internal["iterate"] = average, iterate
            else:
                internal["average"] = average
        return State(
            k=self.rounds,
            theta=theta,
            step=np.nan if isinstance(self.step, Auto) else step,
            loss=mean,
            objective=self._objective(rows, theta) if s.objective else np.nan,
            block_norms=self._block_norms(theta),
            counters=Counters(gradients=self.rounds, proxes=self.rounds, examples=self.examples),
            seconds=self.seconds + time.perf_counter() - self.begin,
            internal=internal,
            random=self.random.bit_generator.state,  # type: ignore[arg-type]  # numpy types it as a mapping
        )

    def _block_norms(self, theta: Floats) -> Floats | None:
        norms = getattr(self.solver.penalty, "group_norms", None)
        return None if norms is None else np.asarray(norms(self._penalised(theta)))

    def _objective(self, rows: Rows, theta: Floats) -> float:
        s = self.solver
        omega = float(s.penalty.value(self._penalised(theta)))
        if theta.ndim == 1:
            order = np.arange(len(rows))
            return mean_loss(rows, order, theta, s.fit_intercept, s.loss) + omega
        return table_loss(rows, np.arange(len(rows)), theta, s.fit_intercept, s.loss) + omega


def _numbers(theta: Any) -> Floats:
    return theta.data if is_sparse(theta) else theta.reshape(-1)  # type: ignore[no-any-return]  # both are arrays


def _infinite(rounds: int) -> Diverged:
    return Diverged(
        f"theta became infinite in round {rounds}: the step is too large for these data; scale X, lower the step, or "
        "use step='auto'"
    )
