"""Text with a field of each token replaced: how predictions get into the file that was read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.interning import BYTES, Bytes


@kernel(f"void({BYTES}, int64[::1], int64[::1], int64[::1], {BYTES}, int64[::1], uint8[::1])")
def put_fields(text: Bytes, begin: Ints, end: Ints, codes: Ints, fields: Bytes, first: Ints, out: Bytes) -> None:
    """Copy the text with field c = codes[t], fields[first[c] : first[c + 1]], in place of begin[t] to end[t] - 1."""
    at, o = 0, 0
    for t in range(begin.size):
        for i in range(at, begin[t]):
            out[o] = text[i]
            o += 1
        for i in range(first[codes[t]], first[codes[t] + 1]):
            out[o] = fields[i]
            o += 1
        at = end[t]
    for i in range(at, text.size):
        out[o] = text[i]
        o += 1


def spliced(text: Bytes, begin: Ints, end: Ints, codes: Ints, fields: Sequence[bytes]) -> bytes:
    """The text with the bytes begin[t] to end[t] - 1 of each token, in their order, replaced by fields[codes[t]].

    >>> text = np.frombuffer(b"the DT, cat NN", dtype=np.uint8)
    >>> spliced(text, np.array([6, 14]), np.array([6, 14]), np.array([1, 0]), [b" I-NP", b" B-NP"])
    b'the DT B-NP, cat NN I-NP'
    >>> spliced(text, np.array([4, 12]), np.array([6, 14]), np.array([1, 0]), [b"N", b"D"])
    b'the D, cat N'
    """
    sizes = np.array([len(field) for field in fields], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    begin, end = np.ascontiguousarray(begin, dtype=np.int64), np.ascontiguousarray(end, dtype=np.int64)
    length = text.size + int(sizes[codes].sum()) - int((end - begin).sum())
    out = np.empty(length, dtype=np.uint8)
    blob = np.frombuffer(b"".join(fields), dtype=np.uint8)
    put_fields(text, begin, end, np.ascontiguousarray(codes, dtype=np.int64), blob, first, out)
    return out.tobytes()
