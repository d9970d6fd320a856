"""Files that are there whole or not at all: a temporary name in the same folder, flushed, then moved."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends well; else `path` stays as it was.

    A link is followed, so that what it points to is replaced. A device or a pipe (`/dev/null`, `/dev/stdout`) is
    written to directly, because nothing could be moved there.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"one, two")
    >>> path.read_text()
    'one, two'
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(21, "this is a folder; name a file to write to", str(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    target = path.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder; make it first", str(target.parent))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    # 0o666 less the user's mask, as for any new file: mkstemp would leave a model that nobody else can read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
