"""Parameters and state as JSON and arrays: numbers, text, operators by their registered names, arrays by name.

    penalty, loss, map, kernel  {"kind": "penalty", "name": "l1", "params": {...}}
    step rule                   {"kind": "step", "name": "InverseSqrt", "params": {...}}
    array                       {"array": "a0"}            in the file under that name
    array of text               {"text": ["a0", "a1"]}     bytes of UTF-8, and where each ends
    list of arrays              {"split": ["a0", "a1"]}    all of them, and where each ends
    tuple, inf, nan             {"tuple": [...]}, {"float": "inf"}

Nothing in a file is ever called or imported by a name of its own: an operator is looked up in the registry, and what
is not there is refused.
"""

from __future__ import annotations

import importlib
import math
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core import registry
from spom.errors import ModelFileError, Unsupported
from spom.models.checks import check_offsets

Array = np.ndarray[Any, Any]
_STEPS = "spom.solvers.steps"
# Sums of penalties of groups of arrays are about ten deep.
DEEPEST = 100


class Encoder:
    """Turns values into JSON; the arrays among them are put into `arrays` under names that start with `prefix`."""

    def __init__(self, arrays: dict[str, Array], prefix: str = "value.") -> None:
        self.arrays, self.prefix, self.count = arrays, prefix, 0

    def encode(self, value: Any, where: str) -> Any:
        """`value` as JSON; `where` names it in the error for a value that cannot be kept."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (float, np.floating)):
            number = float(value)
            return number if math.isfinite(number) else {"float": str(number)}
        if isinstance(value, (np.integer, np.bool_)):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, dict):
            return {"dict": [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]}
        if isinstance(value, (list, tuple)):
            return self._sequence(value, where)
        return self._operator(value, where)

    def _sequence(self, value: Any, where: str) -> Any:
        if len(value) > 1 and all(isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype.kind in "iuf" for v in value):
            ends = np.concatenate([[0], np.cumsum([v.size for v in value])]).astype(np.int64)
            return {"split": [self._put(np.concatenate(value)), self._put(ends)]}
        items = [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items

    def _array(self, value: Array, where: str) -> Any:
        if value.dtype.kind in "biuf":
            return {"array": self._put(value)}
        items = value.reshape(-1).tolist()
        if value.ndim == 1 and all(isinstance(v, str) for v in items):
            parts = [v.encode() for v in items]
            ends = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
            blob = np.frombuffer(b"".join(parts), dtype=np.uint8)
            return {"text": [self._put(blob), self._put(ends)], "object": value.dtype.kind == "O"}
        if value.ndim == 1 and value.dtype.kind == "O":
            return {"objects": [self.encode(v, f"{where}[{i}]") for i, v in enumerate(items)]}
        raise Unsupported(f"a model file cannot hold {where}, an array of {value.dtype}; pickle can")

    def _put(self, value: Array) -> str:
        name = f"{self.prefix}{self.count}"
        self.count += 1
        self.arrays[name] = value
        return name

    def _operator(self, value: Any, where: str) -> Any:
        found = _name_of(value)
        if found is None:
            raise Unsupported(
                f"a model file cannot hold {where}, a {type(value).__name__}: it is no operator with a registered "
                "name; pickle can keep it"
            )
        kind, name = found
        params = value.get_params(deep=False)
        return {"kind": kind, "name": name, "params": {k: self.encode(v, f"{where}.{k}") for k, v in params.items()}}


def _name_of(value: Any) -> tuple[str, str] | None:
    """(kind, registered name) of an operator of ours, or None."""
    cls = type(value)
    if not hasattr(value, "get_params"):
        return None
    if cls.__module__ == _STEPS:
        return "step", cls.__name__
    for kind, package in registry.PACKAGES.items():
        if kind != "estimator" and cls.__module__.startswith(package + "."):
            names = [entry.name for entry in registry.entries(kind) if entry.cls is cls]
            return (kind, names[0]) if names else None
    return None


def decode(value: Any, arrays: dict[str, Array]) -> Any:
    """The value that `Encoder.encode` turned into JSON; a `ModelFileError` where it is none.

    >>> arrays = {}
    >>> from spom.penalties import L1
    >>> decode(Encoder(arrays).encode(L1(0.5), "penalty"), arrays)
    L1(strength=0.5)
    """
    try:
        return _decoded(value, arrays)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"a damaged model file: a parameter cannot be made again ({error})") from None


def _decoded(value: Any, arrays: dict[str, Array], depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ModelFileError(f"values are nested more than {DEEPEST} deep: the file is damaged")
    if isinstance(value, list):
        return [_decoded(v, arrays, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        params = {str(k): _decoded(v, arrays, depth + 1) for k, v in value["params"].items()}
        return _class(value["kind"], value["name"])(**params)
    if "array" in value:
        return arrays[value["array"]]
    if "text" in value:
        return _texts(value, arrays)
    if "split" in value:
        whole, ends = (arrays[name] for name in value["split"])
        return np.split(whole, check_offsets(ends, whole.size, "split")[1:-1])
    if "objects" in value:
        found = np.empty(len(value["objects"]), dtype=object)
        found[:] = [_decoded(v, arrays, depth + 1) for v in value["objects"]]
        return found
    if "dict" in value:
        return {_decoded(k, arrays, depth + 1): _decoded(v, arrays, depth + 1) for k, v in value["dict"]}
    if "tuple" in value:
        return tuple(_decoded(v, arrays, depth + 1) for v in value["tuple"])
    return float(value["float"])


def _texts(value: dict[str, Any], arrays: dict[str, Array]) -> Array:
    blob, ends = (arrays[name] for name in value["text"])
    raw, bounds = blob.tobytes(), check_offsets(ends, blob.size, "text").tolist()
    items = [raw[a:b].decode() for a, b in pairwise(bounds)]
    return np.array(items, dtype=object if value["object"] else np.str_)


def _class(kind: Any, name: Any) -> type:
    """The operator of this name, from the registry or among the step rules; nothing else is ever made."""
    if kind == "step":
        module = importlib.import_module(_STEPS)
        cls = vars(module).get(name)
        if isinstance(cls, type) and issubclass(cls, module.Step):
            return cls
        raise ModelFileError(f"there is no step rule {name!r}")
    if kind == "estimator" or kind not in registry.PACKAGES:
        raise ModelFileError(f"there is no kind of operator {kind!r}")
    return registry.find(kind, name).cls
