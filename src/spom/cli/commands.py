"""Commands from groups of options: what several commands share is written once.

A group maps names of values to (type with its `typer.Option`, default). The command gets all values as one dict.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import typer

REQUIRED: Any = inspect.Parameter.empty
Group = Mapping[str, tuple[Any, Any]]
Run = Callable[[dict[str, Any]], None]


def takes(*groups: Group) -> Callable[[Run], Callable[..., None]]:
    """A function of the values as typer calls it; required options come first in its help."""
    options = {name: option for group in groups for name, option in group.items()}
    ordered = sorted(options.items(), key=lambda item: item[1][1] is not REQUIRED)

    def wrap(run: Run) -> Callable[..., None]:
        def called(**values: Any) -> None:
            run(values)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(n, keyword, default=d, annotation=kind) for n, (kind, d) in ordered]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        called.__annotations__ = {name: kind for name, (kind, _) in ordered}
        called.__name__, called.__doc__ = run.__name__, run.__doc__
        return called

    return wrap


def command(app: typer.Typer, *groups: Group) -> Callable[[Run], Run]:
    """Add a function of the values as a command of its name."""

    def add(run: Run) -> Run:
        app.command(run.__name__)(takes(*groups)(run))
        return run

    return add
