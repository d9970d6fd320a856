"""Cut files into byte ranges that end at the end of a sentence or of a line."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spom.errors import DataError

_CHUNK = 1 << 20
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


@dataclass(frozen=True)
class Piece:
    """The bytes `begin` to `end` of a file; a compressed file is one piece with `end` None."""

    path: str
    begin: int
    end: int | None

    def __str__(self) -> str:
        return self.path if self.end is None else f"{self.path}, bytes {self.begin}-{self.end}"

    def read(self) -> bytes:
        """Read the bytes; a compressed file is decompressed."""
        from spom.data.opening import read_all

        with open_file(self.path) as file:
            if self.end is None:
                return read_all(file)[1]
            file.seek(self.begin)
            found = bytes(file.read(self.end - self.begin))
        if len(found) != self.end - self.begin:
            raise DataError(f"the file ends before byte {self.end}: it has changed since it was cut", self.path)
        return found

    def line_of(self, line: int) -> int:
        """Convert a line number of this piece into that of the whole file."""
        if self.end is None or self.begin == 0:
            return line
        with open_file(self.path) as file:
            left, count = self.begin, line
            while left > 0 and (chunk := file.read(min(left, _CHUNK))):
                count += chunk.count(b"\n")
                left -= len(chunk)
        return count


def _fsspec(path: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise DataError("reading an address needs the package fsspec (pip install spom[dask])", path) from None
    return fsspec


def _listed_by_fsspec(pattern: str) -> list[str]:
    files, inner = _fsspec(pattern).core.url_to_fs(pattern)
    return sorted(str(files.unstrip_protocol(path)) for path in files.glob(inner))


def open_file(path: str) -> Any:
    """Open a local file or, if the path is an address such as `s3://...`, use fsspec."""
    if "://" in path:
        try:
            return _fsspec(path).open(path, "rb").open()
        except (OSError, ValueError) as error:
            raise DataError(f"the address cannot be read ({error})", path) from None
    try:
        return open(path, "rb")
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror or error})", path) from None


def listed(paths: str | Path | Sequence[str | Path]) -> list[str]:
    """Return the files that paths and patterns such as `part-*.conll` name, those of one pattern sorted."""
    found: list[str] = []
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        text = str(path)
        if "://" in text and glob.has_magic(text):
            matches = _listed_by_fsspec(text)
            if not matches:
                raise DataError("no file matches this pattern", text)
            found.extend(matches)
        elif "://" in text or not glob.has_magic(text) or os.path.exists(text):
            found.append(text)
        elif matches := sorted(glob.glob(text, recursive=True)):
            found.extend(matches)
        else:
            raise DataError("no file matches this pattern", text)
    if not found:
        raise DataError("there are no files: name at least one")
    return found


def pieces_of(paths: Sequence[str], count: int, ends: Sequence[bytes], skip: bool = False) -> list[tuple[Piece, ...]]:
    """Cut files into `count` runs of pieces of about the same number of bytes; every cut follows one of `ends`.

    A compressed file stays whole, in the run that contains its middle. With `skip`, the first line of each file belongs
    to no piece. Runs may be empty.
    """
    if count < 1:
        raise ValueError(f"the number of shards must be at least 1; it is {count!r}")
    files = [_measure(path) for path in paths]
    total = sum(size for size, _ in files)
    runs: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for path, (size, compressed) in zip(paths, files, strict=True):
        if compressed:
            middle = (before + size / 2) * count / max(total, 1)
            runs[min(count - 1, int(middle))].append(Piece(path, 0, None))
        elif size:
            _cut(path, size, (before, total, count), (tuple(ends), skip), runs)
        before += size
    return [tuple(run) for run in runs]


def _measure(path: str) -> tuple[int, bool]:
    """Return (size, whether the file is compressed)."""
    with open_file(path) as file:
        head = file.read(4)
        size = int(file.seek(0, os.SEEK_END))
    return size, any(head.startswith(mark) for mark in _COMPRESSED)


def _cut(
    path: str, size: int, place: tuple[int, int, int], how: tuple[tuple[bytes, ...], bool], runs: list[list[Piece]]
) -> None:
    """Add the pieces of one file, which begins `before` bytes into all of them, to the runs."""
    (before, total, count), (ends, skip) = place, how
    with open_file(path) as file:
        begin = _next_end(file, 0, size, (b"\n",)) if skip else 0
        for k in range(before * count // total, count):
            target = (k + 1) * total // count - before
            end = size if target >= size or k == count - 1 else _next_end(file, max(target, begin), size, ends)
            if end > begin:
                runs[k].append(Piece(path, begin, end))
            begin = max(begin, end)
            if begin >= size:
                return


def _next_end(file: Any, at: int, size: int, ends: tuple[bytes, ...]) -> int:
    """Return where the first of `ends` at or after byte `at` stops, or the size of the file if there is none."""
    longest = max(map(len, ends))
    # An end marker may begin before `at`.
    begin = max(0, at - longest)
    file.seek(begin)
    rest = b""
    while chunk := file.read(_CHUNK):
        rest += chunk
        found = [(rest.find(end, max(0, at - begin - len(end))), len(end)) for end in ends]
        over = [begin + place + long for place, long in found if place >= 0]
        if over:
            return int(min(over))
        cut = max(0, len(rest) - longest)
        begin, rest = begin + cut, rest[cut:]
    return size
