"""`spom demo`: the whole idea in a minute, on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spom.cli import options as o


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller data: a few seconds.")] = False,
    page: Annotated[Path, typer.Option("--page", metavar="F", help="Where to write the page.")] = Path(
        "spom-demo.html"
    ),
    seed: o.Seed = 0,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Show the whole idea in about a minute, on data that needs no download.

    \b
    Examples:
      spom demo
      spom demo --quick
    """
    from spom.errors import Unsupported

    raise Unsupported("the demonstration is not there yet")
