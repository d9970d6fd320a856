"""`spom data list | fetch NAME`: the public data sets of tests, benchmarks and papers."""

from __future__ import annotations

from typing import Annotated

import typer

from spom.cli import options as o

app = typer.Typer(help="List and fetch public data sets.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_sets(json: o.Json = False, debug: o.Debug = False) -> None:
    """List the data sets: which there are, which are here, and where.

    \b
    Examples:
      spom data list
      SPOM_DATA=~/data spom data list --json
    """
    from spom.cli.output import print_json
    from spom.data.catalogue import CATALOGUE
    from spom.data.fetching import data_folder

    folder = data_folder()
    here = {name: all((folder / s.path).exists() for s in sources) for name, sources in sorted(CATALOGUE.items())}
    if json:
        print_json({"folder": str(folder), "sets": here})
        return
    print(f"in {folder} (set SPOM_DATA for another folder):")
    for name, there in here.items():
        print(f"  {name:12} {'here' if there else 'not here; spom data fetch ' + name}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a data set, as `spom data list` shows it.")],
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
