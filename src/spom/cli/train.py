"""`spom train tagger | parser | classifier | regressor`: from a file to a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spom.cli import options as o
from spom.cli.live import Stopping
from spom.cli.options import (
    REQUIRED,
    SCHEMES,
    SOLVERS,
    TEMPLATES,
    check_shards,
    command,
    completing,
    format_option,
    learning_options,
    templates_option,
)

app = typer.Typer(
    help="Learn a model from a file.",
    short_help="Learn a tagger, parser, pipeline, classifier or regressor.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[
    str | None,
    typer.Option(
        "--label",
        "--target",
        metavar="COLUMN",
        help="Column of a table to predict; the last one, where it is left out.",
    ),
]
Ignore = Annotated[str | None, typer.Option("--ignore", metavar="NAMES", help="Columns to leave out, with commas.")]
Features = Annotated[
    str | None, typer.Option("--features", metavar="NAMES", help="The only columns to learn from, with commas.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="Take a column as number, category, text or hashed (a category in N features: hashed:N); "
        "may be repeated. Default: the values decide.",
    ),
]
Solver = Annotated[
    str,
    typer.Option(
        "--solver",
        metavar="NAME",
        help="online (one example after another) or proximal (all data at once, to a certified optimum).",
        autocompletion=completing(SOLVERS),
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="N|rows",
        help="Groups of a group penalty: a block size, or rows (a feature for all classes).",
    ),
]
Stream = Annotated[
    bool, typer.Option("--stream", help="Read an svmlight file block by block, for one that does not fit in memory.")
]
Prune = Annotated[
    str | None,
    typer.Option("--prune", metavar="auto|N|S", help="Choose templates first: by itself, so many, or by a strength."),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label", "--target", metavar="COLUMN", help="Column of the labels, by name or number; the last one."
    ),
]
Constraints = Annotated[
    str | None,
    typer.Option(
        "--constraints",
        metavar="SCHEME",
        help="A scheme to obey: BIO, IOB1, BIOES, BILOU; or none. Default: the one that the labels are of, if any.",
        autocompletion=completing(SCHEMES),
    ),
]
Labels = Annotated[bool, typer.Option("--labels/--no-labels", help="Learn relations too.")]
Projective = Annotated[
    bool | None,
    typer.Option(
        "--projective/--all-trees", help="Trees without crossing arcs only, or all; by the treebank if left out."
    ),
]
SecondStage = Annotated[
    bool, typer.Option("--second-stage", help="A second parser that sees the tree of the first one.")
]
Order = Annotated[
    int, typer.Option("--order", min=1, max=2, help="2: siblings and grandparents score too, in projective trees.")
]

Size = Annotated[
    str | None, typer.Option("--size", metavar="SIZE", help="The best model within this size, such as 5MB or 800kB.")
]

FILES = {
    "train": (o.TrainFile, REQUIRED),
    "model": (o.ModelOut, REQUIRED),
    "dev": (o.DevFile, None),
}
CHOICE = {"prune": (Prune, None)}
SENTENCES = {
    "columns": (o.ColumnNames, None),
    "label": (Label, None),
    "encoding": (o.Encoding, "utf-8"),
    "constraints": (Constraints, None),
}
TREES = {
    "labels": (Labels, True),
    "projective": (Projective, None),
    "second_stage": (SecondStage, False),
    "order": (Order, 1),
}
PIPELINE = {
    "prune": (Prune, None),
    "size": (Size, None),
    "seed": (o.Seed, 0),
    "settings": (o.Settings, None),
}
TABLES = {
    "target": (Target, None),
    "ignore": (Ignore, None),
    "features": (Features, None),
    "kinds": (Kinds, None),
    "header": (o.CsvHeader, True),
    "encoding": (o.Encoding, "utf-8"),
    "zero_based": (o.ZeroBased, "auto"),
    "solver": (Solver, "online"),
    "groups": (Groups, None),
    "stream": (Stream, False),
}
LEARNING = {
    "strength": (o.Strength, None),
    "seed": (o.Seed, 0),
    "settings": (o.Settings, None),
}
RUNNING = {
    "checkpoint": (o.Checkpoint, None),
    "checkpoint_every": (o.CheckpointEvery, "60s"),
    "resume": (o.Resume, False),
    "keep_checkpoint": (o.KeepCheckpoint, False),
    "jobs": (o.Jobs, 1),
    "shards": (o.Shards, None),
    "dask": (o.Dask, None),
    "config": (o.Config, None),
    "json": (o.Json, False),
    "quiet": (o.Quiet, False),
    "debug": (o.Debug, False),
}


def _names(task: str) -> dict[str, tuple[Any, Any]]:
    """The options of a task that take names."""
    templates = {"templates": (templates_option(task), None)} if task in TEMPLATES else {}
    return {"format": (format_option(task), None), **templates, **learning_options(task)}


def _run(train: Any, values: dict[str, Any]) -> None:
    """Hand the options to what learns."""
    options = {name: value for name, value in values.items() if name not in ("run", "config", "debug")}
    o.check_epochs(values["epochs"])
    o.check_jobs(values["jobs"])
    check_shards(values, values.get("solver", "online") == "online" and not values.get("stream"))
    with Stopping() as stopping:
        train(stopping=stopping, **options)
    if stopping.number is not None:
        raise typer.Exit(stopping.status)


def _vectors(task: str, values: dict[str, Any]) -> None:
    from spom.cli.train_vectors import train

    _run(lambda **options: train(task, **options), values)


@command(app, FILES, _names("tagger"), CHOICE, SENTENCES, LEARNING, RUNNING)
def tagger(values: dict[str, Any]) -> None:
    """Learn a tagger of sentences, and which templates it needs.

    Files are CoNLL columns (one token per line, a blank line after each sentence, the label in the last column; CRF++
    has the same), CoNLL-U (the label is upos) or CRFsuite items (label TAB feature TAB ...). Templates are a ready set
    (chunking, pos, entities, tags), a template file of CRF++, or a file with one template per line, such as
    w[-1]|w[0] or w.suffix3[0]; without --templates they follow from labels and columns, and are named at the end.
    The model goes to M, what was used and how the run went to M.run.json. Ctrl-C and SIGTERM stop after the epoch
    that is under way and keep the best model so far; --resume continues.

    \b
    Examples:
      spom train tagger --train train.txt.gz --dev dev.txt.gz --model chunker.spom
      spom train tagger --train train.txt --model chunker.spom --templates template.crfpp --prune auto
      spom train tagger --train ewt.conllu.gz --label upos --templates pos --model pos.spom
      spom train tagger --train train.items --model crf.spom --loss hinge --penalty sparse-mkl --strength 1e-4

    Losses are softmax-margin (default), log, hinge and perceptron. The default penalty is l1 with a strength from the
    number of sentences; --penalty none is none.
    """
    from spom.cli.train_tagger import train as run

    _run(run, values)


@command(app, FILES, {"format": (format_option("pipeline"), None)}, PIPELINE, RUNNING)
def pipeline(values: dict[str, Any]) -> None:
    """Learn a pipeline from raw text to trees from a treebank in CoNLL-U.

    Tokens and sentences, tags, lemmas and trees are learnt from one treebank, and written as one model. `spom predict`
    then takes raw text. --prune chooses templates of the parser; --size leaves small weights of all stages out.

    \b
    Examples:
      spom train pipeline --train en_ewt-ud-train.conllu.gz --dev en_ewt-ud-dev.conllu.gz --model english.spom
      spom train pipeline --train en_ewt-ud-train.conllu.gz --model small.spom --size 5MB
    """
    from spom.cli.train_parser import train_pipeline as run

    _run(run, {**values, "epochs": None})


@command(app, FILES, _names("parser"), CHOICE, TREES, LEARNING, RUNNING)
def parser(values: dict[str, Any]) -> None:
    """Learn a dependency parser from a treebank in CoNLL-U, and which templates it needs.

    Ctrl-C and SIGTERM stop after the epoch that is under way and keep the best model so far; --resume continues.

    \b
    Examples:
      spom train parser --train en-train.conllu.gz --dev en-dev.conllu.gz --model parser.spom
      spom train parser --train en-train.conllu.gz --model parser.spom --templates large --prune auto
      spom train parser --train en-train.conllu.gz --model parser.spom --projective --no-labels --epochs 4

    Losses are mira (default), hinge, perceptron and log; there is no penalty unless one is asked for.
    """
    from spom.cli.train_parser import train as run

    _run(run, values)


@command(app, FILES, _names("classifier"), TABLES, LEARNING, RUNNING)
def classifier(values: dict[str, Any]) -> None:
    """Learn a classifier of vectors, and which features it needs.

    Files are svmlight (label index:value ...), CSV with the names of the columns in the first line, or Parquet. Columns
    of a table may be numbers, categories (one feature per value) or texts (one feature per word), and values may be
    missing. The model goes to M, and what was used and how the run went to M.run.json, which `spom report` turns into
    a page. Ctrl-C and SIGTERM stop after the pass that is under way and keep the best model so far; --resume
    continues.

    \b
    Examples:
      spom train classifier --train train.svm.gz --dev dev.svm.gz --model m.spom --strength 1e-5
      spom train classifier --train iris.csv --target species --model iris.spom --penalty group-lasso --strength 0.01
      spom train classifier --config run.toml --epochs 20

    Losses are logistic (default), hinge and power-hinge; the penalty and its strength are chosen from the data.
    """
    _vectors("classifier", values)


@command(app, FILES, _names("regressor"), TABLES, LEARNING, RUNNING)
def regressor(values: dict[str, Any]) -> None:
    """Learn a regressor of vectors, and which features it needs.

    As `spom train classifier`, with real numbers as targets.

    \b
    Examples:
      spom train regressor --train houses.csv --target price --model price.spom --solver proximal --strength 0.1
      spom train regressor --train train.svm --dev dev.svm --model m.spom --loss power-absolute

    Losses are squared (default) and power-absolute; the penalty and its strength are chosen from the data.
    """
    _vectors("regressor", values)
