"""`spom inspect`: what a model kept, and how much each part weighs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spom.cli import options as o


def inspect(
    model: Annotated[Path, typer.Argument(metavar="M", help="The model, as `spom train` wrote it.")],
    top: Annotated[int, typer.Option("--top", metavar="N", help="How many features of each label to show.")] = 10,
    header: Annotated[bool, typer.Option("--header", help="Show what the header says, and read nothing else.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check every array against its sha256.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the blocks and their weights as CSV.")] = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Show which templates, kernels or features a model kept, and their weights.

    Blocks are shown as bars; then the features that weigh most for each label, and the transitions of a tagger.

    \b
    Examples:
      spom inspect chunker.spom
      spom inspect chunker.spom --top 20 --json
      spom inspect chunker.spom --csv > blocks.csv
      spom inspect big.spom --header
      spom inspect big.spom --verify
    """
    from spom.cli.inspecting import from_header, from_model, print_csv, print_text
    from spom.cli.output import print_json
    from spom.models.files import read_header
    from spom.models.loading import load_model

    head = read_header(model)
    found: dict[str, Any] = from_header(head)
    if not header:
        found.update(from_model(load_model(model, True if verify else None), top))
    if json:
        print_json(found)
    elif csv:
        print_csv(found)
    else:
        print_text(found, verify)
