"""Vectors for the command: svmlight, CSV and Parquet, for learning (all at once) and for predicting (in blocks)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spom.cli.options import VECTORS, format_of
from spom.data.opening import last_line, not_empty, opened, pieces, read_all
from spom.data.svmlight import STARTS_AT_ZERO, read_svmlight
from spom.data.tables import PLAIN_CSV, CsvForm, Table, labels, read_table, read_table_fast
from spom.errors import DataError
from spom.features.mixed_table import TableFeatures

BLOCK_ROWS = 16384
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Layout:
    """The layout of a file of vectors: how it is read, or what a model that was learnt from such files expects.

    `target` is the column of a table to predict (default: the last one), `ignore` and `features` are the columns to
    leave out or to use, and `kinds` tells which are numbers, categories or texts. `zero_based` is whether svmlight
    indices start at 0; None detects it. A fitted model knows `columns` (or plain `names`) and `width`.
    """

    format: str | None = None
    target: str | None = None
    ignore: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    form: CsvForm = PLAIN_CSV
    zero_based: bool | None = None
    columns: TableFeatures | None = None
    names: tuple[str, ...] | None = None
    width: int | None = None

    @property
    def automatic(self) -> bool:
        """Whether no option besides the target was given."""
        return not (self.ignore or self.features or self.kinds) and self.form in (PLAIN_CSV, CsvForm(None))

    def remembered(self) -> dict[str, Any]:
        """Return the part that a model file stores, so that later files are read as the training file was."""
        found: dict[str, Any] = {"target": self.target}
        if self.columns is not None:
            found["table"] = self.columns.as_dict()
        if self.form.header is not None and self.form != PLAIN_CSV:
            found["csv"] = {"header": self.form.header, "encoding": self.form.encoding}
        if self.zero_based:
            found["zero_based"] = True
        return found

    @classmethod
    def of_model(
        cls, estimator: Any, training: Mapping[str, Any], format: str | None = None, encoding: str = "utf-8"
    ) -> Self:
        """Return the layout that a fitted model expects; `training` is the training summary in its file.

        An `encoding` other than utf-8 overrides that of the training files.
        """
        columns = None if "table" not in training else TableFeatures.from_dict(training["table"])
        names = getattr(estimator, "feature_names_in_", None)
        csv = training.get("csv") or {}
        if encoding == "utf-8":
            encoding = str(csv.get("encoding", "utf-8"))
        return cls(
            format=format,
            target=training.get("target"),
            form=CsvForm(bool(csv.get("header", True)), encoding),
            zero_based=bool(training.get("zero_based")) if names is None else None,
            columns=columns,
            names=None if names is None or columns is not None else tuple(str(name) for name in names),
            width=int(estimator.n_features_in_),
        )

    @property
    def wants_table(self) -> bool:
        """Whether a model was learnt from a table, and not from svmlight lines."""
        return self.columns is not None or self.names is not None

    def check_format(self, path: str) -> str:
        """Return the format of a file for a fitted model; raise an error if it was learnt from another kind of file."""
        found = format_of(path, self.format, VECTORS)
        if self.wants_table != (found == "svmlight"):
            return found
        known = self.names or tuple(c.name for c in (self.columns.columns if self.columns else ()))
        shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        wanted = f"tables with the columns {shown}" if known else "svmlight files, whose features have numbers"
        raise DataError(f"the model was learnt from {wanted}; this is {found} (see --format)", path)


@dataclass(frozen=True)
class Vectors:
    """Rows X with targets y, the names of the features (None for svmlight), and the layout detected in the file."""

    X: Any
    y: Any
    names: tuple[str, ...] | None
    layout: Layout
    format: str
    path: str


# --- all at once ------------------------------------------------------------------------------------


def read_vectors(path: str, layout: Layout, real: bool) -> Vectors:
    """Read a file to learn from or to be scored on; targets are numbers if `real`, else labels."""
    found = format_of(path, layout.format, VECTORS)
    if found == "svmlight":
        X, y, zero = _read_svmlight(path, layout)
        return Vectors(X, y, None, replace(layout, zero_based=zero), found, path)
    source: Any = path
    if found == "csv" and not layout.wants_table and layout.automatic:
        source = io.BytesIO(read_all(path)[1])
        quick = read_table_fast(source.getvalue(), layout.target, layout.form.header)
        if quick is not None:
            y = _numbers(quick[2]) if real else labels(quick[2], path, range(2, len(quick[2]) + 2))
            if y is not None:
                layout = replace(layout, target=quick[3], form=PLAIN_CSV)
                return Vectors(quick[1], y, quick[0], layout, found, path)
        source.name = path
    tables = list(read_table(source, found, form=layout.form))
    target = tables[0].names[-1] if layout.target is None else layout.target
    tables[0].has(target)
    layout = replace(layout, target=target, form=replace(layout.form, header=tables[0].header))
    X, names, layout = _features(tables, layout)
    return Vectors(X, _targets(tables, target, real), names, layout, found, path)


def _features(tables: list[Table], layout: Layout) -> tuple[Any, tuple[str, ...], Layout]:
    """Return the matrix, the names of its columns, and the layout with the columns learnt from the table."""
    if layout.names is not None:
        return np.concatenate([table.numbers(layout.names) for table in tables]), layout.names, layout
    columns = layout.columns
    if columns is None:
        columns = TableFeatures.learnt(tables, _chosen(tables[0], layout), dict(layout.kinds))
        if columns.plain:
            names = tuple(columns.names)
            return np.concatenate([table.numbers(names) for table in tables]), names, layout
    X = sparse.vstack([columns.matrix(table) for table in tables], format="csr")
    return X, tuple(columns.names), replace(layout, columns=columns)


def _chosen(table: Table, layout: Layout) -> tuple[str, ...]:
    """Return the columns to use as features."""
    for name in (*layout.ignore, *layout.features, *layout.kinds):
        table.has(name)
    offered = layout.features or table.names
    chosen = tuple(n for n in offered if n != layout.target and n not in layout.ignore)
    if not chosen:
        raise DataError(f"there is no column left besides the target {layout.target!r}", table.source)
    return chosen


def _targets(tables: list[Table], target: str, real: bool) -> Any:
    if real:
        return np.concatenate([table.numbers([target])[:, 0] for table in tables])
    values = [v for table in tables for v in table.column(target)]
    return labels(values, tables[0].source, [line for table in tables for line in table.lines])


def _numbers(texts: list[str]) -> Any:
    """Return finite numbers, or None if one is not a finite number: reading line by line then reports where."""
    try:
        found = np.array([float(text) for text in texts])
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _read_svmlight(path: str, layout: Layout) -> tuple[Any, Any, bool]:
    """Return (X, y, whether indices start at 0); with `zero_based=None` an index 0 in the file decides."""
    if layout.zero_based is None and path != "-":
        try:
            return _read_svmlight(path, replace(layout, zero_based=False))
        except DataError as error:
            if not error.what.startswith(STARTS_AT_ZERO):
                raise
            return _read_svmlight(path, replace(layout, zero_based=True))
    zero = bool(layout.zero_based)
    blocks = list(not_empty(read_svmlight(path, zero_based=zero), "lines of label index:value ...", path))
    n = max(X.shape[1] for X, _ in blocks) if layout.width is None else layout.width
    X = sparse.vstack([fitted(X, n) for X, _ in blocks], format="csr")
    return X, np.concatenate([y for _, y in blocks]), zero


def fitted(X: Any, width: int) -> Any:
    """Return X with `width` columns: features unknown to the model have no weight, and are dropped."""
    if X.shape[1] > width:
        return X[:, :width]
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) if X.shape[1] < width else X


# --- in blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """A block of svmlight lines, and which of them hold an example."""

    lines: list[bytes]
    rows: list[int]


def blocks_to_predict(path: str, layout: Layout) -> Iterator[tuple[Any, Table | Lines]]:
    """Yield (X, the block as it is in the file) for each block of a file, in order."""
    found = layout.check_format(path)
    if found == "svmlight":
        yield from _svmlight_blocks(path, layout)
        return
    for table in read_table(path, found, BLOCK_ROWS, layout.form):
        yield _features([table], layout)[0], table


def _svmlight_blocks(path: str, layout: Layout) -> Iterator[tuple[Any, Lines]]:
    before, empty = 0, True
    with opened(path) as (name, file):
        for piece in pieces(file.read, _CHUNK, last_line):
            lines = piece.removesuffix(b"\n").split(b"\n")
            rows = [i for i, line in enumerate(lines) if line.partition(b"#")[0].strip()]
            empty = empty and not rows
            yield _parsed_lines(piece, name, before, layout), Lines(lines, rows)
            before += len(lines)
    if empty:
        raise DataError("expected lines of label index:value ..., found none", name)


def _parsed_lines(piece: bytes, name: str, before: int, layout: Layout) -> Any:
    width = layout.width or 0
    try:
        found = read_svmlight(io.BytesIO(piece), zero_based=bool(layout.zero_based))
        blocks = [fitted(X, width) for X, _ in found]
    except DataError as error:
        raise DataError(error.what, name, None if error.line is None else error.line + before) from None
    if not blocks:
        return sparse.csr_matrix((0, width))
    return blocks[0] if len(blocks) == 1 else sparse.vstack(blocks, format="csr")


def as_text(values: NDArray[Any]) -> list[str]:
    """Return predictions as text: whole numbers without a decimal point, other numbers with all their digits.

    >>> as_text(np.array([1.0, -1.0, 0.25])), as_text(np.array(["a"]))
    (['1', '-1', '0.25'], ['a'])
    """
    if values.dtype.kind == "f":
        return [str(int(v)) if v == int(v) and abs(v) < 2**53 else repr(v) for v in values.tolist()]
    return [str(v) for v in values.tolist()]
