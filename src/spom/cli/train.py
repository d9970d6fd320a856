"""`spom train tagger | parser | classifier | regressor`: from a file to a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spom.cli import options as o

app = typer.Typer(
    help="Learn a model from a file.",
    short_help="Learn a tagger, parser, classifier or regressor from a file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="COLUMN", help="Column of a table to predict; the last one, where it is left out."
    ),
]
Solver = Annotated[
    str,
    typer.Option(
        "--solver",
        metavar="NAME",
        help="online (one example after another) or proximal (all data at once, to a certified optimum).",
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


def _vectors(task: str, values: dict[str, Any]) -> None:
    from spom.cli.train_vectors import train

    o.refuse_dask(values.pop("dask"))
    values.pop("config"), values.pop("debug")
    train(task, **values)


@app.command()
def classifier(
    train: o.TrainFile,
    model: o.ModelOut,
    dev: o.DevFile = None,
    format: o.Format = None,
    target: Target = None,
    solver: Solver = "online",
    penalty: o.Penalty = None,
    strength: o.Strength = None,
    groups: Groups = None,
    loss: o.Loss = None,
    epochs: o.Epochs = None,
    seed: o.Seed = 0,
    settings: o.Settings = None,
    stream: Stream = False,
    checkpoint: o.Checkpoint = None,
    checkpoint_every: o.CheckpointEvery = "60s",
    resume: o.Resume = False,
    jobs: o.Jobs = 1,
    dask: o.Dask = None,
    config: o.Config = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Learn a classifier of vectors, and which features it needs.

    Files are svmlight (label index:value ...), CSV with the names of the columns in the first line, or Parquet. The
    model goes to M, and what was used and how the run went to M.run.json, which `spom report` turns into a page. Ctrl-C
    stops after the pass that is under way and keeps the best model so far; --resume goes on.

    \b
    Examples:
      spom train classifier --train train.svm.gz --dev dev.svm.gz --model m.spom --strength 1e-5
      spom train classifier --train iris.csv --target species --model iris.spom --penalty group-lasso --strength 0.01
      spom train classifier --config run.toml --epochs 20

    Losses are logistic (default), hinge and power-hinge; the default penalty is l1 of strength 1e-4 (proximal: 1e-2).
    """
    _vectors("classifier", locals())


@app.command()
def regressor(
    train: o.TrainFile,
    model: o.ModelOut,
    dev: o.DevFile = None,
    format: o.Format = None,
    target: Target = None,
    solver: Solver = "online",
    penalty: o.Penalty = None,
    strength: o.Strength = None,
    groups: Groups = None,
    loss: o.Loss = None,
    epochs: o.Epochs = None,
    seed: o.Seed = 0,
    settings: o.Settings = None,
    stream: Stream = False,
    checkpoint: o.Checkpoint = None,
    checkpoint_every: o.CheckpointEvery = "60s",
    resume: o.Resume = False,
    jobs: o.Jobs = 1,
    dask: o.Dask = None,
    config: o.Config = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Learn a regressor of vectors, and which features it needs.

    As `spom train classifier`, with real numbers as targets.

    \b
    Examples:
      spom train regressor --train houses.csv --target price --model price.spom --solver proximal --strength 0.1
      spom train regressor --train train.svm --dev dev.svm --model m.spom --loss power-absolute

    Losses are squared (default) and power-absolute; the default penalty is l1 of strength 1e-4 (proximal: 1e-2).
    """
    _vectors("regressor", locals())
