"""Reading files of one token per line, with blank lines between sentences, as CoNLL's shared tasks have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Ints, offsets_of
from spom.core.jit import kernel
from spom.data.columns import Columns, default_names, joined
from spom.data.dataset import Dataset
from spom.data.interning import BYTES, Bytes, Codes
from spom.data.opening import decoded, last_blank_line, opened, pieces, read_all
from spom.errors import DataError

_CHUNK = 1 << 22
_ANY_BLANK = -1


def read_conll(
    source: Any,
    names: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> Columns:
    """All sentences of a file of tokens in columns: one token per line, a blank line after each sentence.

    `source` is a path, `"-"` for standard input, or a binary file; gzip and zstd are known by their first bytes.
    Columns are separated by spaces or tabs, or by each `separator` where one is given ("\\t" lets fields contain spaces
    and be empty). Lines that begin with `comments` (such as "#") are skipped. Line ends may be those of any system,
    the last one may be missing, and -DOCSTART- lines are sentences like any other. Every line must have as many
    columns as the first: another number is a `DataError` with the file and the line.

    >>> import io
    >>> text = "the DT B-NP" + chr(10) + "cat NN I-NP" + chr(10) + chr(10) + "sleeps VBZ B-VP"
    >>> columns = read_conll(io.BytesIO(text.encode()))
    >>> len(columns), columns[1], columns.strings(-1)
    (2, [('sleeps', 'VBZ', 'B-VP')], [['B-NP', 'I-NP'], ['B-VP']])
    """
    name, content = read_all(source)
    columns = _parsed(content, name, 0, names, separator, comments, encoding)
    if columns is None:
        raise DataError("expected lines of tokens, found none", name)
    return columns


def read_conll_blocks(
    source: Any,
    names: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    comments: str | None = None,
    encoding: str = "utf-8",
    block_bytes: int = _CHUNK,
) -> Iterator[Columns]:
    """The same file as a stream of `Columns` of whole sentences, about `block_bytes` each, in memory that stays flat.

    A file without tokens gives no block. A block is given as soon as it is whole, so that a pipe can be followed.
    """
    line = 0
    with opened(source) as (name, file):
        for piece in pieces(getattr(file, "read1", file.read), block_bytes, last_blank_line):
            columns = _parsed(piece, name, line, names, separator, comments, encoding)
            if columns is not None:
                names = columns.names
                yield columns
            line += piece.count(b"\n")


def _parsed(
    content: bytes,
    name: str,
    before: int,
    names: Sequence[str] | None,
    separator: str | None,
    comments: str | None,
    encoding: str,
) -> Columns | None:
    """`content` as columns, None where it has no tokens; `before` lines came before it."""
    content = _as_utf8(content, name, before, encoding)
    buffer = np.frombuffer(content, dtype=np.uint8)
    byte = _ANY_BLANK if separator is None else _one_byte(separator, "separator")
    comment = -1 if comments is None else _one_byte(comments, "comments")
    skip = 3 if before == 0 and content[:3] == b"\xef\xbb\xbf" else 0
    lines = content.count(b"\n") + 1
    width = _width(buffer, skip, byte, comment)
    if width == 0:
        return None
    if names is not None and len(names) != width:
        line = before + 1 + content.count(b"\n", 0, _first_token(buffer, skip, byte, comment))
        raise DataError(f"expected {len(names)} columns ({', '.join(names)}), found {width}", name, line)
    start, length = np.empty((lines, width), dtype=np.int64), np.empty((lines, width), dtype=np.int32)
    at, offsets = np.empty(lines, dtype=np.int64), np.empty(lines + 1, dtype=np.int64)
    tokens, sentences, found = parse_tokens(buffer, skip, byte, comment, start, length, at, offsets)
    if found != width:
        raise DataError(f"expected {width} columns, found {found}", name, before + int(at[tokens]))
    kept = tuple(names) if names is not None else default_names(width)
    at[:tokens] += before
    return Columns(buffer, start[:tokens], length[:tokens], offsets[: sentences + 1].copy(), kept, at[:tokens], name)


def _as_utf8(content: bytes, name: str, before: int, encoding: str) -> bytes:
    if content.isascii():
        return content
    text = decoded(content, name, before, encoding, "; give the encoding of the file with --encoding")
    return content if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else text.encode()


def _one_byte(text: str, name: str) -> int:
    if len(text.encode()) != 1:
        raise ValueError(f"{name} must be one ASCII character; it is {text!r}")
    return ord(text)


def _width(buffer: Bytes, skip: int, separator: int, comment: int) -> int:
    """How many columns the first line of tokens has; 0 where there is none."""
    at = _first_token(buffer, skip, separator, comment)
    if at < 0:
        return 0
    line = bytes(buffer[at : at + (1 << 16)]).split(b"\n", 1)[0].removesuffix(b"\r")
    return len(line.split(bytes([separator]))) if separator >= 0 else len(line.replace(b"\t", b" ").split())


def _first_token(buffer: Bytes, skip: int, separator: int, comment: int) -> int:
    """Where the first line starts that has a token; -1 where there is none."""
    at, content = skip, buffer.tobytes()
    while at < len(content):
        end = content.find(b"\n", at)
        end = len(content) if end < 0 else end
        if content[at:end].strip(b" \t\r") and content[at] != comment:
            return at
        at = end + 1
    return -1


@kernel(
    f"UniTuple(int64, 3)({BYTES}, int64, int64, int64, int64[:, ::1], int32[:, ::1], int64[::1], int64[::1])",
)
def parse_tokens(
    text: Bytes, i: int, separator: int, comment: int, start: Ints, length: Codes, lines: Ints, offsets: Ints
) -> tuple[int, int, int]:
    """(tokens, sentences, columns) of the text from byte `i` on; other columns than expected stop it at that token."""
    n, sentences, width, end = 0, 0, start.shape[1], text.size
    line, offsets[0] = 0, 0
    while i < end:
        line += 1
        lines[min(n, lines.size - 1)] = line
        if text[i] == comment:
            while i < end and text[i] != 10:
                i += 1
            i += 1
            continue
        found, begin, any_token = 0, i, False
        while True:
            if separator < 0:
                while i < end and (text[i] == 32 or text[i] == 9):
                    i += 1
            begin = i
            while i < end and text[i] != 10:
                byte = text[i]
                if byte == separator or (separator < 0 and (byte == 32 or byte == 9)):
                    break
                i += 1
            stop = i
            if stop > begin and text[stop - 1] == 13 and (i == end or text[i] == 10):
                stop -= 1
            if stop > begin or separator >= 0:
                if found < width:
                    start[n, found], length[n, found] = begin, stop - begin
                found += 1
                any_token |= stop > begin
            if i >= end or text[i] == 10:
                break
            i += 1
        i += 1
        if not any_token:
            if n > offsets[sentences]:
                sentences += 1
                offsets[sentences] = n
            continue
        if found != width:
            return n, sentences, found
        n += 1
    if n > offsets[sentences]:
        sentences += 1
        offsets[sentences] = n
    return n, sentences, width


def load_conll2000(folder: Path) -> Dataset:
    """Chunking: X has columns of words and tags, y the lists of labels (B-NP, I-NP, O, ...) of the sentences."""
    parts = [read_conll(folder / name, ("w", "pos", "label")) for name in ("train.txt.gz", "test.txt.gz")]
    both = joined(parts, "conll2000")
    labels = np.empty(len(both), dtype=object)
    labels[:] = both.strings("label")
    return Dataset(
        "conll2000",
        X=both.select(["w", "pos"]),
        y=labels,
        train=np.arange(len(parts[0])),
        test=np.arange(len(parts[0]), len(both)),
        classes=np.array(sorted(both.distinct("label")[1]), dtype=object),
    )


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
    first = offsets_of(sizes)
    begin, end = np.ascontiguousarray(begin, dtype=np.int64), np.ascontiguousarray(end, dtype=np.int64)
    length = text.size + int(sizes[codes].sum()) - int((end - begin).sum())
    out = np.empty(length, dtype=np.uint8)
    blob = np.frombuffer(b"".join(fields), dtype=np.uint8)
    put_fields(text, begin, end, np.ascontiguousarray(codes, dtype=np.int64), blob, first, out)
    return out.tobytes()
