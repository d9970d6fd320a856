"""Contents of a page from the record of a run, `M.run.json`, and the model beside it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spom.errors import ModelFileError
from spom.models.loading import load_model
from spom.models.run import read_run, run_path
from spom.report.contents import Block, Contents, Matrix, Sentence
from spom.report.fitted import contents_of
from spom.report.history import epochs_of, paths_of
from spom.report.models import described
from spom.report.tables import FRACTIONS

# The dev scores that a run is selected by, per task, the best known first.
_DEV = {"tagger": ("f1", "accuracy"), "parser": ("uas",), "classifier": ("accuracy",), "regressor": ("r2",)}


def contents_from_run(path: str | Path, top: int = 12) -> Contents:
    """Return the contents of the run whose record or model is at `path`.

    The blocks, features and transitions are those of the model; if it is missing or cannot be read, a note says so, and
    the page shows the record alone. A model without a record, such as `estimator.save` writes, is shown alone.
    """
    given = Path(path)
    if given.suffix != ".json" and given.is_file() and not run_path(given).exists():
        alone = contents_of(load_model(given), title=given.name, top=top)
        return replace(alone, epochs=(), paths=None, notes=["There is no record of the run: this is the model alone."])
    record = read_run(path)
    folder = Path(path).parent if Path(path).suffix == ".json" else run_path(path).parent
    found, notes = _model(folder, record, top)
    try:
        return _contents(record, found, notes)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: the record of the run is damaged ({type(error).__name__}: {error})") from None


def _model(folder: Path, record: dict[str, Any], top: int) -> tuple[Contents, list[str]]:
    name = os.path.basename(str(record.get("model") or ""))
    if not name or not (folder / name).is_file():
        return Contents(""), [f"The model {name or 'of this run'} is missing: its features are not shown."]
    try:
        # An svmlight file numbers its features from one, and so does the command.
        return described(load_model(folder / name), top, lambda i: str(i + 1)), []
    except (ModelFileError, OSError) as error:
        return Contents(""), [f"The model could not be read, and its features are not shown: {error}"]


def _contents(record: dict[str, Any], found: Contents, notes: list[str]) -> Contents:
    history = [entry for entry in record.get("history") or [] if isinstance(entry, dict)]
    names = [str(name) for name in record.get("blocks") or []]
    result = {k: float(v) for k, v in (record.get("result") or {}).items() if isinstance(v, (int, float))}
    task = str(record.get("task") or "")
    last: Sequence[Any] = next((e["block_weights"] for e in reversed(history) if e.get("block_weights")), [])
    weights = record.get("block_weights") or last
    told = zip(names, weights, strict=True) if len(names) == len(weights) else ()
    blocks = found.blocks or [Block(name, float(weight or 0.0)) for name, weight in told]
    steered = next((key for key in _DEV.get(task, ()) if key in result), "")
    return replace(
        found,
        title=str(record.get("model") or "run"),
        estimator=str(record.get("estimator") or ""),
        task=task,
        block="template" if found.block == "block" and task in ("tagger", "parser") else found.block,
        score={**FRACTIONS, "r2": "R²"}.get(steered, "Score"),
        scores=_scores(result, found, history),
        facts=_facts(record),
        epochs=epochs_of(history),
        paths=paths_of(history, names or [b.name for b in blocks]),
        blocks=blocks,
        pruning=str(record.get("pruning") or found.pruning),
        confusion=_confusion(record.get("confusion")),
        sentences=[_sentence(one) for one in record.get("examples") or []],
        notes=notes,
    )


def _scores(result: dict[str, float], found: Contents, history: list[dict[str, Any]]) -> dict[str, float]:
    """Return the numbers of the record, and those of the model that the record lacks."""
    ours: dict[str, float | None] = dict(found.scores)
    speeds = sorted(float(e["per_second"]) for e in history if e.get("per_second"))
    ours["per_second"] = round(speeds[len(speeds) // 2]) if speeds else None
    hidden = ("weights", "classes")
    kept = {k: v for k, v in result.items() if k not in hidden}
    return {**{k: float(v) for k, v in ours.items() if v is not None and k not in kept}, **kept}


def _confusion(found: Any) -> Matrix | None:
    if not found:
        return None
    labels = [str(label) for label in found["labels"]]
    counts = [[int(value) for value in row] for row in found["counts"]]
    if len(counts) != len(labels) or any(len(row) != len(labels) for row in counts):
        raise ValueError("the confusion matrix does not fit its labels")
    return Matrix(labels, labels, counts)


def _sentence(one: dict[str, Any]) -> Sentence:
    found = Sentence(
        words=_texts(one, "words"),
        predicted_heads=_heads(one, "predicted_heads"),
        predicted_relations=_texts(one, "predicted_relations"),
        heads=_heads(one, "heads"),
        relations=_texts(one, "relations"),
        tags=_texts(one, "tags"),
    )
    for name, values in vars(found).items():
        if len(values) != len(found.words) and (values or name == "predicted_heads"):
            raise ValueError(f"a sentence of {len(found.words)} words has {len(values)} {name}")
    return found


def _texts(one: dict[str, Any], key: str) -> list[str]:
    return [str(value) for value in one.get(key) or []]


def _heads(one: dict[str, Any], key: str) -> list[int]:
    heads = [int(value) for value in one.get(key) or []]
    if any(not 0 <= head <= len(one["words"]) for head in heads):
        raise ValueError("a head is not a word of its sentence")
    return heads


# --- settings and data ----------------------------------------------------------------------------------


def _facts(record: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    options = dict(record.get("options") or {})
    parameters = options.pop("parameters", None) or {}
    words = [str(word) for word in record.get("command") or []]
    run = [
        # The name of the program without its folder.
        ("command", shlex.join([os.path.basename(words[0]), *words[1:]]) if words else ""),
        ("started", str(record.get("started") or "")),
        ("ended", {"end": "all epochs were made"}.get(str(record.get("stopped")), str(record.get("stopped") or ""))),
        ("spom", str(record.get("spom") or "")),
    ]
    return {
        "Run": [(name, value) for name, value in run if value],
        "Data": [(part, _file(about)) for part, about in (record.get("data") or {}).items()],
        "Options": [(str(k), _text(v)) for k, v in options.items()],
        "Parameters": [(str(k), _text(v)) for k, v in parameters.items()],
    }


def _file(about: dict[str, Any]) -> str:
    counts = [f"{v:,} {k}" for k, v in about.items() if isinstance(v, int)]
    return ", ".join([str(about.get("path", "")), str(about.get("format", "")), *counts])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "–" if value is None else repr(value)
