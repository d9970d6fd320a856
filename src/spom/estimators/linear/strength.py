r"""The choice of a strength without a number: several strengths on a part of the rows, judged on the others.

Strengths are multiples of a size that depends on the data. For a squared penalty the size is L R^2 / N, with L the
smoothness of the loss and R^2 the mean squared norm of a row: at this strength, an example alone moves its own score by
about one unit. For a penalty that can make all weights zero it is the smallest strength that does. The path goes from
strong to weak over 85 % of the rows, with two passes for the first strength and one for each other, each with a warm
start from the previous one. It ends once the held-out rows get worse twice in a row. With fewer than 1,000 rows several
parts are held out in turn, so at least 150 rows, or most of them, judge. Under a squared penalty one compiled call
makes a pass of all parts (`RidgePaths`).

Held-out rows are judged by their log-loss after the scores were multiplied by the best number (classes), or by their
loss (real targets). A default multiple is kept unless another one is better by more than the standard error of the
difference, row by row (two of them for real targets, where a few rows may have most of the loss). So a few rows
decide little. The same rule, by accuracy, decides between losses.

For the squared loss with a squared penalty on dense data every row is held out, exactly (`leaving_out`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from spom.core.arrays import Floats, Ints
from spom.core.state import State
from spom.errors import DataError, Unsupported
from spom.estimators.linear.judging import Trial, best_trial, judged, surely_better
from spom.estimators.linear.leaving_out import errors_left_out, is_small, solution
from spom.losses import Squared
from spom.penalties.base import with_strength
from spom.solvers.iterate import last
from spom.solvers.linear.data import Rows, as_rows
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.linear.proximal_point import ENTRIES
from spom.solvers.linear.ridge_paths import RidgePaths
from spom.solvers.linear.scores import table_scores

# The share of held-out rows, and their maximum number: more rows would not change the choice of a strength.
PART, MOST_HELD = 0.15, 10_000
# If the part has fewer rows than this, further parts are held out, at most six: ten rows, as on iris, choose no better
# than a guess. With 450 instead of 150, texts of 200 and 1,000 rows lost .001 and .002 (ten sets), and tables of 500
# rows gained .0004 (39 tables), in up to twice the time; three parts instead of six lost .002 with 60 rows.
LEAST_HELD, MOST_PARTS = 150, 6
# Fewer rows than this are not divided: the default multiple is used.
FEW = 10
# Multiples of the size, strong to weak, the defaults, and the number of standard errors needed to leave them. Tried on
# rows held out from the training rows of 31 problems with classes and of 12 with real targets, with one family of sets
# left out at a time (benchmarks/defaults/leave_one_out.py, docs: defaults). Classes: the optimum is flat. Defaults of
# .03 to .3 lose .006 to .007 to the best strength if rows outnumber features, and .012 to .014 otherwise (WIDE),
# where .3 is what inner splits of whole sets of texts had chosen before. Real targets: two errors lose less than one.
CLASSES, CLASSES_DEFAULT, WIDE_DEFAULT, CLASSES_ERRORS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001), 0.03, 0.3, 1.0
REAL, REAL_DEFAULT, REAL_ERRORS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001), 1.0, 2.0
# For rows left out one at a time. On cuts of 40 to 2,000 rows of 79 tables, 69 of which were not used to choose the
# values above (docs: defaults), the mean R^2 of the tables is below that of the best strength by .028, by .032 with a
# default of 1 and 1.5 errors, and by .027 with half an error. On 63 other tables: by .037, .044 and .037.
LEFT_OUT, LEFT_OUT_DEFAULT, LEFT_OUT_ERRORS = (*REAL, 3e-4, 1e-4, 3e-5, 1e-5), 3.0, 1.0
ZEROING, ZEROING_DEFAULT = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001), 0.01
# The number of worse strengths in a row that ends the path.
PATIENCE = 2
# The share of the log-loss that another scale of the columns must save.
LEAST_GAIN = 0.02


@dataclass(frozen=True)
class Examples:
    """Rows as a solver takes them: targets in the form of the loss, and the number of scores, `outputs` (None: one).

    `distinct` tells that equal rows are merged.
    """

    X: Any
    y: Any
    weight: Floats | None
    outputs: int | None
    intercept: bool
    distinct: bool = False

    def part(self, rows: Ints) -> Examples:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weight=weight)

    def scores(self, theta: Floats) -> Floats:
        """Return the scores of theta, whose last row is the intercept if there is one."""
        return table_scores(self.X, theta, self.intercept)

    @property
    def weights(self) -> Floats:
        """The weights of the rows, by default ones."""
        return np.ones(self.X.shape[0]) if self.weight is None else self.weight

    @cached_property
    def squares(self) -> Floats:
        """The squared norm of each row."""
        return np.asarray(row_norms(self.X, squared=True))


@dataclass(frozen=True)
class Choice:
    """The result of a choice. `calibration` times the scores are log-odds; `held` rows were held out (0: a default).

    `best` is the trial of the choice, `weight` the weights of the held-out rows. `theta` is the optimum on all
    rows, if the choice computed it.
    """

    penalty: Any
    loss: Any
    calibration: float
    held: int
    trials: tuple[Trial, ...] = ()
    best: Trial | None = None
    weight: Floats | None = None
    theta: Floats | None = None

    def __str__(self) -> str:
        how = f"chosen on {self.held:,} held-out rows" if self.held else "a default: too few rows to hold some out"
        return f"penalty {self.penalty!r}, loss {self.loss!r} ({how})"


Path = Callable[[Examples, Any, Iterable[Any], int], Iterator[Floats]]


@dataclass(frozen=True)
class Judges:
    """Parts of the examples that are held out in turn."""

    examples: Examples
    held: list[Ints]

    @cached_property
    def others(self) -> list[Ints]:
        """The rows to learn from, for each part."""
        every = np.ones(self.examples.X.shape[0], dtype=np.bool_)
        found = []
        for part in self.held:
            every[part] = False
            found.append(np.flatnonzero(every))
            every[part] = True
        return found

    @cached_property
    def rows(self) -> Examples:
        """The rows of all parts together."""
        return self.examples.part(np.concatenate(self.held))

    @cached_property
    def _parts(self) -> tuple[Rows, Ints, Rows, Ints]:
        """The rows to learn from and the held-out ones, those of all parts together, and where parts begin."""
        taken = self.examples.part(np.concatenate(self.others))
        options: dict[str, Any] = {"mean": False, "finite": False}
        rows = as_rows(taken.X, taken.y, taken.weight, "real", **options)
        ends = np.append(0, np.cumsum([part.size for part in self.others]))
        mass = np.add.reduceat(rows.weight, ends[:-1])
        if not mass.all():
            raise DataError("sample_weight is zero for all rows but those held out: give more rows a weight")
        rows.weight[:] *= np.repeat(np.diff(ends) / mass, np.diff(ends))
        apart = as_rows(self.rows.X, self.rows.y, None, "real", **options)
        return rows, ends, apart, np.append(0, np.cumsum([part.size for part in self.held]))

    def scores(self, path: Path | None, loss: Any, penalty: Any, multiples: Sequence[float], seed: int) -> Any:
        """Yield the scores of all rows for each multiple, from weights learnt without them."""
        form = penalty.elastic()
        smooth = loss.target != "class" or loss.hoelder[0] > 0.0
        entries = sum(part.size for part in self.others) / max(1, self.examples.X.shape[0]) * self.examples.X.size
        if path is None and form is not None and form.l1 == 0.0 and smooth and entries <= ENTRIES:
            yield from self._ridge(loss, penalty, multiples, seed)
            return
        trains = [self.examples.part(part) for part in self.others]
        tests = [self.examples.part(part) for part in self.held]
        sizes = [grid_of(penalty, train, loss)[0] for train in trains]
        paths = [
            (path or online_path)(train, loss, (with_strength(penalty, m * size) for m in multiples), seed)
            for train, size in zip(trains, sizes, strict=True)
        ]
        for thetas in zip(*paths, strict=True):
            yield np.concatenate([test.scores(theta) for test, theta in zip(tests, thetas, strict=True)])

    def _ridge(self, loss: Any, penalty: Any, multiples: Sequence[float], seed: int) -> Iterator[Floats]:
        """Yield the same as `scores` for a squared penalty, with one compiled call for the passes of all parts."""
        examples = self.examples
        run = RidgePaths(*self._parts, loss, examples.outputs, intercept=examples.intercept, seed=seed)
        squares, weight, unit = examples.squares, examples.weights, with_strength(penalty, 1.0).elastic().l2
        sizes = np.array([unit * _size(loss, squares[part], weight[part]) for part in self.others])
        for k, multiple in enumerate(multiples):
            yield run.scores(multiple * sizes, 1 if k else 2)


class _Run(NamedTuple):
    """The run of a path: its seed, its solver (None: online passes), and the trial of another loss to compare with."""

    seed: int
    path: Path | None
    rival: Trial | None


def choose(
    examples: Examples,
    losses: list[Any],
    penalty: Any,
    seed: int,
    path: Path | None = None,
    parts: list[Ints] | None = None,
) -> Choice:
    """Choose the best strength for `penalty`, and the best of `losses`, the first of which is the default.

    `path` solves for each penalty of a sequence in turn; by default by two online passes, then one for each. `parts`
    are those of `held_out`, if they are known.
    """
    parts = held_out(examples, seed) if parts is None else parts
    form = penalty.elastic()
    if parts and form is not None and form.l1 == 0.0 and isinstance(losses[0], Squared) and is_small(examples):
        return _ridge(examples, losses[0], penalty)
    if not parts:
        # There are no rows to calibrate scores on: a likelihood needs no calibration.
        loss = next((loss for loss in losses if loss.probabilistic), losses[0])
        size, _, default = grid_of(penalty, examples, loss)
        return Choice(_strong(penalty, default * size), loss, 1.0, 0)
    judges = Judges(examples, parts)
    weight = judges.rows.weights
    found: list[tuple[Trial, Any, list[Trial], float]] = []
    for loss in losses:
        size, multiples, default = grid_of(penalty, examples, loss)
        run = _Run(seed, path, found[0][0] if found else None)
        trials = list(_trials(judges, loss, penalty, multiples, run))
        errors = REAL_ERRORS if loss.target == "real" else CLASSES_ERRORS
        found.append((best_trial(trials, default, weight, errors), loss, trials, size))
    best, loss, trials, size = found[0]
    for other in found[1:]:
        if surely_better(other[0].right, best.right, weight):
            best, loss, trials, size = other
    strong = _strong(penalty, best.multiple * size)
    return Choice(strong, loss, best.calibration, weight.size, tuple(trials), best, weight)


def _ridge(examples: Examples, loss: Any, penalty: Any) -> Choice:
    """Return the strength of a squared penalty under the squared loss, with rows left out one at a time."""
    size = grid_of(penalty, examples, loss)[0]
    n = examples.X.shape[0]
    rows = np.arange(n) if n <= MOST_HELD else np.linspace(0, n - 1, MOST_HELD).astype(np.int64)
    errors = errors_left_out(examples, size * np.array(LEFT_OUT), rows)
    trials = tuple(Trial(m, row, -row, 1.0) for m, row in zip(LEFT_OUT, 0.5 * errors**2, strict=True))
    weight = examples.weights[rows]
    best = best_trial(trials, LEFT_OUT_DEFAULT, weight, LEFT_OUT_ERRORS)
    strong = _strong(penalty, best.multiple * size)
    form = strong.elastic()
    return Choice(strong, loss, 1.0, weight.size, trials, best, weight, solution(examples, form.l2))


def online_path(examples: Examples, loss: Any, penalties: Iterable[Any], seed: int) -> Iterator[Floats]:
    """Yield theta for each penalty, each with a warm start from the previous one."""
    start: State | None = None
    for k, penalty in enumerate(penalties, 1):
        solver = OnlineProximal(
            examples.X,
            examples.y,
            loss=loss,
            penalty=penalty,
            epochs=k + 1 if start is None or start.internal else 1,
            fit_intercept=examples.intercept,
            sample_weight=examples.weight,
            outputs=examples.outputs,
            random_state=seed,
            start=start,
        )
        state = last(solver)
        # Proximal points store their examples; for any other engine only the point is worth keeping.
        start = state if "engine.slopes" in state.internal else State(k=0, theta=state.theta)
        yield state.theta


# --- grids ------------------------------------------------------------------------------------------


def grid_of(penalty: Any, examples: Examples, loss: Any) -> tuple[float, tuple[float, ...], float]:
    """Return (size, multiples, default): strengths are multiples of `size`, strong to weak."""
    if "strength" not in penalty.get_params(deep=False):
        raise Unsupported(f"{type(penalty).__name__} has no strength to choose: give it as an object")
    form = penalty.elastic()
    if form is None or form.l1 > 0.0:
        top = float(with_strength(penalty, 1.0).max_strength(_slope(examples)))
        if np.isfinite(top):
            return top if top > 0.0 else 1.0, ZEROING, ZEROING_DEFAULT
    size = _size(loss, examples.squares, examples.weights)
    if loss.target == "real":
        return size, REAL, REAL_DEFAULT
    return size, CLASSES, WIDE_DEFAULT if is_wide(examples.X) else CLASSES_DEFAULT


def _size(loss: Any, squares: Floats, weight: Floats) -> float:
    """Return L R^2 / N of rows with these squared norms and weights."""
    exponent, constant = loss.hoelder
    total = float(weight.sum())
    # The effective number of rows: all of them, or fewer if some weigh much more than others.
    count = total**2 / float(weight @ weight)
    return (float(constant) if exponent > 0 else 1.0) * (float(weight @ squares) / total) / count or 1.0


def is_wide(X: Any) -> bool:
    """Tell whether data are sparse with at least as many features as rows, as texts have."""
    return bool(sparse.issparse(X) and X.shape[1] >= X.shape[0])


def _slope(examples: Examples) -> Floats:
    """Return the gradient of a likelihood at zero weights and the best constant: residuals times rows."""
    y = np.asarray(examples.y)
    if examples.outputs is not None:
        y = np.eye(examples.outputs)[y.astype(np.int64)]
    share = examples.weights / examples.weights.sum()
    if examples.intercept:
        y = y - share @ y
    signs = examples.outputs is None and bool(np.isin(examples.y, (-1.0, 1.0)).all())
    rows = examples.X.T @ ((y.T * share).T * (0.5 if signs else 1.0))
    return np.ascontiguousarray(rows)


def _strong(penalty: Any, strength: float) -> Any:
    return with_strength(penalty, float(f"{strength:.3g}"))


# --- judging ----------------------------------------------------------------------------------------


def held_out(examples: Examples, seed: int) -> list[Ints]:
    """Return disjoint parts to hold out: the same share of each class, never the first row of one.

    There is one part if it has enough rows, otherwise more; none if there are few rows.
    """
    n = examples.X.shape[0]
    if n < FEW:
        return []
    order = np.random.default_rng(seed).permutation(n)
    y = np.asarray(examples.y)[order]
    classes = np.zeros(n) if np.unique(y).size > n // 2 else y
    order, classes = order[np.argsort(classes, kind="stable")], np.sort(classes, kind="stable")
    share = min(PART, MOST_HELD / n)
    first = np.append(0, np.flatnonzero(np.diff(classes)) + 1)
    found = []
    for k in range(min(MOST_PARTS, max(1, math.ceil(LEAST_HELD / (share * n))))):
        # Selected positions are at least six apart, so a shift by k < 6 selects other rows.
        taken = np.diff(np.floor(share * (k + np.arange(n + 1)))) > 0
        taken[first] = False
        if taken.any():
            found.append(np.sort(order[taken]))
    return found


def _trials(judges: Judges, loss: Any, penalty: Any, multiples: Sequence[float], run: _Run) -> Iterator[Trial]:
    """Yield the trials of a path, until it gets worse twice in a row, or two strengths are behind a rival."""
    y, weight = judges.rows.y, judges.rows.weights
    multiples = multiples if run.rival is None else multiples[1:]
    least, worse, behind = np.inf, 0, 0
    for multiple, scores in zip(multiples, judges.scores(run.path, loss, penalty, multiples, run.seed), strict=True):
        trial = judged(multiple, y, weight, loss, scores)
        yield trial
        mean = float(weight @ trial.losses)
        worse = 0 if mean < least else worse + 1
        least = min(least, mean)
        behind += run.rival is not None and float(weight @ (trial.right - run.rival.right)) <= 0.0
        if PATIENCE in (worse, behind):
            return


def is_surely_better(rival: Choice, choice: Choice) -> bool:
    """Tell whether a choice for the same rows in another scale improves the log-loss by more than a standard error.

    The gain must also be `LEAST_GAIN` of the loss: two scales that are nearly the same differ by chance.
    """
    if rival.best is None or choice.best is None or choice.weight is None:
        return False
    before, after = choice.best.losses, rival.best.losses
    least = (1.0 - LEAST_GAIN) * float(choice.weight @ before)
    return float(choice.weight @ after) < least and surely_better(before, after, choice.weight, CLASSES_ERRORS)
