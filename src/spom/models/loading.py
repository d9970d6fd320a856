"""Estimators to files and back: `save_model` and `load_model`.

An estimator takes part by two methods: `model_state()` gives (state, arrays), a dict of numbers, text, operators and
arrays of any kind, and the large numeric arrays by name; `from_model_state(state, arrays)`, a class method, makes the
estimator again. The state that it gets is the one it gave, with the constructor's arguments under "params".
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.container import read_file, write_file
from spom.errors import ModelFileError, SpomError, Unsupported
from spom.models.encoding import Encoder, decode

# Parameters that belong to a run and not to a model: they are not written, and come back as their defaults.
NOT_KEPT = ("callbacks", "engine", "verbose")
# What Python code raises that trusts the contents of a damaged file.
DAMAGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError, MemoryError),
    *(AssertionError, UnicodeError, SpomError),
)
# Threads that a file may ask for: more than any machine has.
MOST_JOBS = 1 << 16
# The names of our own files are kept apart from those of an estimator.
_PREFIX = "value."


def save_model(estimator: Any, path: str | Path, training: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file; `training` is a JSON-able summary that `read_header` gives back.

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
    """A generator is used up by the run that it seeded; what is learnt does not need it."""
    if name == "templates" and hasattr(value, "templates"):
        # The learnt features are in the file themselves; the parameter comes back as the text of the templates.
        return [template.text for template in value.templates]
    drawn = isinstance(value, (np.random.RandomState, np.random.Generator))
    return None if name == "random_state" and drawn else value


def load_model(path: str | Path, verify: bool | None = None) -> Any:
    """The estimator in a model file, ready to predict. Nothing in the file is run.

    The arrays are mapped into memory, so that a large model is there at once. The header is always checked against
    its sha256, and so are the arrays of a model up to 64 MB; `verify=True` checks all arrays of a larger one, which
    reads it to the end, and `verify=False` none.
    """
    header, arrays = read_file(path, verify)
    cls = _estimator(header.estimator, str(path))
    model = header.model
    try:
        own = {name: a for name, a in arrays.items() if not name.startswith(_PREFIX)}
        state = {str(k): decode(v, arrays) for k, v in model["state"].items()}
        state["params"] = {str(k): decode(v, arrays) for k, v in model["params"].items()}
        _check_jobs(state["params"].get("n_jobs"))
        return cls.from_model_state(state, own)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except DAMAGE as error:
        raise ModelFileError(f"{path}: a damaged model file, or one of another spom ({error})") from None


def _check_jobs(jobs: Any) -> None:
    """`n_jobs` counts threads of `predict`: a whole number, or None."""
    if jobs is not None and (type(jobs) is not int or not 0 < abs(jobs) <= MOST_JOBS):
        raise ModelFileError(f"n_jobs is {jobs!r}: the file is damaged")


def _estimator(name: str, path: str) -> Any:
    """The class of this name among the public estimators; no other name is looked up."""
    package = importlib.import_module("spom.estimators")
    cls = getattr(package, name) if name in package.__all__ else None
    if cls is None or not hasattr(cls, "from_model_state"):
        raise ModelFileError(f"{path}: there is no estimator {name!r} in this spom")
    return cls
