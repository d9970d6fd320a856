"""`spom inspect`: the parts that a model kept, and their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spom.cli import options
from spom.cli.options import REQUIRED, argument, option, takes

OPTIONS = {
    "model": argument("M", Path, REQUIRED, "The model, as `spom train` wrote it."),
    "top": option("--top N", int, 10, "How many features of each label to show."),
    "label": option("--label NAME", str | None, None, "Show the features of one label."),
    "every": option("--all", bool, False, "Show every block, label and transition."),
    "header": option("--header", bool, False, "Show what the header says, and read nothing else."),
    "verify": option("--verify", bool, False, "Check every array against its sha256."),
    "csv": option("--csv", bool, False, "Print the blocks and their weights as CSV."),
    "json": options.JSON,
    "debug": options.DEBUG,
}


@takes(OPTIONS)
def inspect(o: dict[str, Any]) -> None:
    """Show which templates, kernels or features a model kept, and their weights.

    The output fits on one screen: blocks as bars, then the top features of each label. --label shows one label in full,
    --all everything.

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
    import shutil
    import sys

    from spom.cli.summaries import SCREEN_WIDTH, View, from_header, from_model, print_csv, print_text
    from spom.core.container import read_header
    from spom.models.loading import load_model

    model, verify = o["model"], o["verify"]
    found: dict[str, Any] = from_header(read_header(model))
    if not o["header"]:
        found.update(from_model(load_model(model, True if verify else None), o["top"]))
    if o["json"]:
        options.print_json(found)
    elif o["csv"]:
        print_csv(found)
    else:
        shown = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if shown else SCREEN_WIDTH
        print_text(found, View(o["label"], o["every"], verify, shown and "NO_COLOR" not in os.environ, width))
