"""The catalogue of operators: what the command line, the documentation and the generic tests read.

>>> from spom.core import registry
>>> registry.make("penalty", "l1", strength=0.5)
L1(strength=0.5)
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from spom.errors import Unsupported

T = TypeVar("T")

# The room whose modules hold the operators of a kind.
ROOMS = {
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
    """Import the modules of a kind's room, once."""
    if kind not in ROOMS:
        raise Unsupported(f"there is no kind {kind!r}; the kinds are {sorted(ROOMS)}")
    package = importlib.import_module(ROOMS[kind])
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def entries(kind: str) -> list[Entry]:
    """All operators of a kind, sorted by name; the modules of their room are imported."""
    _load(kind)
    return [entry for key, entry in sorted(_entries.items()) if key[0] == kind]


def find(kind: str, name: str) -> Entry:
    """The operator with this registered name, or an error that lists the names there are."""
    _load(kind)
    if (kind, name) not in _entries:
        names = ", ".join(entry.name for entry in entries(kind))
        raise Unsupported(f"there is no {kind} {name!r}; the names are: {names}")
    return _entries[kind, name]


def make(kind: str, name: str, **params: Any) -> Any:
    """A new instance of the operator with this registered name."""
    return find(kind, name).cls(**params)
