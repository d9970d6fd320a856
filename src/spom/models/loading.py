"""Saving and loading of estimators: `save_model` and `load_model`.

An estimator supports this with two methods. `model_state()` returns (state, arrays): a dict of numbers, text, operators
and arrays of any kind, and the large numeric arrays by name. `from_model_state(state, arrays)`, a class method,
recreates the estimator from the same state, with the constructor's arguments under "params".

Parameters and state are JSON and arrays: numbers, text, operators by their registered names, arrays by name.

    penalty, loss, map, kernel  {"kind": "penalty", "name": "l1", "params": {...}}
    step rule                   {"kind": "step", "name": "InverseSqrt", "params": {...}}
    array                       {"array": "a0"}            in the file under that name
    array of text               {"text": ["a0", "a1"]}     bytes of UTF-8, and the end of each
    list of arrays              {"split": ["a0", "a1"]}    all of them, and the end of each
    tuple, inf, nan             {"tuple": [...]}, {"float": "inf"}

No name in a file is ever imported or called directly: operators are looked up in the registry, and names that are not
registered are refused.
"""

from __future__ import annotations

import importlib
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spom.core import registry
from spom.core.arrays import Array, offsets_of
from spom.core.container import check_offsets, read_file, write_file
from spom.errors import ModelFileError, SpomError, Unsupported

# Parameters of a run and not of a model: they are not written, and are loaded as their defaults.
NOT_KEPT = ("callbacks", "engine", "verbose")
# Exceptions of Python code that trusts the contents of a damaged file.
DAMAGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError, MemoryError),
    *(AssertionError, UnicodeError, SpomError),
)
# The maximum number of threads that a file may ask for: more than any machine has.
MOST_JOBS = 1 << 16
# The prefix of the names of our own arrays, to separate them from those of an estimator.
_PREFIX = "value."


def save_model(estimator: Any, path: str | Path, training: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file; `training` is a JSON-able summary that `read_header` returns.

    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from spom import OnlineClassifier, load_model
    >>> X, y = load_iris(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.spom"
    >>> save_model(OnlineClassifier(random_state=0).fit(X, y), path)
    >>> load_model(path).predict(X[:2])
    array([0, 0])
    """
    if not hasattr(estimator, "model_state"):
        raise Unsupported(f"{type(estimator).__name__} cannot be saved to a model file; pickle can keep it")
    state, arrays = estimator.model_state()
    clash = [name for name in arrays if name.startswith(_PREFIX)]
    if clash:
        raise ValueError(f"names of arrays must not start with {_PREFIX!r}: {clash}")
    state, arrays = dict(state), dict(arrays)
    params = state.pop("params", None) or estimator.get_params(deep=False)
    encoder = Encoder(arrays, _PREFIX)
    model = {
        "params": {k: encoder.encode(_kept(k, v), k) for k, v in params.items() if k not in NOT_KEPT},
        "state": {k: encoder.encode(v, k) for k, v in state.items()},
        "training": training or {},
    }
    write_file(path, type(estimator).__name__, model, arrays)


def _kept(name: str, value: Any) -> Any:
    """Replace a random generator by None, as the fitted model does not need it, and templates by their text."""
    if name == "templates" and hasattr(value, "templates"):
        # The learnt features are in the file; the parameter is restored as the text of the templates.
        return [template.text for template in value.templates]
    drawn = isinstance(value, (np.random.RandomState, np.random.Generator))
    return None if name == "random_state" and drawn else value


def load_model(path: str | Path, verify: bool | None = None) -> Any:
    """Load the estimator in a model file, ready to predict. No code in the file is run.

    The arrays are mapped into memory, so a large model loads at once. The header is always checked against its sha256,
    and so are the arrays of a model up to 64 MB; `verify=True` checks all arrays of a larger one, which reads it to
    the end, and `verify=False` checks none.
    """
    header, arrays = read_file(path, verify)
    cls = _estimator(header.estimator, str(path))
    model = header.model
    try:
        own = {name: a for name, a in arrays.items() if not name.startswith(_PREFIX)}
        state = {str(k): decode(v, arrays) for k, v in model["state"].items()}
        state["params"] = {str(k): decode(v, arrays) for k, v in model["params"].items()}
        jobs = state["params"].get("n_jobs")
        if jobs is not None and (type(jobs) is not int or not 0 < abs(jobs) <= MOST_JOBS):
            raise ModelFileError(f"n_jobs is {jobs!r}: the file is damaged")
        return cls.from_model_state(state, own)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except DAMAGE as error:
        raise ModelFileError(f"{path}: a damaged model file, or one of another spom ({error})") from None


def _estimator(name: str, path: str) -> Any:
    """Return the class of this name among the public estimators; no other name is looked up."""
    package = importlib.import_module("spom.estimators")
    cls = getattr(package, name) if name in package.__all__ else None
    if cls is None or not hasattr(cls, "from_model_state"):
        raise ModelFileError(f"{path}: there is no estimator {name!r} in this spom")
    return cls


# --- values as JSON and arrays -----------------------------------------------------------------------

_STEPS = "spom.solvers.steps"
# The maximum depth of nested values. Sums of penalties of groups of arrays are about ten deep.
DEEPEST = 100


class Encoder:
    """An encoder of values as JSON; arrays among them are put into `arrays` under names that start with `prefix`."""

    def __init__(self, arrays: dict[str, Array], prefix: str = "value.") -> None:
        self.arrays, self.prefix, self.count = arrays, prefix, 0

    def encode(self, value: Any, where: str) -> Any:
        """Return `value` as JSON; `where` names it in the error for a value that cannot be stored."""
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
            ends = offsets_of([v.size for v in value])
            return {"split": [self._put(np.concatenate(value)), self._put(ends)]}
        items = [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items

    def _array(self, value: Array, where: str) -> Any:
        if value.dtype.kind in "biuf":
            return {"array": self._put(value)}
        items = value.reshape(-1).tolist()
        if value.ndim == 1 and all(isinstance(v, str) for v in items):
            parts = [v.encode() for v in items]
            ends = offsets_of([len(p) for p in parts])
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
    """Return (kind, registered name) of an operator of spom, or None."""
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
    """Return the value that `Encoder.encode` turned into JSON; raise a `ModelFileError` if it is not valid.

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
    """Return the operator of this name, from the registry or the step rules; no other class is ever created."""
    if kind == "step":
        module = importlib.import_module(_STEPS)
        cls = vars(module).get(name)
        if isinstance(cls, type) and issubclass(cls, module.Step):
            return cls
        raise ModelFileError(f"there is no step rule {name!r}")
    if kind == "estimator" or kind not in registry.PACKAGES:
        raise ModelFileError(f"there is no kind of operator {kind!r}")
    return registry.find(kind, name).cls
