"""Open the source of a reader: a path, `-` for standard input, or a binary file; gzip and zstd are decompressed."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from spom.errors import DataError

# Text compresses 3 to 20 times, equal lines 1000 times with gzip. The limit applies beyond ALWAYS decompressed bytes.
MOST_RATIO = 500.0
ALWAYS = 64 << 20
PIECE = 1 << 22
# The byte order mark of UTF-8, which some programs put in front of a file; it is not part of the text.
MARK = b"\xef\xbb\xbf"
T = TypeVar("T")


@contextmanager
def opened(source: Any) -> Iterator[tuple[str, Any]]:
    """Open a source as (name, decompressed binary file without byte order mark); files opened here are closed here.

    A path that is missing, a folder or not readable raises a `DataError` that says so.
    """
    if isinstance(source, str) and source == "-":
        name, file = "standard input", getattr(sys.stdin, "buffer", sys.stdin)
        _check_binary(file, name)
        yield name, _decompressed(file, name)
        return
    if isinstance(source, (str, Path)):
        with _open(source) as raw:
            yield str(source), _decompressed(raw, str(source))
        return
    if not hasattr(source, "read"):
        raise ValueError(f"source must be a path or a binary file, not {type(source).__name__}")
    name = str(getattr(source, "name", "") or type(source).__name__)
    _check_binary(source, name)
    buffered = source if hasattr(source, "peek") or not hasattr(source, "readinto") else io.BufferedReader(source)
    try:
        yield name, _decompressed(buffered, name)
    finally:
        if buffered is not source:
            buffered.detach()


def read_all(source: Any) -> tuple[str, bytes]:
    """Return (name, content) of a source, decompressed."""
    with opened(source) as (name, file):
        return name, bytes(file.read(-1))


def _check_binary(file: Any, name: str) -> None:
    if isinstance(file.read(0), str):
        raise DataError('expected a file opened in binary mode ("rb"), found text', name)


def _open(path: str | Path) -> Any:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise DataError("no such file", str(path)) from None
    except IsADirectoryError:
        raise DataError("expected a file, found a folder", str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror or error})", str(path)) from None


def _decompressed(file: Any, name: str) -> Any:
    head = file.peek(4)[:4] if hasattr(file, "peek") else b""
    if head[:2] == b"\x1f\x8b":
        return _Checked(gzip.GzipFile(fileobj=file), name, "gzip", file)
    if head == b"\x28\xb5\x2f\xfd":
        try:
            import zstandard
        except ImportError:
            raise DataError("reading zstd needs the package zstandard (pip install spom[zstd])", name) from None
        return _Checked(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True), name, "zstd", file)
    if head.startswith(MARK):
        file.read(len(MARK))
    return file


class _Checked:
    """A decompressor whose errors name the file, and which refuses files with an excessive compression ratio."""

    def __init__(self, file: Any, name: str, kind: str, raw: Any) -> None:
        self.file, self.name, self.kind, self.raw = file, name, kind, raw
        self.given = 0

    def read(self, size: int) -> Any:
        """Return the next bytes, or raise a `DataError` if the compressed stream is damaged or a bomb."""
        if size < 0:
            parts = []
            while part := self.read(PIECE):
                parts.append(part)
            return b"".join(parts)
        try:
            found = self.file.read(size)
        except Exception as error:
            raise DataError(f"expected a complete {self.kind} file, found a damaged one ({error})", self.name) from None
        first, self.given = self.given == 0, self.given + len(found)
        self._check_ratio()
        return found[len(MARK) :] or self.read(size) if first and found.startswith(MARK) else found

    def _check_ratio(self) -> None:
        if self.given <= ALWAYS:
            return
        limit = float(os.environ.get("SPOM_MAX_RATIO", MOST_RATIO))
        try:
            taken = self.raw.tell()
        except (OSError, AttributeError):
            return
        if self.given > limit * max(1, taken):
            what = f"{taken} bytes expand to {self.given} or more, over {limit:g} times as many"
            raise DataError(f"{what}; set SPOM_MAX_RATIO to a larger number to read it anyway", self.name)


def not_empty(blocks: Iterable[T], what: str, source: Any) -> Iterator[T]:
    """Yield the blocks of a source, or raise a `DataError` if there is none.

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


# --- in pieces --------------------------------------------------------------------------------------


def pieces(read: Callable[[int], bytes], size: int, end: Callable[[bytes], int]) -> Iterator[bytes]:
    """Yield what `read` returns, about `size` bytes at a time; `end` finds the end of the last whole line or sentence.

    >>> list(pieces(io.BytesIO(b"one, two, three").read, 6, lambda content: content.rfind(b",") + 1))
    [b'one,', b' two,', b' three']
    """
    rest = b""
    while more := read(size):
        rest += more
        if cut := end(rest):
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def last_line(content: bytes) -> int:
    """Return where the last line ends, or 0 if none does."""
    return content.rfind(b"\n") + 1


def last_blank_line(content: bytes) -> int:
    """Return where the last empty line ends, or 0 if there is none. A line of spaces is left to a later piece."""
    plain, carriage = content.rfind(b"\n\n"), content.rfind(b"\n\r\n")
    return max(plain + 2 if plain >= 0 else 0, carriage + 3 if carriage >= 0 else 0)


def decoded(content: bytes, name: str, before: int, encoding: str = "utf-8", hint: str = "") -> str:
    """Decode bytes of a file; `before` is the number of lines before them, for the line number in an error."""
    try:
        return content.decode(encoding)
    except LookupError:
        raise DataError(f"unknown encoding {encoding!r}; try utf-8 or latin-1", name) from None
    except UnicodeDecodeError as error:
        line = before + 1 + content.count(b"\n", 0, error.start)
        raise DataError(f"byte {content[error.start]:#04x} is not {encoding}{hint}", name, line) from None


def text_lines(file: Any, name: str, encoding: str = "utf-8", hint: str = "") -> Iterator[str]:
    """Yield the lines of a file with their ends, decoded piece by piece."""
    before = 0
    for piece in pieces(file.read, 1 << 20, last_line):
        for line in io.StringIO(decoded(piece, name, before, encoding, hint), newline=""):
            before += 1
            yield line
