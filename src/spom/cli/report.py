"""`spom report`: one self-contained page about a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from spom.cli import options as o


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="M.run.json, or the model M.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="F", help="The page to write.")] = Path("page.html"),
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Turn the record of a training run into one self-contained HTML page.

    The page shows how objective, score and sparsity went, the weights of the blocks along the epochs, the top features
    and what was confused with what. It needs no network. It needs the extra `report` (pip install spom[report]).

    \b
    Examples:
      spom report chunker.spom -o chunker.html
      spom report chunker.spom.run.json -o chunker.html
    """
    page_writer()(run, output)
    if not quiet:
        print(f"{output}: the page of {run}")


def page_writer() -> Callable[[Path, Path], None]:
    """The function that writes the page, or an error that says what is missing."""
    import importlib

    from spom.errors import Unsupported

    try:
        found: Callable[[Path, Path], None] = importlib.import_module("spom.report.page").write_page
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("spom.report"):
            raise Unsupported("this version of spom writes no page yet; M.run.json holds all its numbers") from None
        raise Unsupported(f"the page needs the package {missing} (pip install spom[report])") from None
    return found
