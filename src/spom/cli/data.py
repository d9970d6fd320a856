"""`spom data list | fetch NAME | example NAME`: public data sets, and small files to try the command on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from spom.cli import options
from spom.cli.options import REQUIRED, argument, completing, takes
from spom.errors import DataError

app = typer.Typer(
    help="List and fetch public data sets; write small examples.", no_args_is_help=True, rich_markup_mode=None
)


def _sets(incomplete: str) -> list[str]:
    """Complete the name of a data set."""
    from spom.data.catalogue import ABOUT

    return [name for name in sorted(ABOUT) if name.startswith(incomplete)]


@app.command("list")
@takes({"json": options.JSON, "debug": options.DEBUG})
def list_sets(o: dict[str, Any]) -> None:
    """List the data sets: what each is, its size and licence, and whether it is here.

    \b
    Examples:
      spom data list
      SPOM_DATA=~/data spom data list --json
    """
    from dataclasses import asdict

    from spom.cli.training import size
    from spom.data.catalogue import ABOUT, CATALOGUE
    from spom.data.fetching import data_folder

    folder = data_folder()
    sets = {}
    for name, about in sorted(ABOUT.items()):
        paths = [folder / source.path for source in CATALOGUE[name]]
        there = all(path.exists() for path in paths)
        stored = sum(path.stat().st_size for path in paths) if there else None
        sets[name] = {**asdict(about), "here": there, "bytes": stored}
    if o["json"]:
        options.print_json({"folder": str(folder), "sets": sets})
        return
    print(f"in {folder} (set SPOM_DATA for another folder):")
    for name, found in sets.items():
        where = f"here, {size(found['bytes'])}" if found["here"] else f"not here: spom data fetch {name}"
        print(f"  {name:10} {found['what']}")
        print(f"  {'':10} {found['count']}; {found['licence']}; {where}")


@app.command()
@takes(
    {
        "name": argument(
            "NAME", str, REQUIRED, "The name of a data set, as `spom data list` shows it.", autocompletion=_sets
        ),
        "quiet": options.QUIET,
        "debug": options.DEBUG,
    }
)
def fetch(o: dict[str, Any]) -> None:
    """Download a data set into the data folder, and check every file by its sha256.

    Files that are already there are checked and kept.

    \b
    Examples:
      spom data fetch conll2000
      SPOM_DATA=~/data spom data fetch ewt
    """
    from spom.data.fetching import fetch as get

    folder = get(o["name"])
    if not o["quiet"]:
        print(folder)


@app.command()
@takes(
    {
        "name": argument(
            "NAME",
            str,
            REQUIRED,
            "sentences (recipes with labels), table (wines of three kinds) or treebank (recipes with trees).",
            autocompletion=completing(("sentences", "table", "treebank")),
        ),
        "folder": argument("[DIR]", Path, Path(), "Where to write the files."),
        "quiet": options.QUIET,
        "debug": options.DEBUG,
    }
)
def example(o: dict[str, Any]) -> None:
    """Write small files to try spom on, without a download.

    \b
    Examples:
      spom data example sentences
      spom data example table wines
    """
    for path in write_examples(o["name"], o["folder"]):
        if not o["quiet"]:
            print(path)


def sentences() -> dict[str, str]:
    """Generate lines of made-up recipes, one word per line with its label: train.txt, dev.txt and test.txt."""
    from spom.data.generated import ingredients

    parts = {"train.txt": (1000, 0), "dev.txt": (200, 1), "test.txt": (200, 2)}
    return {
        name: "".join(
            "".join(" ".join(token) + "\n" for token in line) + "\n" for line in ingredients(count, seed=seed)
        )
        for name, (count, seed) in parts.items()
    }


def table() -> dict[str, str]:
    """Write scikit-learn's table of three kinds of wine by their chemistry: train.csv and test.csv."""
    import numpy as np
    from sklearn.datasets import load_wine

    wine = load_wine()
    header = ",".join([*(name.replace("/", "_per_") for name in wine.feature_names), "kind"])
    rows = [
        ",".join([*(f"{x:g}" for x in row), str(wine.target_names[k])])
        for row, k in zip(wine.data, wine.target, strict=True)
    ]
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    parts = {"train.csv": order[:130], "test.csv": order[130:]}
    return {name: "\n".join([header, *(rows[i] for i in chosen)]) + "\n" for name, chosen in parts.items()}


def treebank() -> dict[str, str]:
    """Generate made-up recipes with trees: train.conllu and test.conllu, and text.txt."""
    from spom.data.generated_trees import kitchen

    text = "Don't grill the small beans! Peel the hot eggs in a pot.\n"
    return {"train.conllu": kitchen(600, 0), "test.conllu": kitchen(100, 1), "text.txt": text}


EXAMPLES: dict[str, Callable[[], dict[str, str]]] = {"sentences": sentences, "table": table, "treebank": treebank}


def write_examples(name: str, folder: Path) -> list[Path]:
    """Write the files of an example; none of them may exist."""
    if name not in EXAMPLES:
        raise DataError(f"there is no example {name!r}; there are: {', '.join(EXAMPLES)}")
    files = EXAMPLES[name]()
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if (folder / file).exists():
            raise DataError("this file is there already; name another folder", str(folder / file))
    for file, text in files.items():
        (folder / file).write_text(text)
    return [folder / file for file in files]
