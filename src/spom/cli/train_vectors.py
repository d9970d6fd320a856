"""Learning classifiers and regressors of vectors from files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spom.cli import options
from spom.cli.live import Live
from spom.cli.options import penalty_of
from spom.cli.record import Recorder, Resuming, fitted
from spom.cli.scores import vector_scores
from spom.cli.vectors import Layout, Vectors, format_of, read_vectors
from spom.data.tables import CsvForm
from spom.errors import DataError, Unsupported

# The most blocks whose names and weights the record of a run holds.
MANY_BLOCKS = 2000


def train(task: str, **o: Any) -> None:
    """Read, learn, score, write."""
    real = task == "regressor"
    estimator = _estimator(task, o)
    recorder, resuming = Recorder(task, o), Resuming(o)
    data, dev = _read(o, real)
    recorder.data("train", data.path, data.format, rows=_rows(data), features=_width(data))
    if dev is not None:
        recorder.data("dev", dev.path, dev.format, rows=dev.X.shape[0])
        _check_labels(data, dev, real)
    if o["solver"] == "online":
        total = o["epochs"] or estimator.epochs
        live = Live(total, o["quiet"] or o["json"], "rows/s", stopping=o["stopping"])
        _fit_online(estimator, data, dev, live, (o, resuming))
        recorder.history(estimator._entries)
        recorder.stopped = "interrupted" if live.interrupted else "converged" if estimator.converged_ else "end"
    else:
        _fit_batch(estimator, data, recorder)
    if data.names is not None:
        estimator.feature_names_in_ = np.array(data.names, dtype=object)
    _finish(estimator, data, dev, recorder, o)
    recorder.end(o["stopping"], resuming)


def _rows(data: Vectors) -> int | None:
    return None if data.X is None else int(data.X.shape[0])


def _width(data: Vectors) -> int | None:
    return None if data.X is None else int(data.X.shape[1])


# --- before -----------------------------------------------------------------------------------------


def _layout(o: dict[str, Any]) -> Layout:
    """How the files are to be read, from the options."""
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
    layout = _layout(o)
    found = format_of(o["train"], o["format"])
    if o["stream"]:
        if found != "svmlight" or o["train"] == "-" or o["solver"] != "online":
            raise Unsupported("--stream takes an svmlight file and the online solver")
        data = Vectors(None, None, None, _streamed(o["train"], layout), found, o["train"])
    else:
        data = read_vectors(o["train"], layout, real)
        classes = 0 if real else len(np.unique(data.y))
        if classes > max(1000, data.X.shape[0] // 2):
            what = f"{classes} classes in {data.X.shape[0]} rows"
            raise DataError(f"expected labels, found {what}; `spom train regressor` takes real targets", data.path)
    return data, None if o["dev"] is None else _read_dev(o, data, real)


def _file(data: Vectors) -> Any:
    """The file of a stream."""
    from spom.data.svmlight import SvmlightFile

    return SvmlightFile(data.path, zero_based=bool(data.layout.zero_based))


def _streamed(path: str, layout: Layout) -> Layout:
    """The layout of a file that is read in blocks; the first block says whether indices start at 0."""
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
    """The held-out file, with the columns and the width of the training file."""
    width = _file(data).n_features if data.X is None else data.X.shape[1]
    names = None if data.layout.columns is not None else data.names
    return read_vectors(o["dev"], replace(data.layout, names=names, width=width), real)


def _check_labels(data: Vectors, dev: Vectors, real: bool) -> None:
    if real or data.X is None:
        return
    known, held = set(np.unique(data.y).tolist()), set(np.unique(dev.y).tolist())
    if not known & held:
        raise DataError(
            f"the labels ({', '.join(map(str, sorted(held, key=str)[:5]))}) are of another set than those of "
            f"{data.path} ({', '.join(map(str, sorted(known, key=str)[:5]))})",
            dev.path,
        )


def _estimator(task: str, o: dict[str, Any]) -> Any:
    """The estimator with all its parameters, checked before anything is read."""
    import spom

    names = {"online": (spom.OnlineClassifier, spom.OnlineRegressor, 1e-4)}
    if o["solver"] == "proximal":
        names = {"proximal": (spom.ProximalClassifier, spom.ProximalRegressor, 1e-2)}
    if o["solver"] != "online" and (o["checkpoint"] is not None or o["resume"]):
        raise Unsupported("--checkpoint and --resume are for the online solver")
    if o["solver"] not in names:
        raise Unsupported(f"there is no solver {o['solver']!r} here; the solvers are: online, proximal")
    classifier, regressor, strength = names[o["solver"]]
    cls: Any = regressor if task == "regressor" else classifier
    params: dict[str, Any] = {"verbose": 0 if o["quiet"] or o["solver"] == "online" else 1}
    params["penalty"] = _penalty(o, strength)
    if o["loss"] is not None:
        params["loss"] = o["loss"]
    if o["solver"] == "online":
        params.update(random_state=o["seed"], n_jobs=o["jobs"])
    if o["epochs"] is not None:
        params["epochs" if o["solver"] == "online" else "max_iter"] = o["epochs"]
    found = cls(**params)
    found.set_params(**options.parsed(o["settings"]))
    return found


def _penalty(o: dict[str, Any], strength: float) -> Any:
    """The penalty of the options: "auto", or a name, whose strength is then chosen, unless there is one."""
    from spom.penalties import L1

    if o["penalty"] == "none":
        return None
    if o["strength"] is None and o["groups"] is None and not o["stream"]:
        return "auto" if o["penalty"] is None else o["penalty"]
    if o["strength"] is None and o["penalty"] is None and o["groups"] is None:
        return "auto"
    return penalty_of(o["penalty"], o["strength"], o["groups"], L1(strength))


# --- learning ---------------------------------------------------------------------------------------


def _fit_online(
    estimator: Any, data: Vectors, dev: Vectors | None, live: Live, how: tuple[dict[str, Any], Resuming]
) -> None:
    o, resuming = how
    # The objective of a stream would be one of each block alone.
    live.objective = data.X is not None
    estimator.set_params(callbacks=[live])
    held = None if dev is None else (dev.X, dev.y)
    with live:
        if data.X is None:
            estimator.fit(_file(data), dev=held, **resuming.arguments)
        else:
            fitted(estimator, (data.X, data.y), held, o, resuming.arguments)


def _fit_batch(estimator: Any, data: Vectors, recorder: Recorder) -> None:
    estimator.fit(data.X, data.y)
    columns = estimator.history_
    names = {"k": "epoch", "objective": "objective", "loss": "loss", "nnz": "nonzeros", "seconds": "seconds"}
    rounds = len(columns["k"])
    recorder.history([{to: columns[at][i] for at, to in names.items()} for i in range(rounds)])
    recorder.stopped = "converged" if estimator.converged_ else "end"


# --- after ------------------------------------------------------------------------------------------


def _finish(model: Any, data: Vectors, dev: Vectors | None, recorder: Recorder, o: dict[str, Any]) -> None:
    result: dict[str, Any] = {}
    confusion = None
    if dev is not None:
        scores = vector_scores(model, dev.X, dev.y)
        result, confusion = dict(scores.flat), scores.confusion
    training = {**model._training(), "task": recorder.task, "format": data.format, **data.layout.remembered()}
    weights = model.block_weights_
    if weights.size <= MANY_BLOCKS:
        recorder.blocks(block_names(model), weights)
    result.update({k: training[k] for k in ("nonzeros", "weights", "blocks_kept")})
    recorder.finish(model, training, result, confusion)


def block_names(model: Any) -> list[str]:
    """The names of a linear model's blocks: its features, or those of its groups joined."""
    names = getattr(model, "feature_names_in_", None)
    found = []
    for members in model.blocks_:
        shown = [str(names[i]) if names is not None else str(int(i) + 1) for i in members[:4]]
        found.append("+".join(shown) + ("+..." if len(members) > 4 else ""))
    return found
