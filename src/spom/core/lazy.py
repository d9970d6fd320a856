"""Lazy imports: names of a package are imported on first use, and using one does not load the others."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy(
    package: str, names: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return (`__getattr__`, `__dir__`) for a package: `names` maps each name to its module; `modules` are submodules.

    >>> get, names = lazy("spom", {"Hinge": "spom.losses"}, ["errors"])
    >>> get("Hinge").__name__, names()
    ('Hinge', ['Hinge', 'errors'])
    """

    def find(name: str) -> Any:
        if name in names:
            return getattr(importlib.import_module(names[name]), name)
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: sorted([*names, *modules])
