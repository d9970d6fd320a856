"""Options of `spom train` that take names, with the names and defaults of each task in their help and completion.

Names are written out here, so that `--help` need not import what they stand for; tests compare them with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

# Penalties of single weights, of templates or kernels, of groups of features, and sets.
SINGLE = ("l1", "squared-l2", "elastic-net")
BLOCKS = ("group-lasso", "sparse-mkl", "lq-mkl", "elastic-net-mkl")
GROUPS = (
    *("l2", "linf", "squared-l1", "power", "group-linf", "sparse-group-lasso"),
    *("tree-group-lasso", "overlapping-group-lasso", "latent-group-lasso"),
)
SETS = ("l1-ball", "l2-ball", "linf-ball", "simplex", "box")

PENALTIES = {
    "tagger": (*SINGLE, *BLOCKS),
    "parser": ("l2", "squared-l2", *BLOCKS),
    "classifier": (*SINGLE, *BLOCKS, *GROUPS, *SETS),
    "regressor": (*SINGLE, *BLOCKS, *GROUPS, *SETS),
}
DEFAULT_PENALTY = {
    "tagger": "l1, with a strength from the number of sentences",
    "parser": "none",
    "classifier": "squared-l2, with a strength from held-out rows",
    "regressor": "squared-l2, with a strength from held-out rows",
}
# The default comes first.
LOSSES = {
    "tagger": ("softmax-margin", "log", "hinge", "perceptron"),
    "parser": ("mira", "hinge", "perceptron", "log"),
    "classifier": ("logistic", "hinge", "power-hinge"),
    "regressor": ("squared", "power-absolute"),
}
EPOCHS = {
    "tagger": "6, and up to 20 where there are few sentences",
    "parser": "6 for arcs, 4 for relations",
    "classifier": "10",
    "regressor": "10",
}
FORMATS = {
    "tagger": ("conll", "conllu", "crfsuite"),
    "parser": ("conllu",),
    "pipeline": ("conllu",),
    "classifier": ("svmlight", "csv", "parquet"),
    "regressor": ("svmlight", "csv", "parquet"),
}
TEMPLATES = {"tagger": ("chunking", "pos", "entities", "tags"), "parser": ("default", "compact", "large")}
DEFAULT_TEMPLATES = {"tagger": "by the labels and columns", "parser": "default"}
SCHEMES = ("BIO", "IOB1", "BIOES", "BILOU", "none")
SOLVERS = ("online", "proximal")


def completing(names: Sequence[str]) -> Callable[[str], list[str]]:
    """What completes one of these names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def named(flag: str, names: Sequence[str], text: str, metavar: str = "NAME") -> Any:
    """An option that takes one of some names."""
    option = typer.Option(flag, metavar=metavar, help=text, autocompletion=completing(names))
    return Annotated[str | None, option]


def format_option(task: str) -> Any:
    """`--format`."""
    names = FORMATS[task]
    return named("--format", names, f"Format of the files: {', '.join(names)}. Default: by the file's name.")


def templates_option(task: str) -> Any:
    """`--templates`."""
    names = TEMPLATES[task]
    text = f"A set ({', '.join(names)}), or a file. Default: {DEFAULT_TEMPLATES[task]}."
    return named("--templates", names, text, "T")


def learning_options(task: str) -> dict[str, tuple[Any, Any]]:
    """`--penalty`, `--loss` and `--epochs` of a task."""
    penalties, losses = PENALTIES[task], LOSSES[task]
    text = f"{', '.join(penalties)}; or none. Default: {DEFAULT_PENALTY[task]}."
    epochs = typer.Option("--epochs", metavar="N", help=f"Passes over the data. Default: {EPOCHS[task]}.")
    return {
        "penalty": (named("--penalty", (*penalties, "none"), text), None),
        "loss": (named("--loss", losses, f"{', '.join(losses)}. Default: {losses[0]}."), None),
        "epochs": (Annotated[int | None, epochs], None),
    }
