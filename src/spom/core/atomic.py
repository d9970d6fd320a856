"""Files that are there whole or not at all: a temporary name in the same folder, flushed to disk, then moved."""

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

# A temporary file of another machine is removed when it is this old, in seconds.
OLD = 24 * 3600.0


@contextmanager
def replacing(path: str | Path, keep: bool = False) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends well; else `path` stays as it was.

    With `keep` the file that was there before stays as `previous(path)`. A link is followed, so that what it points to
    is replaced. A device or a pipe (`/dev/null`, `/dev/stdout`) is written to directly.

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
    # 0o666 less the user's mask, as for any new file: mkstemp would leave a file that other users cannot read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep and target.exists():
            # A second name first, so that there is a file under the old name at every moment.
            second = _temporary(target)
            os.link(target, second)
            os.replace(second, previous(target))
            # Where both names are one file already, as after a kill at this point, nothing was moved.
            second.unlink(missing_ok=True)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(file: Any, data: Any) -> None:
    """Write all bytes: a file without a buffer, as with PYTHONUNBUFFERED, may write a part and say how much."""
    rest = memoryview(data).cast("B")
    while len(rest):
        written = file.write(rest)
        rest = rest[len(rest) if written is None else written :]


def previous(path: str | Path) -> Path:
    """The name under which `replacing(path, keep=True)` keeps the file that was there before."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def remove_stale(path: str | Path) -> int:
    """Remove the temporary files that killed processes left beside `path`; how many there were.

    Those of processes that still run on this machine stay, and so do young ones of other machines.
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
    """An `OSError` where no file could be written to `path`; makes a temporary file there and removes it."""
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
    """The file to replace, behind links; None for a device or a pipe; an `OSError` where there can be no file."""
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
