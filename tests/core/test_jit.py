"""Bundles: named tuples as arguments of kernels."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, bundle_text, is_bundle, kernel, pointer
from spom.penalties import L1


class Pair(NamedTuple):
    first: Annotated[Floats, "float64[::1]"]
    second: Annotated[Floats, "Array(float64, 1, 'C', readonly=True)"]


class Nest(NamedTuple):
    pair: Pair
    step: Annotated[float, "float64"]
    prox: Annotated[Any, f"FunctionType({PROX})"]
    reals: Annotated[Floats, "float64[::1]"]
    ints: Annotated[Ints, "int64[::1]"]


class Choice(NamedTuple):
    function: Annotated[Any, "FunctionType(float64(Pair))"]


@kernel("float64(Choice, Pair)")
def chosen(choice: Choice, pair: Pair) -> float:
    return choice.function(pair)  # type: ignore[no-any-return]


@kernel("float64(Pair)")
def dot(pair: Pair) -> float:
    s = 0.0
    for i in range(pair.first.size):
        s += pair.first[i] * pair.second[i]
    return s


@kernel("float64(Nest)")
def shrunk_dot(nest: Nest) -> float:
    nest.prox(nest.pair.first, nest.step, nest.reals, nest.ints, nest.pair.first)
    return dot(nest.pair)


def test_a_bundle_in_a_bundle_with_a_function_and_a_read_only_array() -> None:
    fixed = np.array([1.0, 2.0, 4.0])
    fixed.flags.writeable = False
    prox, reals, ints = L1(1.0).compiled((3,))
    nest = Nest(Pair(np.array([3.0, -1.0, 0.5]), fixed), 0.75, pointer(prox), reals, ints)
    assert shrunk_dot(nest) == pytest.approx(2.25 * 1 - 0.25 * 2)
    np.testing.assert_allclose(nest.pair.first, [2.25, -0.25, 0.0])


def test_a_function_that_takes_a_bundle_is_in_a_bundle() -> None:
    fixed = np.array([1.0, 2.0])
    fixed.flags.writeable = False
    assert chosen(Choice(pointer(dot)), Pair(np.array([3.0, 4.0]), fixed)) == 11.0
    assert "first" in bundle_text(Choice)


def test_the_text_of_a_bundle_changes_with_its_fields() -> None:
    assert is_bundle(Pair)
    assert not is_bundle(dot)
    assert "first: float64[::1]" in bundle_text(Pair)
    assert bundle_text(Pair) in bundle_text(Nest)
