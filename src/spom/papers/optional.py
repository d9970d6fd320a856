"""Packages that some experiments need but the library does not."""

from __future__ import annotations

import importlib
from typing import Any

from spom.errors import SpomError


def matplotlib() -> Any:
    """Return matplotlib, or raise an error that says how to install it."""
    return _load("matplotlib", "figures", "'spom[report]'")


def cvxpy() -> Any:
    """Return cvxpy, or raise an error that says how to install it."""
    return _load("cvxpy", "the optimum by an interior-point method", "cvxpy")


def _load(name: str, what: str, source: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        verb = "need" if what.endswith("s") else "needs"
        raise SpomError(f"{what} {verb} {name}: pip install {source}") from None
