"""The model file: safetensors, with everything that is not an array as JSON in its header.

    8 bytes     length of the header, little-endian
    header      JSON: "__metadata__" (text by name), then dtype, shape and place of each array
    arrays      one after another, the widest numbers first, so that each is aligned in memory

The metadata are `format` (the version of this layout), `spom` (the version that wrote the file), `estimator`, `model`
(parameters, state and training summary, as JSON), `arrays` (the sha256 of each array's bytes, as JSON) and `header`
(the sha256 of the rest of the header). Any reader of safetensors can open the file.

The header's hash is always checked, and so is that the arrays fill the file to its last byte. The hashes of the arrays
are checked from the smallest array up, for at most `BUDGET` bytes: all of them in a file up to that size. To check a
larger file it would have to be read to its end, which a memory map avoids, so its largest arrays are checked only with
`verify=True`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from spom.core.arrays import Array
from spom.core.atomic import replacing
from spom.errors import ModelFileError

FORMAT = 1
# About 50 ms of sha256.
BUDGET = 64 << 20
LONGEST_HEADER = 100_000_000
_METADATA = "__metadata__"
_DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


@dataclass(frozen=True)
class Header:
    """The header of a model file, read before any array; `entries` maps names to (dtype, shape, begin, end)."""

    path: str
    format: int
    spom: str
    estimator: str
    model: dict[str, Any]
    hashes: dict[str, str]
    entries: dict[str, tuple[Any, tuple[int, ...], int, int]] = field(repr=False)
    size: int = 0
    data: int = 0


# --- writing ----------------------------------------------------------------------------------------


def write_file(
    path: str | Path, estimator: str, model: dict[str, Any], arrays: dict[str, Array], keep: bool = False
) -> None:
    """Write a model, under a temporary name first: a crash or a full disk leaves the old file as it was.

    With `keep` the old file is kept beside it: see `spom.core.atomic.previous`.
    """
    from spom import __version__

    ready = {name: _plain(name, a) for name, a in arrays.items()}
    order = sorted(ready, key=lambda name: (-ready[name].itemsize, name))
    entries, at = {}, 0
    for name in order:
        a = ready[name]
        entries[name] = {"dtype": _NAMES[a.dtype], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    metadata = {
        "format": str(FORMAT),
        "spom": __version__,
        "estimator": estimator,
        "model": _json(model),
        "arrays": _json({name: _sha256(ready[name]) for name in order}),
    }
    metadata["header"] = _header_hash(metadata, entries)
    text = _json({_METADATA: metadata, **entries}).encode()
    # Blanks are allowed after the header: they align the first array to 64 bytes.
    text += b" " * (-(8 + len(text)) % 64)
    if len(text) > LONGEST_HEADER:
        raise ModelFileError(f"{path}: the header would have {len(text)} bytes, more than readers take")
    with replacing(path, keep) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            file.write(_bytes(ready[name]))


def _plain(name: str, array: Any) -> Array:
    """Return an array as C-ordered and little-endian, or raise a `ModelFileError` if the format lacks its dtype."""
    a = np.ascontiguousarray(array).reshape(np.shape(array))
    wanted = a.dtype.newbyteorder("<")
    if wanted not in _NAMES:
        raise ModelFileError(f"the array {name!r} is of dtype {a.dtype}, which a model file cannot hold")
    return a.astype(wanted, copy=False)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)


def _bytes(array: Array) -> Any:
    """Return the bytes of a C-ordered array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def _sha256(array: Array) -> str:
    return hashlib.sha256(_bytes(array)).hexdigest()


def _header_hash(metadata: dict[str, str], entries: dict[str, Any]) -> str:
    rest = {name: text for name, text in metadata.items() if name != "header"}
    return hashlib.sha256(_json([rest, entries]).encode()).hexdigest()


# --- reading ----------------------------------------------------------------------------------------


def read_header(path: str | Path) -> Header:
    """Read and check the header of a model file; no array is read.

    A newer format, and anything that is not a complete model file, raises a `ModelFileError`.
    """
    with _opened(path) as file:
        return _header(file, str(path))


def read_file(path: str | Path, verify: bool | None = None) -> tuple[Header, dict[str, Array]]:
    """Read the header, and map the arrays into memory: a page is read from the file when it is first accessed.

    `verify=True` checks every array's hash, False none, None the smallest ones up to `BUDGET` bytes. The arrays are
    writable, as compiled code requires; changes stay in this process.
    """
    with _opened(path) as file:
        header = _header(file, str(path))
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays = {}
    for name, (dtype, shape, begin, end) in header.entries.items():
        if begin == end:
            arrays[name] = np.zeros(shape, dtype=dtype)
            continue
        flat = np.frombuffer(mapped, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=header.data + begin)
        arrays[name] = flat.reshape(shape)
    if verify is not False:
        _verify(header, arrays, None if verify else BUDGET)
    return header, arrays


def _verify(header: Header, arrays: dict[str, Array], budget: int | None) -> None:
    read = 0
    for name in sorted(arrays, key=lambda name: arrays[name].nbytes):
        read += arrays[name].nbytes
        if budget is not None and read > budget:
            return
        if _sha256(arrays[name]) != header.hashes[name]:
            raise ModelFileError(f"{header.path}: the array {name!r} was altered after it was written; train again")


def _opened(path: str | Path) -> BinaryIO:
    if os.path.isdir(path):
        raise ModelFileError(f"{path}: this is a folder; give the model file in it")
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file") from None


def _header(file: BinaryIO, path: str) -> Header:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, LONGEST_HEADER):
        raise ModelFileError(f"{path}: no model file, or only the beginning of one")
    try:
        parsed = json.loads(file.read(length))
        metadata = parsed.pop(_METADATA)
        version = int(metadata["format"])
        _check_version(version, metadata, path)
        found = {k: metadata[k] for k in ("spom", "estimator", "model", "arrays", "header")}
        entries = {name: _entry(e) for name, e in parsed.items()}
        whole = found["header"] == _header_hash(metadata, parsed)
        model, hashes = json.loads(found["model"]), json.loads(found["arrays"])
        whole = whole and isinstance(model, dict) and sorted(hashes) == sorted(entries)
    except ModelFileError:
        raise
    except KeyError:
        raise ModelFileError(f"{path}: a safetensors file, but no model of spom") from None
    except Exception as error:
        raise ModelFileError(f"{path}: no model file, or a damaged one ({error})") from None
    if not whole:
        raise ModelFileError(f"{path}: the header was altered after it was written; train again")
    _check_places(entries, size - 8 - length, path)
    return Header(path, version, found["spom"], found["estimator"], model, hashes, entries, size, 8 + length)


def _check_version(version: int, metadata: dict[str, str], path: str) -> None:
    if version > FORMAT:
        by = metadata.get("spom", "?")
        raise ModelFileError(f"{path}: written by spom {by} in format {version}; this spom reads up to format {FORMAT}")
    if version < 1:
        raise ModelFileError(f"{path}: there is no format {version}")


def _entry(entry: dict[str, Any]) -> tuple[Any, tuple[int, ...], int, int]:
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"an array of dtype {entry['dtype']!r}")
    dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    count = 1
    for n in shape:
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"a shape of {shape}")
        count *= n
    if not isinstance(begin, int) or end - begin != count * dtype.itemsize or begin % dtype.itemsize:
        raise ValueError("an array whose size is not that of its shape")
    return dtype, shape, begin, end


def _check_places(entries: dict[str, Any], size: int, path: str) -> None:
    """Check that the arrays are consecutive, from the header to the end of the file."""
    at = 0
    for _, _, begin, end in sorted(entries.values(), key=lambda e: (e[2], e[3])):
        if begin != at:
            raise ModelFileError(f"{path}: a damaged model file: its arrays overlap, or have a hole between them")
        at = end
    if at != size:
        what = "only the beginning of a model file" if at > size else "a model file with something after its end"
        raise ModelFileError(f"{path}: {what}: {at} bytes of arrays were written, and {size} are there")


# --- checks of arrays, before compiled code that trusts them reads them ----------------------------------------


def take(arrays: dict[str, Array], name: str, kind: str, ndim: int = 1, finite: bool = True) -> Array:
    """Return the array of this name, or raise an error if it is missing or has another kind or number of dimensions.

    `kind` holds the allowed kinds of dtypes ("f", "i", "u", "b"). Floats must be finite, unless `finite` is False.
    """
    if name not in arrays:
        raise ModelFileError(f"the model has no array {name!r}: the file is not whole, or not of this kind")
    array = arrays[name]
    if array.dtype.kind not in kind or array.ndim != ndim:
        raise ModelFileError(f"the array {name!r} is {array.ndim}-dimensional {array.dtype}, which does not fit")
    if array.dtype.kind == "f" and finite and not np.isfinite(array).all():
        raise ModelFileError(f"the array {name!r} has entries that are not finite: the file is damaged")
    return array


def check_shape(array: Array, shape: tuple[int, ...], name: str) -> Array:
    """Return `array` itself, or raise an error if it has another shape."""
    if array.shape != tuple(shape):
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; {tuple(shape)} was expected")
    return array


def check_offsets(offsets: Array, end: int, name: str) -> Array:
    """Return `offsets` itself, checked to rise from 0 to `end`: compiled loops run from one offset to the next.

    >>> check_offsets(np.array([0, 2, 5]), 5, "offsets")
    array([0, 2, 5])
    """
    good = offsets.ndim == 1 and offsets.size > 0 and offsets.dtype.kind in "iu"
    if not good or int(offsets[0]) != 0 or int(offsets[-1]) != end or bool((offsets[1:] < offsets[:-1]).any()):
        raise ModelFileError(f"the offsets {name!r} do not rise from 0 to {end}: the file is damaged")
    return offsets


def check_indices(indices: Array, limit: int, name: str, least: int = 0) -> Array:
    """Return `indices` itself, all checked to be from `least` to `limit` - 1: compiled loops do not check them."""
    if indices.dtype.kind not in "iu" or (indices.size and not (least <= indices.min() and indices.max() < limit)):
        raise ModelFileError(f"the indices {name!r} are not all from {least} to {limit - 1}: the file is damaged")
    return indices
