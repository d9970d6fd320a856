"""Vectors for the command: svmlight, CSV and Parquet, for learning (all at once) and for predicting (in blocks)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spom.data.opening import opened, read_all
from spom.data.svmlight import read_svmlight
from spom.data.tables import Table, labels, read_table, read_table_fast
from spom.errors import DataError, Unsupported

FORMATS = ("svmlight", "csv", "parquet")
_ROWS = 16384
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Vectors:
    """Rows X with targets y (None where the file has none), the names of the columns, and which was the target."""

    X: Any
    y: Any
    names: tuple[str, ...] | None
    target: str | None
    format: str
    path: str


def format_of(path: str, given: str | None) -> str:
    """The format that was asked for, or the one that the file's name says: .csv, .tsv, .parquet, else svmlight."""
    if given is not None:
        if given not in FORMATS:
            raise Unsupported(f"there is no format {given!r} of vectors; the formats are: {', '.join(FORMATS)}")
        return given
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    if name.endswith((".csv", ".tsv")):
        return "csv"
    return "parquet" if name.endswith((".parquet", ".pq")) else "svmlight"


# --- all at once ------------------------------------------------------------------------------------


def read_vectors(
    path: str,
    given: str | None,
    real: bool,
    target: str | None = None,
    names: Sequence[str] | None = None,
    width: int | None = None,
) -> Vectors:
    """A file to learn from, or to be scored on.

    `target` is the column of a table that is to be predicted, the last one where it is left out; `names` are the
    columns that a model wants, `width` the number of features that it knows. `real` targets are numbers, others labels.
    """
    found = format_of(path, given)
    if found == "svmlight":
        return Vectors(*_read_svmlight(path, width), None, None, found, path)
    source: Any = path
    if found == "csv" and names is None:
        source = io.BytesIO(read_all(path)[1])
        quick = read_table_fast(source.getvalue(), target)
        if quick is not None:
            y = _numbers(quick[2]) if real else labels(quick[2], path, range(2, len(quick[2]) + 2))
            if y is not None:
                return Vectors(quick[1], y, quick[0], quick[3], found, path)
        source.name = path
    tables = list(read_table(source, found))
    target = tables[0].names[-1] if target is None else target
    tables[0].has(target)
    chosen = tuple(n for n in tables[0].names if n != target) if names is None else tuple(names)
    if not chosen:
        raise DataError(f"there is no column besides the target {target!r}", path)
    X = np.concatenate([table.numbers(chosen) for table in tables])
    if real:
        y = np.concatenate([table.numbers([target])[:, 0] for table in tables])
    else:
        values = [v for table in tables for v in table.column(target)]
        y = labels(values, tables[0].source, [line for table in tables for line in table.lines])
    return Vectors(X, y, chosen, target, found, path)


def _numbers(texts: list[str]) -> Any:
    """Finite numbers, or None where one is none: reading line by line will say where."""
    try:
        found = np.array([float(text) for text in texts])
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _read_svmlight(path: str, width: int | None) -> tuple[Any, Any]:
    with opened(path) as (name, file):
        blocks = list(read_svmlight(_Named(file, name)))
    if not blocks:
        raise DataError("expected lines of label index:value ..., found none", name)
    n = max(X.shape[1] for X, _ in blocks) if width is None else width
    X = sparse.vstack([fitted(X, n) for X, _ in blocks], format="csr")
    return X, np.concatenate([y for _, y in blocks])


def fitted(X: Any, width: int) -> Any:
    """X with `width` columns: features that a model does not know have no weight, and are left out."""
    if X.shape[1] > width:
        return X[:, :width]
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) if X.shape[1] < width else X


class _Named:
    """A file under the name that errors should give."""

    def __init__(self, file: Any, name: str) -> None:
        self.read, self.name = file.read, name


# --- in blocks --------------------------------------------------------------------------------------


def predict_blocks(
    path: str, given: str | None, names: Sequence[str] | None, width: int
) -> Iterator[tuple[Any, _Writer]]:
    """(X, what writes the rows back with a prediction each) for each block of a file, in order."""
    found = format_of(path, given)
    if (names is None) != (found == "svmlight"):
        wants = "svmlight files, whose features have numbers" if names is None else f"the columns {', '.join(names)}"
        raise DataError(f"the model was learnt from {wants}; this is {found}", path)
    if found == "svmlight":
        yield from _svmlight_blocks(path, width)
        return
    for i, table in enumerate(read_table(path, found, _ROWS)):
        assert names is not None
        yield table.numbers(names), _TableWriter(table, i == 0)


class _Writer:
    """Gives one block of the input back with its predictions."""

    def text(self, predicted: list[str]) -> bytes:
        """The block with its predictions."""
        raise NotImplementedError  # each format has its own


class _LineWriter(_Writer):
    """svmlight: the prediction takes the place of the label; comments and blank lines stay."""

    def __init__(self, lines: list[bytes], rows: list[int]) -> None:
        self.lines, self.rows = lines, rows

    def text(self, predicted: list[str]) -> bytes:
        """The lines with the new labels."""
        lines = self.lines
        for i, label in zip(self.rows, predicted, strict=True):
            parts = lines[i].split(None, 1)
            lines[i] = label.encode() + (b" " + parts[1] if len(parts) > 1 else b"")
        return b"\n".join(lines) + b"\n"


class _TableWriter(_Writer):
    """A table: one more column, `predicted`; Parquet comes out as CSV."""

    def __init__(self, table: Table, first: bool) -> None:
        self.table, self.first = table, first

    def text(self, predicted: list[str]) -> bytes:
        """The rows, below the names of the columns where they are the first ones."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        if self.first:
            writer.writerow([*self.table.names, "predicted"])
        if isinstance(self.table.cells, dict):
            rows: Any = zip(*(self.table.cells[name] for name in self.table.names), strict=True)
        else:
            rows = self.table.cells
        writer.writerows([*row, value] for row, value in zip(rows, predicted, strict=True))
        return text.getvalue().encode()


def _svmlight_blocks(path: str, width: int) -> Iterator[tuple[Any, _Writer]]:
    rest, before, empty = b"", 0, True
    with opened(path) as (name, file):
        while True:
            more = file.read(_CHUNK)
            rest += more
            cut = rest.rfind(b"\n") + 1 if more else len(rest)
            piece, rest = rest[:cut], rest[cut:]
            if piece:
                lines = piece.removesuffix(b"\n").split(b"\n")
                rows = [i for i, line in enumerate(lines) if line.partition(b"#")[0].strip()]
                X = _parsed_lines(piece, name, before, width)
                empty = empty and not rows
                yield X, _LineWriter(lines, rows)
                before += len(lines)
            if not more:
                break
    if empty:
        raise DataError("expected lines of label index:value ..., found none", name)


def _parsed_lines(piece: bytes, name: str, before: int, width: int) -> Any:
    try:
        blocks = [fitted(X, width) for X, _ in read_svmlight(io.BytesIO(piece))]
    except DataError as error:
        raise DataError(error.what, name, None if error.line is None else error.line + before) from None
    if not blocks:
        return sparse.csr_matrix((0, width))
    return blocks[0] if len(blocks) == 1 else sparse.vstack(blocks, format="csr")


def as_text(values: NDArray[Any]) -> list[str]:
    """Predictions as they are written: labels that are whole numbers without a point, numbers with all their digits.

    >>> as_text(np.array([1.0, -1.0, 0.25])), as_text(np.array(["a"]))
    (['1', '-1', '0.25'], ['a'])
    """
    if values.dtype.kind == "f":
        return [str(int(v)) if v == int(v) and abs(v) < 2**53 else repr(v) for v in values.tolist()]
    return [str(v) for v in values.tolist()]
