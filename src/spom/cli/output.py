"""Where results go: standard output, or a file that is there whole or not at all, compressed as its name says."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spom.core.atomic import replacing
from spom.errors import Unsupported


@contextmanager
def writing(path: str) -> Iterator[Any]:
    """A binary file to write to; `-` is standard output, and .gz and .zst compress."""
    if path == "-":
        out = getattr(sys.stdout, "buffer", None)
        if out is None:
            raise Unsupported("standard output takes no bytes here; write to a file with -o")
        yield Whole(out)
        out.flush()
        return
    with replacing(path) as raw:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
                yield packed
        elif path.endswith(".zst"):
            try:
                import zstandard
            except ImportError:
                raise Unsupported("writing zstd needs the package zstandard (pip install spom[zstd])") from None
            with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw


class Whole:
    """A binary file all of whose bytes are written: with PYTHONUNBUFFERED `write` may write a part and say how much."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, data: Any) -> int:
        """Write everything, or raise the error of the system."""
        rest = memoryview(data).cast("B")
        while len(rest):
            written = self.file.write(rest)
            rest = rest[len(rest) if written is None else written :]
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Hand over what is kept."""
        self.file.flush()


def print_json(values: dict[str, Any]) -> None:
    """One line of JSON on standard output."""
    from spom.models.run import plain

    print(json.dumps(plain(values), ensure_ascii=False, allow_nan=False))


def say(text: str, quiet: bool = False) -> None:
    """A line for the user on standard error, where that is a terminal."""
    if not quiet and sys.stderr.isatty():
        print(text, file=sys.stderr)
