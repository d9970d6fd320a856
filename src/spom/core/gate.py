"""The gate: arrays that come from outside are checked here before any compiled code sees them.

Compiled loops do not check their indices, so that a wrong one reads or writes memory that is not theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.errors import DataError, ModelFileError

Array = np.ndarray[Any, Any]


def check_restored(given: dict[str, Array], like: dict[str, Array], todo: str = "") -> dict[str, Array]:
    """The arrays of `given` that `like` has, where they are of the same shapes and dtypes, and finite.

    `like` are the arrays of a solver before its first round. Arrays of a saved state pass here.

    >>> check_restored({"w": np.zeros(3), "more": np.ones(1)}, {"w": np.zeros(3)})
    {'w': array([0., 0., 0.])}
    """
    found = {}
    for name, mine in like.items():
        if name not in given:
            raise DataError(f"the saved state has no array {name!r}: it is of another solver")
        array = given[name]
        if array.shape != mine.shape or array.dtype != mine.dtype:
            raise DataError(
                f"the saved state is of another run: {name!r} is {array.dtype}{array.shape}, this run needs "
                f"{mine.dtype}{mine.shape}" + (f"; {todo}" if todo else "")
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"the saved state has numbers in {name!r} that are not finite: it is damaged")
        found[name] = array
    return found


def check_range(array: Array, low: int, high: int, name: str) -> Array:
    """`array` itself, where all entries are from `low` to `high` - 1."""
    if array.size and not (low <= int(array.min()) and int(array.max()) < high):
        raise ModelFileError(f"the saved state has entries in {name!r} that are not from {low} to {high - 1}")
    return array


def restore_random(generator: np.random.Generator, state: Any) -> None:
    """Set the state of a random generator, where there is one and it is such a state."""
    if state is None:
        return
    try:
        generator.bit_generator.state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise ModelFileError(f"the saved state has no state of a random generator ({error})") from None
