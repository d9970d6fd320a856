"""Shared by the engines: the problem, their protocol, and the bundles of steps and losses that loops take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.jit import DERIVATIVE, DERIVATIVE_ROW, pointer
from spom.penalties import Penalty
from spom.solvers.linear.data import Rows
from spom.solvers.steps import Step


class Engine(Protocol):
    """The object that runs rounds; see the files of the engines."""

    name: str

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order` with these steps; return the sum of the losses."""
        ...

    def theta(self) -> Floats:
        """Return a copy of the iterate."""
        ...

    def pack(self) -> Arrays:
        """Return what a saved run needs to resume."""
        ...

    def unpack(self, theta: Floats, internal: Arrays) -> None:
        """Resume from a saved run, or start from a point alone."""
        ...


@runtime_checkable
class Staying(Engine, Protocol):
    """An engine that can be kept between the blocks of a stream, so that a block costs time for its own rows only.

    Updates that it postpones appear in `pack` under names that begin with "late"; `theta` applies them to a copy.
    """

    def run_late(self, rows: Rows, order: Ints, steps: Floats) -> float | None:
        """Do as `run`, but postpone the coordinates that no row contains; return None if that is not possible yet."""
        ...

    def mark(self, touched: Ints) -> Callable[[], bool]:
        """Remember these coordinates; the returned function checks that they are finite, and else restores them."""
        ...


@dataclass(frozen=True)
class Problem:
    """The problem and how to solve it; the fields are those of `OnlineProximal`."""

    loss: Any
    penalty: Penalty
    mirror: Any
    projection: Any
    step: Step
    update: str
    shape: tuple[int, ...]
    intercept: bool
    batch: int
    averages: bool
    lazy: bool | None
    stream: bool
    jobs: int
    exact: bool = False

    @property
    def features(self) -> int:
        """The number of rows of theta that are penalised: all but the intercept."""
        return self.shape[0] - self.intercept

    @property
    def penalised(self) -> tuple[int, ...]:
        """The shape of the part of theta that is penalised."""
        return (self.features, *self.shape[1:])

    @property
    def delta(self) -> float:
        """The starting value of an adaptive step."""
        return float(self.step.delta)

    def rounds(self, steps: Floats) -> Rounds:
        """Return rounds with these steps, as loops take them."""
        return Rounds(steps, self.batch, self.step.mode, self.delta, self.intercept, self.averages)


class Rounds(NamedTuple):
    """The steps of some rounds, the rows of each, and how the steps adapt (`mode`: see `spom.solvers.steps`)."""

    steps: Annotated[Floats, "float64[::1]"]
    batch: Annotated[int, "int64"]
    mode: Annotated[int, "int64"]
    delta: Annotated[float, "float64"]
    intercept: Annotated[bool, "boolean"]
    averages: Annotated[bool, "boolean"]


class Loss(NamedTuple):
    """A loss of one score: pointers to its value and its derivative, and its parameters."""

    value: Annotated[Any, f"FunctionType({DERIVATIVE})"]
    derivative: Annotated[Any, f"FunctionType({DERIVATIVE})"]
    reals: Annotated[Floats, "float64[::1]"]


class RowLoss(NamedTuple):
    """A loss of several scores: a pointer that gives its value and writes its derivatives, and its parameters."""

    row: Annotated[Any, f"FunctionType({DERIVATIVE_ROW})"]
    reals: Annotated[Floats, "float64[::1]"]


def undo(engine: Any, arrays: Arrays, touched: Ints, names: tuple[str, ...]) -> Callable[[], bool]:
    """Return what `Staying.mark` returns, for an engine with these tables (one row per coordinate) and numbers.

    The last row is the intercept's, if there is one.
    """
    touched = np.append(touched, -1)
    before = {name: a[touched] for name, a in arrays.items()}
    numbers = {name: getattr(engine, name) for name in names}

    def finite() -> bool:
        if all(np.isfinite(a[touched]).all() for a in arrays.values()):
            return True
        for name, a in arrays.items():
            a[touched] = before[name]
        vars(engine).update(numbers)
        return False

    return finite


def compiled_loss(loss: Any) -> Loss:
    """Return a loss of one score as loops take it."""
    value, derivative, reals = loss.compiled()
    return Loss(pointer(value), pointer(derivative), reals)


def compiled_row_loss(loss: Any) -> RowLoss:
    """Return a loss of several scores as loops take it."""
    row, reals = loss.compiled()
    return RowLoss(pointer(row), reals)
