"""`spom data list | fetch NAME | example NAME`: public data sets, and small files to try the command on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spom.cli import options as o
from spom.cli.task_options import completing

app = typer.Typer(
    help="List and fetch public data sets; write small examples.", no_args_is_help=True, rich_markup_mode=None
)


def _sets(incomplete: str) -> list[str]:
    """Complete the name of a data set."""
    from spom.data.catalogue import ABOUT

    return [name for name in sorted(ABOUT) if name.startswith(incomplete)]


@app.command("list")
def list_sets(json: o.Json = False, debug: o.Debug = False) -> None:
    """List the data sets: what each is, its size and licence, and whether it is here.

    \b
    Examples:
      spom data list
      SPOM_DATA=~/data spom data list --json
    """
    from dataclasses import asdict

    from spom.cli.output import print_json
    from spom.cli.record import size
    from spom.data.catalogue import ABOUT, CATALOGUE
    from spom.data.fetching import data_folder

    folder = data_folder()
    sets = {}
    for name, about in sorted(ABOUT.items()):
        paths = [folder / source.path for source in CATALOGUE[name]]
        there = all(path.exists() for path in paths)
        stored = sum(path.stat().st_size for path in paths) if there else None
        sets[name] = {**asdict(about), "here": there, "bytes": stored}
    if json:
        print_json({"folder": str(folder), "sets": sets})
        return
    print(f"in {folder} (set SPOM_DATA for another folder):")
    for name, found in sets.items():
        where = f"here, {size(found['bytes'])}" if found["here"] else f"not here: spom data fetch {name}"
        print(f"  {name:10} {found['what']}")
        print(f"  {'':10} {found['count']}; {found['licence']}; {where}")


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The name of a data set, as `spom data list` shows it.", autocompletion=_sets
        ),
    ],
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Download a data set into the data folder, and check every file by its sha256.

    What is there already is checked and kept.

    \b
    Examples:
      spom data fetch conll2000
      SPOM_DATA=~/data spom data fetch ewt
    """
    from spom.data.fetching import fetch as get

    folder = get(name)
    if not quiet:
        print(folder)


@app.command()
def example(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="sentences (recipes with labels), table (wines of three kinds) or treebank (recipes with trees).",
            autocompletion=completing(("sentences", "table", "treebank")),
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write the files.")] = Path(),
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write small files to try spom on, without a download.

    \b
    Examples:
      spom data example sentences
      spom data example table wines
    """
    from spom.cli.example_files import write_examples

    for path in write_examples(name, folder):
        if not quiet:
            print(path)
