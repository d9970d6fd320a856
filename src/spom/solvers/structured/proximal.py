"""The prox of a penalty on block norms, as compiled loops take it."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from spom.core.arrays import Floats, Ints, check_positive
from spom.core.jit import PROX
from spom.solvers.pointers import pointer


class Prox(NamedTuple):
    """function(w, step, reals, ints, out): argmin over x of 1/2 norm(x - w)^2 + step * penalty(x)."""

    function: Annotated[Any, f"FunctionType({PROX})"]
    reals: Annotated[Floats, "float64[::1]"]
    ints: Annotated[Ints, "int64[::1]"]


def compiled_prox(penalty: Any, count: int) -> Prox:
    """The prox of a penalty of `count` numbers."""
    kernel, reals, ints = penalty.compiled((count,))
    return Prox(pointer(kernel), reals, ints)


def check_radius(radius: float) -> float:
    """A radius above zero; infinity is no ball."""
    return math.inf if radius == math.inf else check_positive(radius, "radius", zero=False)
