"""Check arguments before compiled code sees them: the right dtype, number of axes and order in memory.

Compiled code trusts what it is given. An array of the wrong kind would be read as something else, or past its end.
Numbers need no check: the compiled function converts them, and raises where it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Bits of `ndarray.flags.num`.
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_ndarray = np.ndarray
_ORDERS = {"C": _C, "F": _F, "A": 0}


class Array:
    """An array as compiled code takes it."""

    __slots__ = ("dtype", "flags", "ndim")

    def __init__(self, dtype: str, ndim: int, order: str, writeable: bool) -> None:
        self.dtype, self.ndim = np.dtype(dtype), ndim
        self.flags = _ALIGNED | _ORDERS[order] | (_WRITEABLE if writeable else 0)

    def __str__(self) -> str:
        order = "C-ordered " if self.flags & _C else "Fortran-ordered " if self.flags & _F else ""
        access = "writeable " if self.flags & _WRITEABLE else ""
        return f"a {access}{order}array of {self.dtype} with {self.ndim} axes"


def plan(arguments: Sequence[Any]) -> list[Any]:
    """One entry per argument: an `Array`, the plan of a tuple, or None for what needs no check.

    >>> str(plan([("array", "float64", 1, "C", False)])[0])
    'a C-ordered array of float64 with 1 axes'
    """
    made: list[Any] = []
    for argument in arguments:
        if argument is None:
            made.append(None)
        elif argument[0] == "array":
            made.append(Array(*argument[1:]))
        else:
            made.append(plan(argument[1]))
    return made


def fits(values: Sequence[Any], kinds: Sequence[Any]) -> bool:
    """Whether the values may be handed to compiled code.

    A bundle may have a length of its own, so that the tuple is asked.
    """
    for value, kind in zip(values, kinds, strict=True):
        if kind is None:
            continue
        if type(kind) is list:
            if not isinstance(value, tuple) or tuple.__len__(value) != len(kind) or not fits(value, kind):
                return False
            continue
        if not isinstance(value, _ndarray):
            return False
        dtype, flags = value.dtype, kind.flags
        if dtype is not kind.dtype and dtype != kind.dtype:
            return False
        if value.ndim != kind.ndim or value.flags.num & flags != flags:
            return False
    return True


def explain(name: str, values: Sequence[Any], kinds: Sequence[Any]) -> TypeError:
    """What is wrong with the arguments, in one line."""
    if len(tuple(values)) != len(kinds):
        return TypeError(f"{name} takes {len(kinds)} arguments, not {len(values)}")
    for place, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        if fits([value], [kind]):
            continue
        if isinstance(kind, list):
            if isinstance(value, tuple) and tuple.__len__(value) == len(kind):
                return explain(f"{name}, argument {place + 1}", value, kind)
            return TypeError(f"{name}: argument {place + 1} must be a tuple of {len(kind)}")
        return TypeError(f"{name}: argument {place + 1} must be {kind}, not {_shown(value)}")
    return TypeError(f"{name}: no compiled signature takes these arguments")


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    flags = [n for n in ("C_CONTIGUOUS", "F_CONTIGUOUS", "ALIGNED", "WRITEABLE") if value.flags[n]]
    return f"an array of {value.dtype} with {value.ndim} axes ({', '.join(flags).lower()})"
