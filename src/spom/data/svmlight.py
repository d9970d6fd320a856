"""Reading svmlight / libsvm files, plain or compressed, block by block, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.data import svmlight_parser as parser
from spom.data.opening import opened
from spom.errors import DataError

LARGEST_INDEX = 2**31 - 2
MANY_LABELS = 1000
_CHUNK = 1 << 22
STARTS_AT_ZERO = "expected indices from 1 on"
_EXPECTED = {
    parser.LABEL: "expected a label, which is a finite number",
    parser.INDEX: "expected a feature index, which is a whole number",
    parser.COLON: "expected index:value",
    parser.VALUE: "expected index:value with a finite number as the value",
    parser.ORDER: "expected increasing feature indices",
    parser.ZERO: f"{STARTS_AT_ZERO}; where they start at 0, give zero_based=True or, to the command, --zero-based yes",
    parser.BEYOND: "expected an index of at most",
}


def read_svmlight(
    source: Any,
    *,
    block_rows: int = 16384,
    n_features: int | None = None,
    zero_based: bool = False,
) -> Iterator[tuple[sparse.csr_matrix, Floats]]:
    """Yield blocks (X, y) of `block_rows` examples each, the last one shorter, from an svmlight / libsvm file.

    `source` is a path or a binary file; gzip and zstd are detected by their first bytes. A line is
    `label index:value index:value ... # comment`, with increasing indices that start at one (at zero with
    `zero_based`). X is CSR with float64 values; its width is `n_features`, or if that is not given the
    largest index so far, so later blocks may be wider. Memory does not depend on the length of the
    file. A line that cannot be read raises a `DataError` with the file, the line and what was expected there.

    >>> import io
    >>> text = io.BytesIO(b"+1 1:0.5 3:2 # first" + bytes([10]) + b"-1 2:25e-2" + bytes([10]))
    >>> for X, y in read_svmlight(text):
    ...     print(X.toarray(), y)
    [[0.5  0.   2.  ]
     [0.   0.25 0.  ]] [ 1. -1.]
    """
    if isinstance(block_rows, bool) or not isinstance(block_rows, (int, np.integer)) or block_rows < 1:
        raise ValueError(f"block_rows must be a whole number >= 1; it is {block_rows!r}")
    if n_features is not None and not 0 <= n_features <= LARGEST_INDEX:
        raise ValueError(f"n_features must be from 0 to {LARGEST_INDEX}; it is {n_features!r}")
    return _blocks(source, int(block_rows), n_features, 0 if zero_based else 1)


class SvmlightFile:
    """An svmlight file as a stream that can be read repeatedly: `iter` starts from the beginning.

    `n_features`, `n_rows` and `labels` (the distinct labels, None if there are more than `MANY_LABELS`) come
    from one quick scan of the file, at the first access to one of them that is not given.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.svm"
    >>> _ = path.write_text("+1 1:0.5 7:1" + chr(10) + "-1 2:3" + chr(10))
    >>> file = SvmlightFile(path)
    >>> file.n_rows, file.n_features, file.labels
    (2, 7, array([-1.,  1.]))
    >>> [X.shape for X, y in file]
    [(2, 7)]
    """

    def __init__(
        self, path: str | Path, *, block_rows: int = 32768, n_features: int | None = None, zero_based: bool = False
    ) -> None:
        self.path, self.block_rows, self.zero_based = Path(path), block_rows, zero_based
        self._n_features = n_features
        if not self.path.is_file():
            raise DataError("there is no such file", source=str(path))

    def __iter__(self) -> Iterator[tuple[sparse.csr_matrix, Floats]]:
        return read_svmlight(
            self.path, block_rows=self.block_rows, n_features=self.n_features, zero_based=self.zero_based
        )

    @property
    def n_features(self) -> int:
        """The number of columns of every block."""
        return self._look[1] if self._n_features is None else self._n_features

    @property
    def looked(self) -> bool:
        """Whether the quick scan of the file has been made."""
        return "_look" in vars(self)

    @property
    def n_rows(self) -> int:
        """The number of examples."""
        return self._look[0]

    @property
    def labels(self) -> Floats | None:
        """The distinct labels, sorted, or None if there are very many, as with real targets."""
        return self._look[2]

    @cached_property
    def _look(self) -> tuple[int, int, Floats | None]:
        labels = np.empty(MANY_LABELS)
        rows = count = 0
        widest = -1 if self.zero_based else 0
        with opened(self.path) as (_, file):
            for text in _chunks(file):
                ends, comments = np.flatnonzero(text == ord("\n")), bool((text == ord("#")).any())
                more, widest, count = parser.scan_lines(text, ends, comments, widest, labels, count, parser.POWERS)
                rows += more
        if widest > LARGEST_INDEX:
            raise DataError(f"expected feature indices up to {LARGEST_INDEX}, found {widest}", str(self.path))
        return rows, widest + self.zero_based, None if count > MANY_LABELS else np.sort(labels[:count])


def _blocks(
    source: Any, block_rows: int, n_features: int | None, base: int
) -> Iterator[tuple[sparse.csr_matrix, Floats]]:
    limit = (LARGEST_INDEX if n_features is None else n_features) - 1 + base
    y, indptr = np.empty(block_rows), np.zeros(block_rows + 1, dtype=np.int32)
    block = parser.Block(y, indptr, np.empty(1 << 16, dtype=np.int32), np.empty(1 << 16))
    widest, place = 0, np.array([0, 0, 0, 1])
    with opened(source) as (name, file):
        for text in _chunks(file):
            place[parser.AT] = 0
            while True:
                code = parser.parse_lines(text, place, base, limit, block, parser.POWERS)
                if code == parser.FULL:
                    block = block._replace(indices=_doubled(block.indices), data=_doubled(block.data))
                    continue
                at, rows, nnz, line = (int(x) for x in place)
                if code != parser.DONE:
                    raise DataError(_explain(code, text, at, limit), source=name, line=line)
                if rows == block_rows:
                    widest = max(widest, int(block.indices[:nnz].max(initial=-1)) + 1)
                    yield _block(block, rows, nnz, widest if n_features is None else n_features)
                    place[parser.ROWS] = place[parser.ENTRIES] = 0
                if at >= text.size:
                    break
    if rows := int(place[parser.ROWS]):
        nnz = int(place[parser.ENTRIES])
        widest = max(widest, int(block.indices[:nnz].max(initial=-1)) + 1)
        yield _block(block, rows, nnz, widest if n_features is None else n_features)


def _block(block: parser.Block, rows: int, nnz: int, width: int) -> tuple[sparse.csr_matrix, Floats]:
    arrays = (block.data[:nnz].copy(), block.indices[:nnz].copy(), block.indptr[: rows + 1].copy())
    X = sparse.csr_matrix(arrays, shape=(rows, width))
    X.has_sorted_indices = X.has_canonical_format = True
    return X, block.y[:rows].copy()


def _doubled(a: Any) -> Any:
    wider = np.empty(2 * a.size, dtype=a.dtype)
    wider[: a.size] = a
    return wider


def _explain(code: int, text: parser.Bytes, at: int, limit: int) -> str:
    rest = text[at : at + 200].tobytes().split(b"\n")[0].split()
    found = rest[0][:40].decode("utf-8", "replace") if rest else ""
    expected = _EXPECTED[code] + (f" {limit}" if code == parser.BEYOND else "")
    return f"{expected}, found {found!r}" if found else f"{expected}, found the end of the line"


def _chunks(file: Any) -> Iterator[parser.Bytes]:
    """Yield the file in pieces of whole lines; a long line makes its piece longer."""
    rest = b""
    while more := file.read(_CHUNK):
        cut = more.rfind(b"\n") + 1
        if cut == 0:
            rest += more
            continue
        piece = bytearray(rest)
        piece += memoryview(more)[:cut]
        yield np.frombuffer(piece, dtype=np.uint8)
        rest = more[cut:]
    if rest:
        yield np.frombuffer(bytearray(rest + b"\n"), dtype=np.uint8)
