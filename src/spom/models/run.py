"""The record of a training run beside its model, `M.run.json`: its settings, its history and its results.

It is one JSON object. `null` stands for a number that was not computed; all times are in seconds.

    run          1, the version of this schema
    spom         the version that ran
    command      the arguments, as a list of text
    task         "tagger", "parser", "pipeline", "classifier" or "regressor"
    estimator    the name of the class
    model        the model's file name, in the same folder
    started      the time at which the run began, ISO 8601, UTC
    seconds      from the first byte read to the model written
    stopped      "end", "converged" or "interrupted"
    options      every parameter by name, as text or numbers (penalty, strength, loss, epochs, seed, ...)
    data         {"train": {...}, "dev": {...}}: path, format and, as they apply, rows, features, sentences, tokens
    blocks       the names of the blocks (templates, kernels, features or groups), unless there are too many
    block_weights  their final weights
    pruning      the result of a selection of templates, as text; absent without one
    history      one object per epoch in a list: epoch, objective, loss, dev, blocks_kept, nonzeros, per_second (tokens
                 or rows), seconds (since the start of learning), block_weights (as many as `blocks`, or absent)
    result       flat numbers: those of `spom evaluate --json` on the dev data, and nonzeros, blocks_kept, bytes
    confusion    {"labels": [...], "counts": [[...]]} on the dev data, rows are gold; absent for a parser or regressor
    examples     for a parser, a few dev sentences: {"words", "tags", "heads", "relations", "predicted_heads",
                 "predicted_relations"}, each a list with one entry per word
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.atomic import replacing
from spom.errors import ModelFileError

SCHEMA = 1


def run_path(model: str | Path) -> Path:
    """Return the path of the record of a model's run: `chunker.spom.run.json` beside `chunker.spom`."""
    model = Path(model)
    return model.with_name(model.name + ".run.json")


def write_run(path: str | Path, record: dict[str, Any]) -> None:
    """Write a record; numpy numbers become plain ones, and non-finite numbers become null."""
    text = json.dumps(plain({"run": SCHEMA, **record}), indent=1, ensure_ascii=False, allow_nan=False)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def read_run(path: str | Path) -> dict[str, Any]:
    """Read the record at `path`, or that beside the model at `path`."""
    if os.path.isdir(path):
        raise ModelFileError(f"{path}: this is a folder; give the record of a run (M.run.json) or its model")
    given = Path(path)
    beside = given if given.suffix == ".json" else run_path(given)
    try:
        record = json.loads(beside.read_bytes())
        if not isinstance(record, dict):
            raise ValueError("no object")
        version = record["run"]
        newer = version > SCHEMA
    except FileNotFoundError:
        raise ModelFileError(f"{beside}: there is no such file; `spom train` writes it beside the model") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{beside}: no record of a run, or a damaged one ({error})") from None
    if newer:
        raise ModelFileError(f"{beside}: written by spom {record.get('spom', '?')} in a newer form ({version})")
    return record


def plain(value: Any) -> Any:
    """Convert `value` to plain values for JSON.

    >>> plain({"a": np.float64("nan"), "b": np.arange(2)})
    {'a': None, 'b': [0, 1]}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return repr(value)
