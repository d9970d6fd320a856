"""A result as a table: for terminals, HTML and reStructuredText."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spom.papers.experiment import Experiment
from spom.papers.result import Result, Row

HEADER = ("quantity", "paper", "ours", "met", "notes")
MARKS = {None: "", True: "yes", False: "NO"}
# The meaning of the columns, for pages that show such tables.
EXPLAINED = (
    "quantity is what was measured",
    "paper is the number that the paper prints, or what it claims in words",
    "ours is the result of this run, with its spread where there are several",
    "met says whether the claim holds here, decided from the numbers alone; it is empty where there is nothing to "
    "decide, and in quick runs, which are too small to decide anything",
    "notes name what was chosen and by what, and say why a number differs",
)


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """Return a row as text."""
    return row.what, row.paper or "-", row.ours, MARKS[row.met], row.word


def terminal(result: Result) -> Any:
    """Return a table for `rich` to print."""
    from rich.table import Table
    from rich.text import Text

    kind = "quick run" if result.quick else "full run"
    title = f"{result.id}: {result.title} ({result.paper}, {result.part}; {kind}, {result.seconds:.0f} s)"
    table = Table(title=title, title_justify="left", show_lines=False)
    for name, ratio in zip(HEADER, (4, 2, 2, None, 5), strict=True):
        table.add_column(name, ratio=ratio, overflow="fold")
    for row in result.table:
        style = "red" if row.met is False else ""
        table.add_row(*(Text(cell, style=style) for cell in cells(row)))
    return table


def listing(experiments: Sequence[Experiment]) -> Any:
    """Return the list of experiments as a table for `rich` to print."""
    from rich.table import Table

    table = Table(title="spom reproduce ID", title_justify="left")
    for name in ("id", "paper", "part", "what", "data"):
        table.add_column(name, no_wrap=name == "id")
    for e in experiments:
        table.add_row(e.id, e.paper, e.part, e.title, ", ".join(e.data) or "synthetic")
    return table
