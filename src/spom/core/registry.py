"""Operators: objects that are their parameters, and the catalogue that the command, the docs and generic tests read.

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
    """Keep the arguments of a constructor under their own names: `keep(self, locals())`."""
    vars(instance).update({name: value for name, value in values.items() if name not in ("self", "__class__")})


@cache
def _defaults_of(constructor: Callable[..., None]) -> dict[str, Any]:
    if constructor is object.__init__:
        return {}
    return {a.name: a.default for a in list(inspect.signature(constructor).parameters.values())[1:]}


class Parameters:
    """An object that is its constructor's arguments, each kept under its own name and as it was given.

    scikit-learn's `clone`, `set_params("penalty__strength")` and grid search work on such an object
    without scikit-learn being imported here.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The constructor's arguments by name, with their defaults."""
        return _defaults_of(cls.__init__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, those of parameters that have parameters as `outer__inner`."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found.update({f"{name}__{k}": v for k, v in value.get_params(deep=True).items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name (`inner__name` reaches into a parameter); all are checked, or none is set."""
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
        """Raise a `ValueError` where a parameter makes no sense; constructors and `set_params` call it."""

    def __repr__(self) -> str:
        # Compared as text: values may be arrays, and a copy of a default is the default still.
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
# Names that other libraries use for what is registered under another name here.
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
    """Class decorator: give an operator its public name, its formula, its cost and examples of itself."""

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
    """All operators of a kind, sorted by name; the modules of their package are imported."""
    _load(kind)
    return [entry for key, entry in sorted(_entries.items()) if key[0] == kind]


def find(kind: str, name: str) -> Entry:
    """The operator with this registered name or alias, or an error that says which name was probably meant.

    >>> find("penalty", "elasticnet").name
    'elastic-net'
    """
    _load(kind)
    name = ALIASES.get((kind, name), name)
    if (kind, name) not in _entries:
        raise Unsupported(f"there is no {kind} {name!r}; {suggestion(name, [e.name for e in entries(kind)])}")
    return _entries[kind, name]


def suggestion(name: str, known: Sequence[str]) -> str:
    """What to say to a name that is not known.

    >>> suggestion("group-laso", ["group-lasso", "l1"])
    "did you mean 'group-lasso'? The names are: group-lasso, l1"
    """
    lower = {other.lower(): other for other in known}
    near = [lower[found] for found in difflib.get_close_matches(name.lower().replace("_", "-"), lower, n=1)]
    names = f"names are: {', '.join(known)}"
    return f"did you mean {near[0]!r}? The {names}" if near else f"the {names}"


def make(kind: str, name: str, **params: Any) -> Any:
    """A new instance of the operator with this registered name."""
    return find(kind, name).cls(**params)


class TakesPenalty:
    """`set_params(penalty__strength=...)`, and so a grid search, where the penalty is "auto" or a name.

    >>> from spom import SequenceTagger
    >>> SequenceTagger().set_params(penalty__strength=0.5).penalty
    L1(strength=0.5)
    """

    penalty: Any

    def _auto_penalty(self) -> str:
        """The name of the penalty that "auto" stands for."""
        raise NotImplementedError  # each kind of estimator has its own

    def set_params(self, **params: Any) -> Self:
        """As in scikit-learn. Parameters of a penalty that is given by name, or as "auto", make it an object."""
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
