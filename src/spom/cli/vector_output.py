"""Blocks of vectors written back with their predictions: svmlight lines, CSV text, Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.cli.predict import writing
from spom.cli.vectors import Lines, as_text
from spom.core.arrays import Floats
from spom.data.tables import Table
from spom.errors import Unsupported


@dataclass(frozen=True)
class Predicted:
    """The predictions of a model for a block, as text, and if requested a probability per class."""

    block: Table | Lines
    values: list[str]
    classes: tuple[str, ...] = ()
    probabilities: Floats | None = None

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The new columns by name, in order."""
        found: dict[str, list[Any]] = {"predicted": self.values}
        if self.probabilities is not None:
            found.update({f"p({c})": self.probabilities[:, k].tolist() for k, c in enumerate(self.classes)})
        return found


def predicted_by(estimator: Any, X: Any, block: Table | Lines, probabilities: bool) -> Predicted:
    """Predict one block."""
    if X.shape[0] == 0:
        return Predicted(block, [])
    if not probabilities:
        return Predicted(block, as_text(estimator.predict(X)))
    if not hasattr(estimator, "predict_proba"):
        what = "--probabilities needs a classifier with loss='logistic'" if hasattr(estimator, "classes_") else ""
        raise Unsupported(what or "--probabilities is for classifiers; this model is a regressor")
    found = np.asarray(estimator.predict_proba(X))
    best = estimator.classes_[found.argmax(axis=1)]
    return Predicted(block, as_text(best), tuple(as_text(estimator.classes_)), found)


def write_predicted(parts: Iterator[Predicted], output: str, only: bool, header: bool = True) -> None:
    """Write the input with its predictions, or the predictions alone; a file that ends in .parquet is Parquet.

    Without `header` the names of the columns are omitted, as in the input file.
    """
    if output.lower().endswith((".parquet", ".pq")):
        _write_parquet(parts, output, only)
        return
    with writing(output) as out:
        for i, part in enumerate(parts):
            out.write(_text(part, only, first=header and i == 0))


def _text(part: Predicted, only: bool, first: bool) -> bytes:
    if isinstance(part.block, Lines) and not only:
        return _svmlight(part, part.block)
    new = part.columns
    old = {} if only or isinstance(part.block, Lines) else _cells(part.block)
    if only and part.probabilities is None:
        return "".join(f"{value}\n" for value in part.values).encode()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    if first:
        writer.writerow([*old, *new])
    writer.writerows(zip(*old.values(), *new.values(), strict=True))
    return text.getvalue().encode()


def _cells(table: Table) -> dict[str, list[Any]]:
    return {name: table.column(name) for name in table.names}


def _svmlight(part: Predicted, block: Lines) -> bytes:
    """Replace labels by predictions, with probabilities in a comment; comments and blank lines are kept."""
    lines = list(block.lines)
    for k, (i, label) in enumerate(zip(block.rows, part.values, strict=True)):
        words = lines[i].split(None, 1)
        line = label.encode() + (b" " + words[1] if len(words) > 1 else b"")
        if part.probabilities is not None:
            shown = " ".join(f"{c}:{p:.6g}" for c, p in zip(part.classes, part.probabilities[k].tolist(), strict=True))
            line += f" # {shown}".encode()
        lines[i] = line
    return b"\n".join(lines) + b"\n"


def _write_parquet(parts: Iterator[Predicted], output: str, only: bool) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unsupported(
            "writing Parquet needs the package pyarrow; an output that ends in .csv needs nothing"
        ) from None
    with writing(output) as out:
        writer = None
        for part in parts:
            if isinstance(part.block, Lines):
                raise Unsupported("svmlight lines are written as svmlight, or with --only as text; not as Parquet")
            table = pyarrow.table({**({} if only else _cells(part.block)), **part.columns})
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(out, table.schema)
            writer.write_table(table.cast(writer.schema))
        if writer is not None:
            writer.close()
