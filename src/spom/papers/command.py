"""`spom reproduce list | ID | all`: the function that the command line registers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from spom.errors import SpomError
from spom.papers.catalogue import list_experiments
from spom.papers.experiment import Experiment
from spom.papers.result import Result, plain
from spom.papers.running import run, run_all
from spom.papers.tables import listing, terminal


def reproduce(
    what: Annotated[str, typer.Argument(metavar="list|ID|all", help="list the ids, run one of them, or run all")],
    quick: Annotated[bool, typer.Option("--quick", help="a smaller version, at most two minutes")] = False,
    folder: Annotated[Path, typer.Option("--folder", "-o", help="where ID.json and ID.png go")] = Path("reproduced"),
    seed: Annotated[int, typer.Option(help="seed of everything random")] = 0,
    figure: Annotated[bool, typer.Option(help="draw the figure, which needs matplotlib")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress bar")] = False,
) -> None:
    """Show a table or figure of a paper beside ours."""
    progress = False if quiet else None
    if what == "list" and as_json:
        print(json.dumps([asdict(experiment) for experiment in list_experiments()]))
    elif what == "list":
        _print(listing(list_experiments()))
    elif what == "all":
        _run_all(quick, folder, seed, as_json, progress)
    else:
        result = run(what, quick, folder, seed, figure=figure, progress=progress)
        _print_result(result, as_json)
        if not as_json:
            _print(f"written: {folder / what}.json" + (f", {folder / what}.png" if figure else ""))


def _print(what: Any) -> None:
    from rich.console import Console

    # A file or a pipe gets wide lines; a terminal uses its own width.
    Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=False).print(what)


def _print_result(result: Result, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plain(asdict(result)), allow_nan=False))
    else:
        _print(terminal(result))


def _run_all(quick: bool, folder: Path, seed: int, as_json: bool, progress: bool | None) -> None:
    failed = []

    def done(experiment: Experiment, outcome: Result | SpomError) -> None:
        if isinstance(outcome, SpomError):
            failed.append(experiment.id)
            print(f"{experiment.id}: {outcome}", file=sys.stderr)
        else:
            _print_result(outcome, as_json)

    run_all(quick, folder, seed, progress=progress, done=done)
    if not as_json:
        _print(f"written: {folder / 'index.html'}")
    if failed:
        raise SpomError(f"{len(failed)} of {len(list_experiments())} could not run: {', '.join(failed)}")
