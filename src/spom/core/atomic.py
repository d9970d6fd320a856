"""Atomic file writes: to a temporary name in the same folder, flushed to disk, then moved into place."""

from __future__ import annotations

import glob
import os
import secrets
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

# Age in seconds at which a temporary file of another machine is removed.
OLD = 24 * 3600.0


@contextmanager
def replacing(path: str | Path, keep: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends without an error; else `path` stays as it was.

    With `keep` the old file is kept as `previous(path)`. A symbolic link is followed, and its target is replaced.
    A device or a pipe (`/dev/null`, `/dev/stdout`) is written to directly.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"one, two")
    >>> path.read_text()
    'one, two'
    """
    target = _target(path)
    if target is None:
        with open(path, "wb") as file:
            yield file
        return
    temporary = _temporary(target)
    # 0o666 minus the user's umask, as for any new file: mkstemp would leave a file that other users cannot read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep and target.exists():
            # Link a second name first: there must be a file under the old name at any time.
            second = _temporary(target)
            os.link(target, second)
            os.replace(second, previous(target))
            # If both names were one file already, as after a kill at this point, `os.replace` moved nothing.
            second.unlink(missing_ok=True)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(file: Any, data: Any) -> None:
    """Write all bytes: an unbuffered file, as with PYTHONUNBUFFERED, may write only a part and return its size."""
    rest = memoryview(data).cast("B")
    while len(rest):
        written = file.write(rest)
        rest = rest[len(rest) if written is None else written :]


def previous(path: str | Path) -> Path:
    """Return the name under which `replacing(path, keep=True)` keeps the old file."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def remove_stale(path: str | Path) -> int:
    """Remove the temporary files that killed processes left beside `path`, and return how many were removed.

    Files of processes that still run on this machine are kept, and so are recent files of other machines.
    """
    target, count = Path(path).resolve(), 0
    try:
        found = list(target.parent.glob(f".{glob.escape(target.name)}.*.part"))
    except OSError:
        return 0
    for file in found:
        try:
            if _is_stale(file):
                file.unlink()
                count += 1
        except OSError:
            continue
    return count


def check_writable(path: str | Path) -> None:
    """Raise an `OSError` if no file can be written to `path`; create a temporary file there and remove it."""
    target = _target(path)
    if target is None:
        return
    temporary = _temporary(target)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        what = f"files cannot be written to this folder ({error.strerror}); check who may write there"
        raise type(error)(error.errno, what, str(target.parent)) from None
    temporary.unlink()


def _target(path: str | Path) -> Path | None:
    """Return the file to replace, links resolved, or None for a device or a pipe; `OSError` if no file can be there."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(21, "this is a folder; name a file to write to", str(path))
    if path.exists() and not path.is_file():
        return None
    target = path.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder; make it first", str(target.parent))
    return target


def _machine() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.part")


def _is_stale(file: Path) -> bool:
    machine, _, rest = file.name.removesuffix(".part").rpartition(".")[2].partition("-")
    number = rest.partition("-")[0]
    if machine == _machine() and number.isdigit():
        return not _runs(int(number))
    return time.time() - file.stat().st_mtime > OLD


def _runs(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
