"""`spom report`: one self-contained page about a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spom.cli import options
from spom.cli.options import REQUIRED, argument, option, takes

OPTIONS = {
    "run": argument("RUN", Path, REQUIRED, "M.run.json, or the model M."),
    "output": option("--output -o F", Path, Path("page.html"), "The page to write."),
    "quiet": options.QUIET,
    "debug": options.DEBUG,
}


@takes(OPTIONS)
def report(o: dict[str, Any]) -> None:
    """Turn the record of a training run into one self-contained HTML page.

    The page shows objective, score and sparsity by epoch, the weights of the blocks by epoch, the top features and
    the confusions. It needs no network. Writing it needs the extra `report` (pip install spom[report]).

    \b
    Examples:
      spom report chunker.spom -o chunker.html
      spom report chunker.spom.run.json -o chunker.html
    """
    page_writer()(o["run"], o["output"])
    if not o["quiet"]:
        print(f"{o['output']}: the page of {o['run']}")


def page_writer() -> Callable[[Path, Path], None]:
    """Return the function that writes the page, or raise an error that names the missing package."""
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
