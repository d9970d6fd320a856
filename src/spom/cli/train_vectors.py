"""`spom train classifier` and `spom train regressor`: models learnt from vectors."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spom.cli import options
from spom.cli.options import (
    FILES,
    LEARNING,
    RUNNING,
    SOLVERS,
    VECTORS,
    completing,
    format_of,
    given,
    names_of,
    option,
    takes,
)
from spom.errors import DataError, Unsupported

if TYPE_CHECKING:
    from spom.cli.vectors import Layout, Vectors

# The maximum number of blocks whose names and weights the record of a run holds.
MANY_BLOCKS = 2000
# The columns of a history of batch solvers, and their names in the record of a run.
_BATCH = {"k": "epoch", "objective": "objective", "loss": "loss", "nnz": "nonzeros", "seconds": "seconds"}

TABLES = {
    "target": option(
        "--label --target COLUMN",
        str | None,
        None,
        "Column of a table to predict. Default: the last one.",
    ),
    "ignore": option("--ignore NAMES", str | None, None, "Columns to leave out, separated by commas."),
    "features": option("--features NAMES", str | None, None, "The only columns to learn from, separated by commas."),
    "kinds": option(
        "--kind COLUMN=KIND",
        list[str] | None,
        None,
        "Treat a column as number, category, text or hashed (a category in N features: hashed:N); may be repeated. "
        "Default: from the values.",
    ),
    "header": option(
        "--header/--no-header",
        bool | None,
        None,
        "Whether line 1 of a CSV file has the column names. Default: from the first two lines.",
    ),
    "encoding": options.ENCODING,
    "zero_based": option(
        "--zero-based auto|yes|no", str, "auto", "Whether the indices of an svmlight file start at 0."
    ),
    "solver": option(
        "--solver NAME",
        str,
        "online",
        "online (one example after another) or proximal (all data at once, to a certified optimum).",
        autocompletion=completing(SOLVERS),
    ),
    "groups": option(
        "--groups N|rows",
        str | None,
        None,
        "Groups of a group penalty: a block size, or rows (a feature for all classes).",
    ),
    "stream": option(
        "--stream", bool, False, "Read an svmlight file block by block, for one that does not fit in memory."
    ),
}


@takes(FILES, names_of("classifier"), TABLES, LEARNING, RUNNING)
def classifier(o: dict[str, Any]) -> None:
    """Learn a classifier of vectors, and which features it needs.

    Files are svmlight (label index:value ...), CSV or Parquet. If the first line of a CSV file has no column names,
    they are called 1, 2, ... Columns of a table may be numbers, categories (one feature per value) or texts (one
    feature per word), and values may be missing. The model is written to M, and the settings and the history of the
    run to M.run.json, which `spom report` turns into a page. Ctrl-C and SIGTERM stop after the current pass and keep
    the best model so far; --resume continues the run.

    \b
    Examples:
      spom train classifier --train train.svm.gz --dev dev.svm.gz --model m.spom --strength 1e-5
      spom train classifier --train iris.csv --target species --model iris.spom --penalty group-lasso --strength 0.01
      spom train classifier --config run.toml --epochs 20

    Losses are logistic, hinge and power-hinge; the penalty and its strength are chosen from the data.
    """
    _train("classifier", o)


@takes(FILES, names_of("regressor"), TABLES, LEARNING, RUNNING)
def regressor(o: dict[str, Any]) -> None:
    """Learn a regressor of vectors, and which features it needs.

    As `spom train classifier`, with real numbers as targets.

    \b
    Examples:
      spom train regressor --train houses.csv --target price --model price.spom --solver proximal --strength 0.1
      spom train regressor --train train.svm --dev dev.svm --model m.spom --loss power-absolute

    Losses are squared (default) and power-absolute; the penalty and its strength are chosen from the data.
    """
    _train("regressor", o)


def _train(task: str, o: dict[str, Any]) -> None:
    """Read the data, learn and score a model, and write it."""
    import numpy as np

    from spom.cli.scores import Scores, check_labels, vector_scores
    from spom.cli.training import Run
    from spom.cli.vectors import as_text

    real, online = task == "regressor", o["solver"] == "online"
    with Run(task, o, "rows/s", shards=online and not o["stream"]) as run:
        model = _estimator(task, o)
        data, dev = _read(o, real)
        rows, width = (None, None) if data.X is None else data.X.shape
        run.data("train", data.path, data.format, rows=rows, features=width)
        if dev is not None:
            run.data("dev", dev.path, dev.format, rows=dev.X.shape[0])
            if not real and data.X is not None:
                found, known = (as_text(np.unique(part.y)) for part in (dev, data))
                check_labels(found, known, f"those of {data.path}", dev.path)
        if online:
            classes = None if real or data.X is None else int(np.unique(data.y).size)
            run.live.total = model._passes(data.X, classes)
            # The objective of a stream would be that of each block alone.
            run.live.objective = data.X is not None
            model.set_params(callbacks=[run.live])
            held = None if dev is None else (dev.X, dev.y)
            run.fit(model, _file(data) if data.X is None else data.X, data.y, held)
            entries = model._entries
        else:
            model.fit(data.X, data.y)
            columns, run.stopped = model.history_, "converged" if model.converged_ else "end"
            entries = [{to: columns[at][i] for at, to in _BATCH.items()} for i in range(len(columns["k"]))]
        if data.names is not None:
            model.feature_names_in_ = np.array(data.names, dtype=object)
        few = model.block_weights_.size <= MANY_BLOCKS
        run.learnt(entries, **({"blocks": block_names(model), "block_weights": model.block_weights_} if few else {}))
        training = {"format": data.format, **data.layout.remembered()}
        scores = Scores({}, "") if dev is None else vector_scores(model, dev.X, dev.y)
        run.finish(model, training, scores.flat, confusion=scores.confusion)


# --- before training --------------------------------------------------------------------------------


def _layout(o: dict[str, Any]) -> Layout:
    """Return the layout of the files, from the options."""
    from spom.cli.vectors import Layout
    from spom.data.tables import CsvForm

    return Layout(
        format=o["format"],
        target=o["target"],
        ignore=options.comma_separated(o["ignore"]),
        features=options.comma_separated(o["features"]),
        kinds={name: str(kind) for name, kind in options.parsed(o["kinds"], "--kind").items()},
        form=CsvForm(o["header"], o["encoding"]),
        zero_based=options.yes_or_no(o["zero_based"], "--zero-based"),
    )


def _read(o: dict[str, Any], real: bool) -> tuple[Vectors, Vectors | None]:
    import numpy as np

    from spom.cli.vectors import Vectors, read_vectors

    layout = _layout(o)
    found = format_of(o["train"], o["format"], VECTORS)
    if o["stream"]:
        if found != "svmlight" or o["train"] == "-" or o["solver"] != "online":
            raise Unsupported("--stream needs an svmlight file and the online solver")
        data = Vectors(None, None, None, _streamed(o["train"], layout), found, o["train"])
    else:
        data = read_vectors(o["train"], layout, real)
        if o["header"] is None and data.layout.form.header is False and not o["quiet"]:
            what = "line 1 looks like data, so columns are named 1, 2, ...; use --header if it has their names"
            print(f"spom: {data.path}: {what}", file=sys.stderr)
        classes = 0 if real else len(np.unique(data.y))
        if classes > max(1000, data.X.shape[0] // 2):
            where = "" if data.layout.target is None else f" in column {data.layout.target!r}"
            what = f"expected labels{where}, found {classes} distinct values in {data.X.shape[0]} rows"
            hint = "choose another column with --target, or use `spom train regressor` for real targets"
            raise DataError(f"{what}; {hint}", data.path)
    return data, None if o["dev"] is None else _read_dev(o, data, real)


def _file(data: Vectors) -> Any:
    """Return the file of a stream."""
    from spom.data.svmlight import SvmlightFile

    return SvmlightFile(data.path, zero_based=bool(data.layout.zero_based))


def _streamed(path: str, layout: Layout) -> Layout:
    """Return the layout of a file that is read in blocks; the first block tells whether indices start at 0."""
    from spom.data.svmlight import STARTS_AT_ZERO, read_svmlight

    if layout.zero_based is not None:
        return layout
    try:
        next(read_svmlight(path), None)
    except DataError as error:
        if not error.what.startswith(STARTS_AT_ZERO):
            raise
        return replace(layout, zero_based=True)
    return layout


def _read_dev(o: dict[str, Any], data: Vectors, real: bool) -> Vectors:
    """Read the held-out file, with the columns and the width of the training file."""
    from spom.cli.vectors import read_vectors

    width = _file(data).n_features if data.X is None else data.X.shape[1]
    names = None if data.layout.columns is not None else data.names
    return read_vectors(o["dev"], replace(data.layout, names=names, width=width), real)


def _estimator(task: str, o: dict[str, Any]) -> Any:
    """Create the estimator with all its parameters, checked before any data are read."""
    import spom
    from spom.penalties import L1

    if o["solver"] not in SOLVERS:
        raise Unsupported(f"unknown solver {o['solver']!r}; available: {', '.join(SOLVERS)}")
    online = o["solver"] == "online"
    if not online and (o["checkpoint"] is not None or o["resume"]):
        raise Unsupported("--checkpoint and --resume are for the online solver")
    cls: Any = getattr(spom, o["solver"].title() + task.title())
    params = given(o, "loss")
    params["verbose"] = 0 if o["quiet"] or online else 1
    default = L1(1e-4 if online else 1e-2)
    params["penalty"] = options.penalty_of(o["penalty"], o["strength"], default, o["groups"], choose=not o["stream"])
    if online:
        params.update(random_state=o["seed"], n_jobs=o["jobs"])
    if o["epochs"] is not None:
        params["epochs" if online else "max_iter"] = o["epochs"]
    found = cls(**params)
    options.set_parameters(found, o["settings"])
    return found


def block_names(model: Any, which: Iterable[int] | None = None) -> list[str]:
    """Return the names of all or some blocks of a linear model: its features, or the joined features of its groups."""
    blocks = model.blocks_
    names, found = getattr(model, "feature_names_in_", None), []
    for m in range(len(blocks)) if which is None else which:
        shown = [str(int(i) + 1) if names is None else str(names[i]) for i in blocks[m][:4]]
        found.append("+".join(shown) + ("+..." if len(blocks[m]) > 4 else ""))
    return found
