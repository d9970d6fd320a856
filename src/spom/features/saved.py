"""What the features in a model file have in common: a description in JSON, and checks before compiled code reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from spom.errors import ModelFileError, SpomError
from spom.features.rows import Blocks
from spom.models.checks import check_offsets, take


@contextmanager
def opening(what: str) -> Iterator[None]:
    """Whatever is wrong with arrays that are opened here is one `ModelFileError`."""
    try:
        yield
    except ModelFileError:
        raise
    except (SpomError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"the {what} of the model are damaged: {error}") from None


def write_spec(spec: dict[str, Any]) -> Any:
    """A description as an array of UTF-8."""
    return np.frombuffer(json.dumps(spec).encode(), dtype=np.uint8)


def read_spec(arrays: dict[str, Any], version: int) -> dict[str, Any]:
    """The description, where it is of a version that is known here."""
    spec: dict[str, Any] = json.loads(take(arrays, "spec", "u").tobytes())
    if not isinstance(spec, dict) or not isinstance(spec["version"], int):
        raise ModelFileError("the features of the model have no description that can be read")
    if spec["version"] > version:
        raise ModelFileError(f"features of version {spec['version']} need a newer spom")
    return spec


def read_blocks(names: Any, arrays: dict[str, Any], total: int) -> Blocks:
    """Blocks of `total` features by their names and `starts`."""
    starts = np.array(check_offsets(take(arrays, "starts", "i"), total, "starts"), dtype=np.int64)
    if not isinstance(names, list) or starts.size != len(names) + 1:
        raise ModelFileError("the blocks of the model have other names than starts: the file is damaged")
    return Blocks(tuple(str(name) for name in names), starts)
