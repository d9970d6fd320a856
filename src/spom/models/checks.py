"""Checks of what a model file holds, before compiled code that trusts it sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.errors import ModelFileError

Array = np.ndarray[Any, Any]


def take(arrays: dict[str, Array], name: str, kind: str, ndim: int = 1, finite: bool = True) -> Array:
    """The array of this name, or an error where it is missing or of another kind ("f", "i", "u", "b") or shape.

    Floats must be finite, unless `finite` is False.
    """
    if name not in arrays:
        raise ModelFileError(f"the model has no array {name!r}: the file is not whole, or not of this kind")
    array = arrays[name]
    if array.dtype.kind not in kind or array.ndim != ndim:
        raise ModelFileError(f"the array {name!r} is {array.ndim}-dimensional {array.dtype}, which does not fit")
    if array.dtype.kind == "f" and finite and not np.isfinite(array).all():
        raise ModelFileError(f"the array {name!r} has entries that are not finite: the file is damaged")
    return array


def check_shape(array: Array, shape: tuple[int, ...], name: str) -> Array:
    """`array` itself, or an error where its shape is another one."""
    if array.shape != tuple(shape):
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; {tuple(shape)} was expected")
    return array


def check_offsets(offsets: Array, end: int, name: str) -> Array:
    """`offsets` itself, where it rises from 0 to `end`: compiled loops run from one to the next.

    >>> check_offsets(np.array([0, 2, 5]), 5, "offsets")
    array([0, 2, 5])
    """
    good = offsets.ndim == 1 and offsets.size > 0 and offsets.dtype.kind in "iu"
    if not good or int(offsets[0]) != 0 or int(offsets[-1]) != end or bool((offsets[1:] < offsets[:-1]).any()):
        raise ModelFileError(f"the offsets {name!r} do not rise from 0 to {end}: the file is damaged")
    return offsets


def check_indices(indices: Array, limit: int, name: str, least: int = 0) -> Array:
    """`indices` itself, where all are from `least` to `limit` - 1: compiled loops read there unchecked."""
    if indices.dtype.kind not in "iu" or (indices.size and not (least <= indices.min() and indices.max() < limit)):
        raise ModelFileError(f"the indices {name!r} are not all from {least} to {limit - 1}: the file is damaged")
    return indices
