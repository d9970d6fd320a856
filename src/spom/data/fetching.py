"""The data folder, and fetching of public data sets: downloaded once, checked by sha256, moved into place."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path

from spom.core.atomic import replacing
from spom.core.compiled.store import cache_folder
from spom.data.catalogue import CATALOGUE, Source
from spom.errors import DataError, Unsupported

_PIECE = 1 << 18
_TIMEOUT = 30.0


def data_folder() -> Path:
    """Return `$SPOM_DATA`, or `spom` in the user's cache."""
    given = os.environ.get("SPOM_DATA")
    if given:
        return Path(given).expanduser()
    return cache_folder()


def fetch(name: str, folder: str | Path | None = None) -> Path:
    """Make sure that a data set is complete and unaltered, and return its folder.

    Missing files are downloaded from their public addresses. The sha256 is that of the decompressed content, so a
    file that was compressed again passes, and an altered one does not.
    """
    if name not in CATALOGUE:
        raise Unsupported(f"there is no data set {name!r}; the names are: {', '.join(sorted(CATALOGUE))}")
    root = data_folder() if folder is None else Path(folder)
    missing = []
    for source in CATALOGUE[name]:
        path = root / source.path
        if not path.exists():
            missing.append(source)
        elif _sha256(_content(path)) != source.sha256:
            raise DataError("its sha256 is not that of the published file; remove it and fetch again", str(path))
    archives: dict[str, bytes] = {}
    for source in missing:
        _store(root / source.path, _download(source, root, archives))
    return root / name


def located(name: str) -> Path:
    """Return the folder of a data set; it is fetched if one of its files is missing."""
    root = data_folder()
    here = all((root / source.path).exists() for source in CATALOGUE.get(name, ()))
    return root / name if here and name in CATALOGUE else fetch(name)


def read_bytes(path: Path) -> bytes:
    """Read the content of a data file, decompressed; raise a `DataError` if it is damaged."""
    try:
        return _content(path)
    except (OSError, EOFError) as error:
        raise DataError(f"the file is damaged ({error}); remove it and fetch again", str(path)) from None


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(source: Source, root: Path, archives: dict[str, bytes]) -> bytes:
    """Download the content of one file from the first address that has the right one."""
    problems = []
    for address in source.addresses:
        try:
            if address not in archives:
                archives[address] = _get(address)
            content = _unpacked(archives[address], source)
        except (OSError, KeyError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
            problems.append(f"{address}: {error}")
            continue
        if _sha256(content) == source.sha256:
            return content
        problems.append(f"{address}: the sha256 of the content is not the expected one")
    raise DataError(
        f"{source.path} is not in {root}, and could not be downloaded ({'; '.join(problems)}). "
        "Put it there by hand, or point SPOM_DATA at a folder that has it"
    )


def _get(address: str) -> bytes:
    """Download the bytes at an address, with progress on a terminal after 2 s."""
    parts, size, begin, shown = [], 0, time.perf_counter(), False
    request = urllib.request.Request(address, headers={"User-Agent": "spom"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        total = int(answer.headers.get("Content-Length") or 0)
        while piece := answer.read(_PIECE):
            parts.append(piece)
            size += len(piece)
            if time.perf_counter() - begin > 2.0 and sys.stderr.isatty():
                share = f" of {total / 1e6:.1f}" if total else ""
                sys.stderr.write(f"\r{address}  {size / 1e6:.1f}{share} MB")
                sys.stderr.flush()
                shown = True
    if shown:
        sys.stderr.write("\n")
    return b"".join(parts)


def _unpacked(raw: bytes, source: Source) -> bytes:
    if source.member is None:
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if raw[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return archive.read(source.member)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        found = archive.extractfile(source.member)
        if found is None:
            raise KeyError(f"{source.member} is no file of the archive")
        return found.read()


def _store(path: Path, content: bytes) -> None:
    """Write under a temporary name, then move: a crash leaves no half-written file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(content, mtime=0) if path.suffix == ".gz" else content
    with replacing(path) as file:
        file.write(packed)
