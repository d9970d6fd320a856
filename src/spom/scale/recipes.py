"""The kinds of shards: each knows where its part of the data is, and how to load it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from spom.data.columns import Columns
from spom.data.conllu import conllu_text
from spom.data.treebank import Treebank
from spom.errors import DataError
from spom.estimators.training import digest
from spom.scale.cutting import Piece, open_file

# The examples of a shard: (X, y, sample_weight).
Loaded = tuple[Any, Any, Any]


class Shard(Protocol):
    """A recipe: `load` returns (X, y, sample_weight), `stamp` a short hash of the contents.

    `outside` says whether the data are outside of the shard: then they may change, and may differ between workers.
    """

    @property
    def outside(self) -> bool:
        """Whether the data are not in the shard itself."""
        ...

    def load(self) -> Loaded:
        """Read the examples; X is None if the shard is empty."""
        ...

    def stamp(self, loaded: Loaded) -> str:
        """Return a hash of what `load` has read."""
        ...


EMPTY: Loaded = (None, None, None)


@dataclass(frozen=True, eq=False)
class ArrayShard:
    """Rows or sentences in memory."""

    where: str
    X: Any
    y: Any
    weight: Any = None
    outside = False

    def __str__(self) -> str:
        return self.where

    def load(self) -> Loaded:
        """Return the examples."""
        size = self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)
        return (self.X, self.y, self.weight) if size else EMPTY

    def stamp(self, loaded: Loaded) -> str:
        """Return a hash of the arrays."""
        return _contents((self.X, self.y, self.weight))


@dataclass(frozen=True)
class TextShard:
    """Pieces of text files, in order."""

    pieces: tuple[Piece, ...]
    kind: str
    options: tuple[tuple[str, Any], ...]
    outside = True

    def __str__(self) -> str:
        return "; ".join(map(str, self.pieces)) or "an empty shard"

    def load(self) -> Loaded:
        """Parse the pieces; errors name the file, the bytes and the line in the whole file."""
        options, parts = dict(self.options), []
        for piece in self.pieces:
            content = piece.read()
            try:
                found = _PARSERS[self.kind](content, piece, options)
            except DataError as error:
                line = None if error.line is None else piece.line_of(error.line)
                raise DataError(error.what, str(piece), line) from None
            if found is not None:
                parts.append(found)
        return _JOINERS[self.kind](parts, options) if parts else EMPTY

    def stamp(self, loaded: Loaded) -> str:
        """Return a hash of the bytes."""
        return _hash(*(piece.read() for piece in self.pieces))


@dataclass(frozen=True)
class ParquetShard:
    """Row groups of Parquet files."""

    groups: tuple[tuple[str, int], ...]
    target: str | None
    outside = True

    def __str__(self) -> str:
        return "; ".join(f"{path}, row group {k}" for path, k in self.groups) or "an empty shard"

    def load(self) -> Loaded:
        """Read the row groups; all columns but the target are features, and must be numbers."""
        import pyarrow
        import pyarrow.parquet

        from spom.data.tables import Table, labels

        X, y = [], []
        for path, k in self.groups:
            try:
                with open_file(path) as file:
                    batch = pyarrow.parquet.ParquetFile(file).read_row_group(k)
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(
                    f"the row group cannot be read ({str(error).splitlines()[0]})", f"{path}, {k}"
                ) from None
            names = tuple(batch.column_names)
            cells = {name: batch.column(i).to_pylist() for i, name in enumerate(names)}
            table = Table(names, cells, range(1, batch.num_rows + 1), f"{path}, row group {k}")
            target = names[-1] if self.target is None else self.target
            X.append(table.numbers([name for name in names if name != target]))
            y.append(labels(table.column(target), table.source, table.lines))
        return (np.concatenate(X), np.concatenate(y), None) if X else EMPTY

    def stamp(self, loaded: Loaded) -> str:
        """Return a hash of the contents of the row groups."""
        return _contents(loaded)


@dataclass(frozen=True, eq=False)
class DelayedShard:
    """A partition of a Dask collection, computed on the worker that needs it."""

    part: Any
    kind: str
    y: Any
    number: int
    outside = True

    def __str__(self) -> str:
        return f"partition {self.number}"

    def load(self) -> Loaded:
        """Compute the partition in this thread."""
        import dask

        found = dask.compute(self.part, self.y if self.kind == "array" else None, scheduler="synchronous")
        part = found[0]
        if self.kind == "array":
            X, y, weight = part, found[1], None
        elif self.kind == "frame":
            X, y, weight = part.drop(columns=[self.y]), part[self.y].to_numpy(), None
        elif self.kind == "bag":
            X, y, weight = [item[0] for item in part], [item[1] for item in part], None
        else:
            X, y, weight = (*part, None, None)[:3]
        size = X.shape[0] if hasattr(X, "shape") else len(X)
        return (X, y, weight) if size else EMPTY

    def stamp(self, loaded: Loaded) -> str:
        """Return a hash of the contents of the partition."""
        return _contents(loaded)


def _contents(given: Loaded) -> str:
    """Return a hash of examples; hashes of pickles would depend on caches, and on which strings are the same object."""
    return digest(*(_plain(part) for part in given))


def _plain(part: Any) -> Any:
    """Return data in a form that `digest` takes: arrays, or text and numbers in lists."""
    if isinstance(part, Treebank):
        return conllu_text(part)
    if isinstance(part, Columns):
        return [part.strings(name) for name in part.names]
    if hasattr(part, "to_numpy"):
        return [list(getattr(part, "columns", [])), digest(part.to_numpy())]
    if isinstance(part, (list, tuple)) and any(hasattr(one, "shape") for one in part):
        return [digest(one) for one in part]
    return part


def _hash(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:32]


# --- text ---------------------------------------------------------------------------------------------------


def _conll(content: bytes, piece: Piece, options: dict[str, Any]) -> Any:
    from spom.data.columns import read_conll

    if not content.strip():
        return None
    return read_conll(io.BytesIO(content), **{name: v for name, v in options.items() if name != "y"})


def _conllu(content: bytes, piece: Piece, options: dict[str, Any]) -> Any:
    from spom.data.conllu import parse_conllu

    return parse_conllu(content) if content.strip() else None


def _svmlight(content: bytes, piece: Piece, options: dict[str, Any]) -> Any:
    from spom.data.svmlight import read_svmlight

    blocks = list(read_svmlight(io.BytesIO(content), block_rows=1 << 16, **options))
    return blocks or None


def _csv(content: bytes, piece: Piece, options: dict[str, Any]) -> Any:
    from spom.data.tables import CsvForm, labels, read_table

    if not content.strip():
        return None
    whole = content if piece.end is None else _first_line(piece.path) + content
    try:
        (table,) = read_table(io.BytesIO(whole), "csv", None, CsvForm(True, options["encoding"]))
        target = table.names[-1] if options["target"] is None else options["target"]
        X = table.numbers([name for name in table.names if name != target])
        return X, labels(table.column(target), table.source, table.lines)
    except DataError as error:
        # The header line is not part of the piece.
        line = error.line if error.line is None or piece.end is None else error.line - 1
        raise DataError(error.what, None, line) from None


def _first_line(path: str) -> bytes:
    with open_file(path) as file:
        return bytes(file.readline())


def _join_columns(parts: list[Any], options: dict[str, Any]) -> Loaded:
    from spom.data.columns import joined

    return (parts[0] if len(parts) == 1 else joined(parts)), options["y"], None


def _join_trees(parts: list[Any], options: dict[str, Any]) -> Loaded:
    from spom.data.conllu import join_treebanks

    return (parts[0] if len(parts) == 1 else join_treebanks(parts)), None, None


def _join_rows(parts: list[Any], options: dict[str, Any]) -> Loaded:
    blocks = [block for part in parts for block in part]
    width = max(X.shape[1] for X, _ in blocks)
    for X, _ in blocks:
        X.resize((X.shape[0], width))
    X = blocks[0][0] if len(blocks) == 1 else sparse.vstack([X for X, _ in blocks], format="csr")
    return X, np.concatenate([y for _, y in blocks]), None


def _join_tables(parts: list[Any], options: dict[str, Any]) -> Loaded:
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), None


_PARSERS: dict[str, Callable[[bytes, Piece, dict[str, Any]], Any]] = {
    "conll": _conll,
    "conllu": _conllu,
    "svmlight": _svmlight,
    "csv": _csv,
}
_JOINERS: dict[str, Callable[[list[Any], dict[str, Any]], Loaded]] = {
    "conll": _join_columns,
    "conllu": _join_trees,
    "svmlight": _join_rows,
    "csv": _join_tables,
}
