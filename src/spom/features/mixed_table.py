"""Columns of a table as features: numbers, categories and texts, with missing values.

A number becomes (x - mean) / scale, and 0 if it is missing; a column with missing values gets an indicator. A
category becomes one feature per value or, hashed, one of a fixed number of features that its values share. A text
becomes one feature per word, weighted by its inverse document frequency, with each row scaled to norm one. Values and
words that were not seen in training have no feature, unless they are hashed. All that is learnt is plain data that a
model file can hold.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from spom.data.tables import Table
from spom.errors import DataError

KINDS = ("number", "category", "hashed", "text")
# Cells that mean "no value", in upper or lower case, as spreadsheets and statistics packages write them.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
# A column is a text if its values have at least this many words on average; names of places have one to three.
TEXT_WORDS = 4.0
# At most this many values of a category get a feature, most frequent first: identifiers would fill the memory.
MOST_VALUES = 10_000
# If at least this share of a column are numbers, but not all, the rest are typing errors: it is not a category.
MOSTLY_NUMBERS = 0.9
# The default number of features of a hashed category: ten thousand values fill nine tenths of them.
SLOTS, MOST_SLOTS = 1 << 12, 1 << 24
_WORD = re.compile(r"\w+(?:['’]\w+)?|[^\w\s]")


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes features; `values` are a category's values or a text's words."""

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    missing: bool = False
    values: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    slots: int = 0

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        if self.kind == "number":
            return [self.name, f"{self.name}=missing"] if self.missing else [self.name]
        if self.kind == "hashed":
            return [f"{self.name}#{slot}" for slot in range(self.slots)]
        between = "=" if self.kind == "category" else ":"
        return [f"{self.name}{between}{value}" for value in self.values]


class TableFeatures:
    """The columns of a table as one sparse matrix.

    >>> cells = {"age": ["31", "?", "35"], "job": ["clerk", "cook", "cook"]}
    >>> table = Table(("age", "job"), cells, range(2, 5), "people.csv")
    >>> found = TableFeatures.learnt([table], ("age", "job"))
    >>> found.names
    ['age', 'age=missing', 'job=cook', 'job=clerk']
    >>> found.matrix(table).toarray()
    array([[-1.,  0.,  0.,  1.],
           [ 0.,  1.,  1.,  0.],
           [ 1.,  0.,  1.,  0.]])
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.names = [name for column in self.columns for name in column.features]
        self._places = [{value: k for k, value in enumerate(column.values)} for column in self.columns]

    @classmethod
    def learnt(cls, tables: Sequence[Table], names: Sequence[str], kinds: dict[str, str] | None = None) -> Self:
        """Choose the kind of each column that `kinds` does not name, and learn its numbers, values or words."""
        asked = kinds or {}
        for name, given in asked.items():
            kind = given.partition(":")[0]
            if kind not in KINDS:
                raise DataError(f"column {name!r} cannot be a {kind!r}; the kinds are: {', '.join(KINDS)}", None)
            if name not in names:
                raise DataError(f"there is no column {name!r} to take as a {kind}; there are: {', '.join(names)}", None)
        learn = {"number": _number, "category": _category, "text": _text}
        asked = {name: kind for name, kind in asked.items() if not kind.startswith("hashed")}
        hashed = {name: _hashed(name, kind) for name, kind in (kinds or {}).items() if name not in asked}
        columns = []
        for name in names:
            if name in hashed:
                columns.append(hashed[name])
                continue
            values = [cell for table in tables for cell in _cells(table, name)]
            lines = [(table.source, line) for table in tables for line in table.lines]
            columns.append(learn[asked.get(name) or _kind(name, values, lines)](name, values, lines))
        return cls(columns)

    def matrix(self, table: Table) -> Any:
        """Return one CSR row per row of the table."""
        parts = []
        for column, places in zip(self.columns, self._places, strict=True):
            table.has(column.name)
            cells = _cells(table, column.name)
            if column.kind == "number":
                parts.append(_numbers(column, cells, table))
            else:
                parts.append(_bags(column, places, cells))
        return sparse.hstack(parts, format="csr") if parts else sparse.csr_matrix((len(table), 0))

    @property
    def plain(self) -> bool:
        """Whether all columns are numbers and none is ever missing, so that the table is a matrix already."""
        return all(column.kind == "number" and not column.missing for column in self.columns)

    def as_dict(self) -> dict[str, Any]:
        """Return the state that a model file holds."""
        return {"columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        """Read what `as_dict` returned; damaged data raises a `DataError`."""
        try:
            columns = [
                Column(
                    str(c["name"]),
                    str(c["kind"]),
                    float(c["mean"]),
                    float(c["scale"]),
                    bool(c["missing"]),
                    tuple(str(v) for v in c["values"]),
                    tuple(float(v) for v in c["weights"]),
                    int(c.get("slots", 0)),
                )
                for c in found["columns"]
            ]
        except (KeyError, TypeError, ValueError):
            raise DataError("the columns in the model file are damaged", None) from None
        for c in columns:
            fits = c.kind in KINDS and (c.kind != "text" or len(c.weights) == len(c.values))
            fits = fits and (c.kind != "hashed" or 0 < c.slots <= MOST_SLOTS)
            if not fits or not (math.isfinite(c.mean) and 0 < c.scale < math.inf):
                raise DataError(f"column {c.name!r} in the model file is damaged", None)
        return cls(columns)


def _cells(table: Table, name: str) -> list[str | None]:
    """Return the cells of one column as text, None where a value is missing."""
    texts = ["" if cell is None else str(cell).strip() for cell in table.column(name)]
    return [None if text.lower() in MISSING else text for text in texts]


def _kind(name: str, values: list[str | None], lines: list[tuple[str, int]]) -> str:
    present = [value for value in values if value is not None]
    numbers = sum(_is_number(value) for value in present)
    if numbers == len(present):
        return "number"
    if numbers >= MOSTLY_NUMBERS * len(present):
        at = next(i for i, value in enumerate(values) if value is not None and not _is_number(value))
        what = f"expected a number in column {name!r} as in most rows, found {values[at]!r}"
        raise DataError(f"{what}; correct it, or say that it is no number: --kind {name}=category", *lines[at])
    words = sum(len(value.split()) for value in present)
    return "text" if words >= TEXT_WORDS * len(present) else "category"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _number(name: str, values: list[str | None], lines: list[tuple[str, int]]) -> Column:
    present = []
    for value, (source, line) in zip(values, lines, strict=True):
        if value is not None:
            present.append(_as_number(name, value, source, line))
    a = np.array(present) if present else np.zeros(1)
    scale = float(a.std())
    return Column(name, "number", float(a.mean()), scale if scale > 0 else 1.0, len(present) < len(values))


def _category(name: str, values: list[str | None], lines: list[tuple[str, int]]) -> Column:
    counts = Counter("missing" if value is None else value for value in values)
    return Column(name, "category", values=tuple(value for value, _ in counts.most_common(MOST_VALUES)))


def _text(name: str, values: list[str | None], lines: list[tuple[str, int]]) -> Column:
    counts = Counter(word for value in values for word in set(words_of(value)))
    kept = [(word, n) for word, n in counts.most_common() if n > 1 or len(counts) <= MOST_VALUES]
    rows = 1.0 + len(values)
    weights = tuple(math.log(rows / (1.0 + n)) + 1.0 for _, n in kept)
    return Column(name, "text", values=tuple(word for word, _ in kept), weights=weights)


def _hashed(name: str, kind: str) -> Column:
    """Return the column of the kind `hashed` or `hashed:SLOTS`, of which nothing is learnt."""
    number = kind.partition(":")[2] or str(SLOTS)
    if not number.isdigit() or not 0 < int(number) <= MOST_SLOTS:
        raise DataError(f"column {name!r}: hashed:N takes a number of features from 1 to {MOST_SLOTS}; not {kind!r}")
    return Column(name, "hashed", slots=int(number))


def slot_of(value: str, slots: int) -> int:
    """Return the feature of a value of a hashed category, the same on every machine.

    >>> slot_of("Lisbon", 16) == slot_of("Lisbon", 16) < 16
    True
    """
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little") % slots


def words_of(text: str | None) -> list[str]:
    """Return the words and punctuation marks of a text, in lower case.

    >>> words_of("It's late, go!")
    ["it's", 'late', ',', 'go', '!']
    """
    return [] if text is None else _WORD.findall(text.lower())


def _as_number(name: str, value: str, source: str, line: int) -> float:
    if not _is_number(value):
        raise DataError(f"expected a number in column {name!r}, found {value!r}", source, line)
    return float(value)


def _numbers(column: Column, cells: list[str | None], table: Table) -> Any:
    there = np.array([cell is not None for cell in cells], dtype=bool)
    x = np.zeros(len(cells))
    for i in np.flatnonzero(there).tolist():
        x[i] = (_as_number(column.name, str(cells[i]), table.source, table.lines[i]) - column.mean) / column.scale
    rows = [x, (~there).astype(float)] if column.missing else [x]
    return sparse.csr_matrix(np.column_stack(rows))


def _bags(column: Column, places: dict[str, int], cells: list[str | None]) -> Any:
    data: list[float] = []
    indices: list[int] = []
    indptr = [0]
    for cell in cells:
        if column.kind == "hashed":
            found = Counter([slot_of("missing" if cell is None else cell, column.slots)])
        elif column.kind == "category":
            found = Counter([places[v] for v in ["missing" if cell is None else cell] if v in places])
        else:
            found = Counter(places[word] for word in words_of(cell) if word in places)
        row = {k: n * (column.weights[k] if column.weights else 1.0) for k, n in sorted(found.items())}
        norm = math.sqrt(sum(v * v for v in row.values())) or 1.0
        indices += row
        data += [v / norm for v in row.values()]
        indptr.append(len(indices))
    return sparse.csr_matrix((data, indices, indptr), shape=(len(cells), len(column.features)))
