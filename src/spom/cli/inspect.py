"""`spom inspect`: what a model kept, and how much each part weighs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spom.cli import options as o
from spom.cli.options import REQUIRED, takes

OPTIONS = {
    "model": (
        Annotated[Path, typer.Argument(metavar="M", help="The model, as `spom train` wrote it.")],
        REQUIRED,
    ),
    "top": (Annotated[int, typer.Option("--top", metavar="N", help="How many features of each label to show.")], 10),
    "label": (
        Annotated[str | None, typer.Option("--label", metavar="NAME", help="Show the features of one label.")],
        None,
    ),
    "every": (Annotated[bool, typer.Option("--all", help="Show every block, label and transition.")], False),
    "header": (
        Annotated[bool, typer.Option("--header", help="Show what the header says, and read nothing else.")],
        False,
    ),
    "verify": (Annotated[bool, typer.Option("--verify", help="Check every array against its sha256.")], False),
    "csv": (Annotated[bool, typer.Option("--csv", help="Print the blocks and their weights as CSV.")], False),
    "json": (o.Json, False),
    "debug": (o.Debug, False),
}


@takes(OPTIONS)
def inspect(values: dict[str, Any]) -> None:
    """Show which templates, kernels or features a model kept, and their weights.

    One screen: blocks as bars, then the top features of each label. --label shows one label in full, --all everything.

    \b
    Examples:
      spom inspect chunker.spom
      spom inspect chunker.spom --label B-NP --top 20
      spom inspect chunker.spom --all --json
      spom inspect chunker.spom --csv > blocks.csv
      spom inspect big.spom --header
      spom inspect big.spom --verify
    """
    import os
    import sys

    from spom.cli.inspecting import View, from_header, from_model, print_csv, print_text
    from spom.cli.options import print_json
    from spom.core.container import read_header
    from spom.models.loading import load_model

    model, verify = values["model"], values["verify"]
    found: dict[str, Any] = from_header(read_header(model))
    if not values["header"]:
        found.update(from_model(load_model(model, True if verify else None), values["top"]))
    if values["json"]:
        print_json(found)
    elif values["csv"]:
        print_csv(found)
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print_text(found, View(values["label"], values["every"], verify, colour))
