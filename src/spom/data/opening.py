"""Opening what a reader is given: a path, `-` for standard input, or a binary file; gzip and zstd are undone."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from spom.errors import DataError

# Text compresses 3 to 20 times, gzip of equal lines 1000 times. The limit is for what is larger than ALWAYS bytes.
MOST_RATIO = 500.0
ALWAYS = 64 << 20
PIECE = 1 << 22
T = TypeVar("T")


@contextmanager
def opened(source: Any) -> Iterator[tuple[str, Any]]:
    """(name, binary file) with what compresses it undone; only what was opened here is closed here.

    A path that is missing, a folder or not readable is a `DataError` that says so.
    """
    if isinstance(source, str) and source == "-":
        yield "standard input", _decompressed(getattr(sys.stdin, "buffer", sys.stdin), "standard input")
        return
    if isinstance(source, (str, Path)):
        with _open(source) as raw:
            yield str(source), _decompressed(raw, str(source))
        return
    if not hasattr(source, "read"):
        raise ValueError(f"source must be a path or a binary file, not {type(source).__name__}")
    name = str(getattr(source, "name", "") or type(source).__name__)
    buffered = source if hasattr(source, "peek") or not hasattr(source, "readinto") else io.BufferedReader(source)
    try:
        yield name, _decompressed(buffered, name)
    finally:
        if buffered is not source:
            buffered.detach()


def read_all(source: Any) -> tuple[str, bytes]:
    """(name, content) of a source, decompressed."""
    with opened(source) as (name, file):
        content = file.read(-1)
    if isinstance(content, str):
        raise DataError('expected a file opened in binary mode ("rb"), found text', name)
    return name, bytes(content)


def _open(path: str | Path) -> Any:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", str(path)) from None
    except IsADirectoryError:
        raise DataError("expected a file, found a folder", str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror or error})", str(path)) from None


def _decompressed(file: Any, name: str) -> Any:
    head = file.peek(4)[:4] if hasattr(file, "peek") else b""
    if isinstance(head, bytes) and head[:2] == b"\x1f\x8b":
        return _Checked(gzip.GzipFile(fileobj=file), name, "gzip", file)
    if head == b"\x28\xb5\x2f\xfd":
        try:
            import zstandard
        except ImportError:
            raise DataError("reading zstd needs the package zstandard (pip install spom[zstd])", name) from None
        return _Checked(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True), name, "zstd", file)
    return file


class _Checked:
    """A decompressor whose failures name the file, and which stops at a file that grows out of all proportion."""

    def __init__(self, file: Any, name: str, kind: str, raw: Any) -> None:
        self.file, self.name, self.kind, self.raw = file, name, kind, raw
        self.given = 0

    def read(self, size: int) -> Any:
        """The next bytes, or a `DataError` where the compressed stream is damaged or a bomb."""
        if size < 0:
            parts = []
            while part := self.read(PIECE):
                parts.append(part)
            return b"".join(parts)
        try:
            found = self.file.read(size)
        except Exception as error:
            raise DataError(f"expected a whole {self.kind} file, found a damaged one ({error})", self.name) from None
        self.given += len(found)
        self._check_ratio()
        return found

    def _check_ratio(self) -> None:
        if self.given <= ALWAYS:
            return
        limit = float(os.environ.get("SPOM_MAX_RATIO", MOST_RATIO))
        try:
            taken = self.raw.tell()
        except (OSError, AttributeError):
            return
        if self.given > limit * max(1, taken):
            what = f"{taken} bytes became more than {self.given}, over {limit:g} times as many"
            raise DataError(f"{what}; set SPOM_MAX_RATIO to a larger number to read it anyway", self.name)


def not_empty(blocks: Iterable[T], what: str, source: Any) -> Iterator[T]:
    """The blocks of a source, or a `DataError` where there is none.

    >>> list(not_empty([], "sentences", "-"))
    Traceback (most recent call last):
    spom.errors.DataError: standard input: expected sentences, found none
    """
    empty = True
    for block in blocks:
        empty = False
        yield block
    if empty:
        raise DataError(f"expected {what}, found none", "standard input" if source == "-" else str(source))
