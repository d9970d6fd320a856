"""The base class of operators, and the registry of them that the command, the docs and generic tests read.

>>> from spom.core import registry
>>> registry.make("penalty", "l1", strength=0.5)
L1(strength=0.5)
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar

from spom.errors import Unsupported


def keep(instance: Any, values: dict[str, Any]) -> None:
    """Store the arguments of a constructor under their own names: `keep(self, locals())`."""
    vars(instance).update({name: value for name, value in values.items() if name not in ("self", "__class__")})


class Parameters:
    """An object defined by its constructor's arguments, each stored under its own name, unchanged.

    scikit-learn's `clone`, `set_params("penalty__strength")` and grid search work on such an object without importing
    scikit-learn here.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the constructor's arguments by name, with their defaults."""
        if cls.__init__ is object.__init__:
            return {}
        return {a.name: a.default for a in list(inspect.signature(cls.__init__).parameters.values())[1:]}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of nested objects, as `outer__inner`."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found.update({f"{name}__{k}": v for k, v in value.get_params(deep=True).items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name (`outer__inner` for a nested one); if a check fails, none is changed."""
        known = self.get_params(deep=True)
        for name in params:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {sorted(known)}")
        before = {name: known[name] for name in params}
        try:
            self._assign(params)
            self._check()
        except ValueError:
            self._assign(before)
            raise
        return self

    def _assign(self, params: dict[str, Any]) -> None:
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)

    def _check(self) -> None:
        """Raise a `ValueError` if a parameter is invalid; constructors and `set_params` call it."""

    def __repr__(self) -> str:
        # Compared as text: values may be arrays, and a copy of a default counts as the default.
        pairs = [(name, _short(getattr(self, name)), _short(default)) for name, default in self._defaults().items()]
        shown = ", ".join(f"{name}={value}" for name, value, default in pairs if value != default)
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."


T = TypeVar("T")

# The package whose modules hold the operators of a kind.
PACKAGES = {
    "penalty": "spom.penalties",
    "loss": "spom.losses",
    "mirror": "spom.mirror",
    "kernel": "spom.kernels",
    "decoder": "spom.decoders",
    "solver": "spom.solvers",
    "estimator": "spom.estimators",
}


@dataclass(frozen=True)
class Entry:
    """One registered operator.

    `examples` builds a few instances of it for the generic tests; `formula` (LaTeX) and `cost` are shown
    in the documentation.
    """

    kind: str
    name: str
    cls: type
    formula: str
    cost: str
    examples: Callable[[], Sequence[Any]]


_entries: dict[tuple[str, str], Entry] = {}
# Names from other libraries for operators that have another name here.
ALIASES = {
    ("penalty", "elasticnet"): "elastic-net",
    ("penalty", "ridge"): "squared-l2",
    ("penalty", "lasso"): "l1",
    ("loss", "log_loss"): "logistic",
    ("loss", "log"): "logistic",
    ("loss", "squared_error"): "squared",
    ("loss", "squared_hinge"): "power-hinge",
    ("kernel", "rbf"): "gaussian",
    ("kernel", "poly"): "polynomial",
}


def register(
    kind: str, name: str, *, examples: Callable[[], Sequence[Any]], formula: str = "", cost: str = ""
) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that registers an operator's public name, formula, cost and examples."""

    def add(cls: type[T]) -> type[T]:
        key = (kind, name)
        if key in _entries and _entries[key].cls.__qualname__ != cls.__qualname__:
            raise ValueError(f"{kind} {name!r} is registered already, as {_entries[key].cls.__qualname__}")
        _entries[key] = Entry(kind, name, cls, formula, cost, examples)
        return cls

    return add


@cache
def _load(kind: str) -> None:
    """Import the modules of a kind's package, once."""
    if kind not in PACKAGES:
        raise Unsupported(f"there is no kind {kind!r}; the kinds are {sorted(PACKAGES)}")
    package = importlib.import_module(PACKAGES[kind])
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def entries(kind: str) -> list[Entry]:
    """Return all operators of a kind, sorted by name; the modules of their package are imported."""
    _load(kind)
    return [entry for key, entry in sorted(_entries.items()) if key[0] == kind]


def find(kind: str, name: str) -> Entry:
    """Return the operator with this registered name or alias, or raise an error that suggests a name.

    >>> find("penalty", "elasticnet").name
    'elastic-net'
    """
    _load(kind)
    name = ALIASES.get((kind, name), name)
    if (kind, name) not in _entries:
        raise Unsupported(f"there is no {kind} {name!r}; {suggestion(name, [e.name for e in entries(kind)])}")
    return _entries[kind, name]


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return the end of an error message about an unknown name: the nearest name and all names.

    >>> suggestion("group-laso", ["group-lasso", "l1"])
    "did you mean 'group-lasso'? The names are: group-lasso, l1"
    """
    lower = {other.lower(): other for other in known}
    near = [lower[found] for found in difflib.get_close_matches(name.lower().replace("_", "-"), lower, n=1)]
    names = f"names are: {', '.join(known)}"
    return f"did you mean {near[0]!r}? The {names}" if near else f"the {names}"


def make(kind: str, name: str, **params: Any) -> Any:
    """Create an instance of the operator with this registered name."""
    return find(kind, name).cls(**params)


class TakesPenalty:
    """A mixin: `set_params(penalty__strength=...)`, and so grid search, also if the penalty is "auto" or a name.

    >>> from spom import SequenceTagger
    >>> SequenceTagger().set_params(penalty__strength=0.5).penalty
    L1(strength=0.5)
    """

    penalty: Any

    def _auto_penalty(self) -> str:
        """Return the name of the penalty that "auto" stands for."""
        raise NotImplementedError  # each kind of estimator has its own

    def set_params(self, **params: Any) -> Self:
        """Set parameters as in scikit-learn; `penalty__...` turns a penalty that is a name or "auto" into an object."""
        inner = {name: value for name, value in params.items() if name.startswith("penalty__")}
        own = {name: value for name, value in params.items() if name not in inner}
        super().set_params(**own)  # type: ignore[misc]  # scikit-learn's base has it
        if inner and self.penalty is None:
            raise ValueError("penalty=None has no strength: set penalty to 'auto', a name or an object first")
        if inner and isinstance(self.penalty, str):
            name = self._auto_penalty() if self.penalty == "auto" else self.penalty
            self.penalty = make("penalty", name)
        super().set_params(**inner)  # type: ignore[misc]  # scikit-learn's base has it
        return self
