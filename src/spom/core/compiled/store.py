"""Files of compiled code: first those shipped with the package, then those in the user's cache.

Each kernel has one file: a checksum, then a pickle of `Record`s, one per signature. The files hold machine code and are
trusted as Python's own `.pyc` files are.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from spom.core.compiled.key import compiler, level

SHIPPED = Path(__file__).resolve().parents[2] / "_kernels"
# The number of versions kept per kernel: enough for a few checkouts side by side.
_KEPT = 4


class Record(NamedTuple):
    """One compiled signature: the object code, the names in it, and the types that it takes."""

    code: bytes
    wrapper: str
    pointer: str
    environment: str
    environments: list[tuple[str, list[Any]]]
    arguments: list[Any]


def cache_folder() -> Path:
    """Return the folder `spom` in the user's cache."""
    if sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "spom"


def user_folder() -> Path:
    """Return `$NUMBA_CACHE_DIR/spom`, or `spom/kernels` in the user's cache."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given).expanduser() / "spom"
    return cache_folder() / "kernels"


def file_name(name: str, key: str) -> str:
    """Return the path of a kernel's file, relative to any of the folders."""
    return os.path.join(compiler(), level(), f"{name.replace(':', '.')}-{key}.code")


def writable_folder() -> Path | None:
    """Return the user's folder, or None if it cannot be written to."""
    folder = user_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder


def find(name: str, key: str, also: list[Path]) -> list[Record] | None:
    """Return the compiled code of a kernel from the package, the user's cache or another folder, or None."""
    tail = file_name(name, key)
    for folder in (SHIPPED, user_folder(), *also):
        try:
            data = (folder / tail).read_bytes()
        except OSError:
            continue
        if hashlib.blake2b(data[16:], digest_size=16).digest() == data[:16]:
            return [Record(*fields) for fields in pickle.loads(data[16:])]
    return None


def save(folder: Path, name: str, key: str, records: list[Record]) -> None:
    """Write the compiled code of a kernel atomically, and remove its oldest versions."""
    data = pickle.dumps([tuple(record) for record in records], protocol=5)
    path = folder / file_name(name, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(hashlib.blake2b(data, digest_size=16).digest() + data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
    others = path.parent.glob(f"{name.replace(':', '.')}-{'?' * len(key)}.code")
    with suppress(OSError):
        for old in sorted(others, key=lambda p: p.stat().st_mtime)[:-_KEPT]:
            old.unlink()
