"""Tables from CSV and Parquet files, with numbers as features and one column as the target."""

from __future__ import annotations

import csv
import io
import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats
from spom.data.opening import opened, text_lines
from spom.errors import DataError, Unsupported


@dataclass(frozen=True)
class Table:
    """Rows of a table: `cells` are lists of text for CSV, or the columns of a Parquet file; `lines` count from 1."""

    names: tuple[str, ...]
    cells: Any
    lines: range | list[int]
    source: str
    header: bool = True

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[Any]:
        """Return one column, as it is in the file."""
        if isinstance(self.cells, dict):
            return list(self.cells[name])
        k = self.names.index(name)
        return [row[k] for row in self.cells]

    def has(self, name: str) -> None:
        """Raise an error if there is no such column."""
        if name not in self.names:
            hint = "; if line 1 has no names, use --no-header" if self.header and name.isdecimal() else ""
            raise DataError(f"unknown column {name!r}; available: {', '.join(self.names)}{hint}", self.source)

    def numbers(self, names: Sequence[str]) -> Floats:
        """Return the columns as a matrix; a value that is no finite number raises a `DataError` that locates it."""
        for name in names:
            self.has(name)
        found = np.empty((len(self), len(names)))
        for k, name in enumerate(names):
            found[:, k] = self._floats(name)
        bad = np.argwhere(~np.isfinite(found))
        if bad.size:
            i, k = bad[0]
            raise DataError(
                f"column {names[k]!r} is {found[i, k]}; fill in or drop missing values", self.source, self.lines[i]
            )
        return found

    def _floats(self, name: str) -> Any:
        values = self.column(name)
        try:
            return np.array(values, dtype=np.float64) if len(values) else np.zeros(0)
        except (TypeError, ValueError):
            at = next(i for i, v in enumerate(values) if not _is_number(v))
            what = f"expected a number in column {name!r}, found {values[at]!r}"
            hint = "leave such rows or the column out, or convert it to numbers"
            raise DataError(f"{what}; {hint}", self.source, self.lines[at]) from None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class CsvForm:
    """The form of a CSV file: whether line 1 has the names of the columns (None: see `is_header`), and the encoding."""

    header: bool | None = True
    encoding: str = "utf-8"


PLAIN_CSV = CsvForm()


def read_table(
    source: Any, kind: str = "csv", block_rows: int | None = None, form: CsvForm = PLAIN_CSV
) -> Iterator[Table]:
    """Read the table in blocks of `block_rows` rows; by default a CSV file at once, Parquet in blocks of 65,536.

    The columns of a CSV file are separated by commas, tabs or semicolons, whichever is most frequent in the first line.
    Without a header they are named 1, 2, ...

    >>> import io
    >>> (table,) = read_table(io.BytesIO(b"width,kind" + bytes([10]) + b"1.5,a" + bytes([10]) + b"2,b"))
    >>> table.numbers(["width"])[:, 0], table.column("kind")
    (array([1.5, 2. ]), ['a', 'b'])
    """
    return _parquet(source, block_rows) if kind == "parquet" else _csv(source, block_rows, form)


def read_table_fast(
    content: bytes, target: str | None, header: bool | None = True
) -> tuple[tuple[str, ...], Floats, list[str], str] | None:
    """Read a whole CSV file with pandas: return (names of the features, their numbers, the target as text, its name).

    Return None if pandas is missing, line 1 has no names, or there is a fault: `read_table` reports it with its line.
    """
    try:
        import pandas
    except ImportError:
        return None
    first, second = (*(line.decode("utf-8", "replace") for line in islice(io.BytesIO(content), 2)), "", "")[:2]
    if not first.strip():
        return None
    delimiter = max(",\t;", key=first.count)
    names = _cells(first, delimiter, "the table")
    if header is None and not is_header(names, _cells(second, delimiter, "the table")):
        return None
    wanted = names[-1] if target is None else target
    if wanted not in names or len(set(names)) != len(names) or len(names) < 2:
        return None
    chosen = [name for name in names if name != wanted]
    kinds = {**dict.fromkeys(chosen, np.float64), wanted: str}
    options: dict[str, Any] = {"sep": delimiter, "dtype": kinds, "float_precision": "round_trip", "na_filter": False}
    try:
        with warnings.catch_warnings():
            # Newer versions warn about float_precision, but still need it for numbers that are right to the last bit.
            warnings.simplefilter("ignore")
            frame = pandas.read_csv(io.BytesIO(content), encoding="utf-8", index_col=False, **options)
    except (ValueError, TypeError):
        return None
    if list(frame.columns) != names or not len(frame):
        return None
    numbers, labels = np.ascontiguousarray(frame[chosen].to_numpy()), frame[wanted].tolist()
    whole = bool(np.isfinite(numbers).all()) and all(isinstance(label, str) and label.strip() for label in labels)
    # pandas silently fills a row that ends early: such a file has fewer separators than it should.
    if not whole or (b'"' not in content and content.count(delimiter.encode()) != (len(names) - 1) * (len(frame) + 1)):
        return None
    return tuple(chosen), numbers, labels, wanted


def _csv(source: Any, block_rows: int | None, form: CsvForm) -> Iterator[Table]:
    with opened(source) as (name, file):
        text = text_lines(file, name, form.encoding, "; give the encoding of the file with --encoding")
        first = next(text, None)
        if first is None or not first.strip():
            raise DataError("expected a line of column names, found none", name)
        delimiter = max(",\t;", key=first.count)
        names, header = tuple(_cells(first, delimiter, name)), form.header
        if header is None:
            second = next(text, "")
            header, text = is_header(names, _cells(second, delimiter, name)), itertools.chain([second], text)
        if not header:
            names, text = tuple(str(k + 1) for k in range(len(names))), itertools.chain([first], text)
        elif len(set(names)) != len(names):
            what = f"the column names are not distinct: {', '.join(names)}"
            raise DataError(f"{what}; if line 1 has no names, use --no-header", name, 1)
        reader = csv.reader(text, delimiter=delimiter)
        before = int(header)
        empty = True
        while True:
            rows, lines = [], []
            for row in islice(_rows(reader, name, before), block_rows):
                if not row:
                    continue
                if len(row) != len(names):
                    raise DataError(f"expected {len(names)} columns, found {len(row)}", name, reader.line_num + before)
                rows.append(row)
                lines.append(reader.line_num + before)
            if rows:
                empty = False
                yield Table(names, rows, lines, name, header)
            if block_rows is None or not rows:
                break
        if empty:
            raise DataError("expected rows below the column names, found none", name)


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether line 1 of a table has the names of its columns, from the cells of its first two lines.

    It has, unless each column with a number in line 2 has one in line 1 too. Consecutive numbers in line 1 are names.

    >>> is_header(["age", "city"], ["39", "Rome"]), is_header(["25", "Oslo"], ["39", "Rome"])
    (True, False)
    >>> is_header(["1", "2", "3"], ["0.5", "7", "1"])
    True
    """
    pairs = list(zip(first, second, strict=False))
    numeric = [a for a, b in pairs if _is_number(b)]
    if not numeric or not all(_is_number(a) for a in numeric):
        return True
    counted = [float(a) for a in first if _is_number(a)]
    return len(counted) > 1 and all(b - a == 1.0 for a, b in itertools.pairwise(counted))


def _cells(line: str, delimiter: str, name: str) -> list[str]:
    return next(_rows(csv.reader([line], delimiter=delimiter), name, 0), [])


def _rows(reader: Any, name: str, before: int) -> Iterator[list[str]]:
    """Yield the rows of a CSV reader; a row that it cannot read raises a `DataError` that says where."""
    try:
        yield from reader
    except csv.Error as error:
        raise DataError(f"expected a row of CSV, found none ({error})", name, reader.line_num + before) from None


def _parquet(source: Any, block_rows: int | None) -> Iterator[Table]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unsupported("reading Parquet needs the package pyarrow; CSV does not") from None
    with opened(source) as (name, file):
        content = pyarrow.BufferReader(file.read(-1))
    try:
        found = pyarrow.parquet.ParquetFile(content)
        names, before = tuple(found.schema_arrow.names), 1
        for batch in found.iter_batches(batch_size=block_rows or 1 << 16):
            cells = {column: batch.column(k).to_pylist() for k, column in enumerate(names)}
            yield Table(names, cells, range(before, before + batch.num_rows), name)
            before += batch.num_rows
    except (pyarrow.ArrowException, OSError, ValueError, ArithmeticError, MemoryError) as error:
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"expected a complete Parquet file ({told})", name) from None
    if before == 1:
        raise DataError("expected rows, found none", name)


def labels(values: Sequence[Any], source: str, lines: Sequence[int]) -> NDArray[Any]:
    """Return class labels as whole numbers if all are, else as text; a missing one is an error with its line.

    >>> labels(["1", "2"], "x", [1, 2]), labels(["1", "b"], "x", [1, 2])
    (array([1, 2]), array(['1', 'b'], dtype='<U1'))
    """
    for value, line in zip(values, lines, strict=True):
        if value is None or (isinstance(value, str) and not value.strip()):
            raise DataError("the label is missing", source, line)
    try:
        if all(isinstance(v, (str, int)) for v in values):
            return np.array([int(v) for v in values], dtype=np.int64)
    except (ValueError, OverflowError):
        # Text, or more digits than 64 bits hold.
        pass
    return np.array([str(v) for v in values])
