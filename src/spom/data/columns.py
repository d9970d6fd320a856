"""Tokens in columns, from files with one token per line and blank lines between sentences.

Tokens are stored as positions in the bytes of the file: Python strings are created only on request.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, offsets_of
from spom.core.jit import kernel
from spom.data.interning import BYTES, Bytes, Codes, distinct
from spom.data.opening import decoded, last_blank_line, opened, pieces, read_all
from spom.errors import DataError

_CHUNK = 1 << 22
_ANY_BLANK = -1
# Common names of the columns of words and of tags, in the order of the search.
SYNONYMS = {
    "w": (("w", "word", "form", "token", "text"), 0),
    "pos": (("pos", "upos", "tag", "xpos"), 1),
}


def default_names(count: int) -> tuple[str, ...]:
    """Return the default names of columns: w, pos, c2, c3, ..."""
    return ("w", "pos", *(f"c{k}" for k in range(2, count)))[:count]


@dataclass(frozen=True)
class Columns:
    """Sentences of tokens with c fields each: field k of token t is buffer[start[t, k] : start[t, k] + length[t, k]].

    Sentence i has the tokens offsets[i] to offsets[i + 1] - 1. `lines` has the line of each token in `source`, from 1.
    An integer index returns a sentence as a list of tuples of strings, a slice or an array of indices `Columns`.

    >>> columns = Columns.from_lists([[("The", "DT"), ("cat", "NN")], [("Yes", "UH")]])
    >>> columns
    Columns(2 sentences, 3 tokens, columns w, pos)
    >>> columns[0]
    [('The', 'DT'), ('cat', 'NN')]
    >>> columns[1:].strings("pos")
    [['UH']]
    """

    buffer: Bytes
    start: Ints
    length: Codes
    offsets: Ints
    names: tuple[str, ...]
    lines: Ints
    source: str = ""

    @classmethod
    def from_lists(
        cls, sentences: Iterable[Iterable[str | Sequence[str]]], names: Sequence[str] | None = None, source: str = ""
    ) -> Columns:
        """Create columns from sentences, which are lists of tokens; a token is a string, or one string per column."""
        flat: list[str] = []
        sizes: list[int] = []
        width = None if names is None else len(names)
        for i, sentence in enumerate(sentences):
            if isinstance(sentence, str):
                raise DataError(f"sentence {i} is a string; expected a list of tokens", source or None)
            size = 0
            for token in sentence:
                fields = (token,) if isinstance(token, str) else token
                if width is None:
                    width = len(fields)
                if len(fields) != width:
                    raise DataError(f"sentence {i}, token {size}: expected {width} columns, found {len(fields)}")
                flat.extend(fields)
                size += 1
            sizes.append(size)
        width = 1 if width is None else width
        n = sum(sizes)
        buffer, start, length = packed_strings(flat)
        return cls(
            buffer,
            start.reshape(n, width),
            length.reshape(n, width),
            offsets_of(sizes),
            default_names(width) if names is None else tuple(names),
            np.arange(1, n + 1),
            source,
        )

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sentences."""
        return int(self.start.shape[0])

    @property
    def n_columns(self) -> int:
        """The number of fields of each token."""
        return int(self.start.shape[1])

    def column(self, which: int | str) -> int:
        """Return the index of a column given by its index (negative ones count from the end), or by its name.

        `"w"` and `"pos"` also match the usual names of words and tags (form, upos, ...), else the first two columns.
        """
        if isinstance(which, str):
            if which in self.names:
                return self.names.index(which)
            known, position = SYNONYMS.get(which, ((), -1))
            lower = [name.lower() for name in self.names]
            for name in known:
                if name in lower:
                    return lower.index(name)
            if 0 <= position < self.n_columns:
                return position
        elif -self.n_columns <= which < self.n_columns:
            return int(which) % self.n_columns
        raise DataError(
            f"there is no column {which!r}; there are {self.n_columns}: {', '.join(self.names)}", self.source or None
        )

    def select(self, columns: Sequence[int | str]) -> Columns:
        """Return the same sentences with some of the columns."""
        index = [self.column(which) for which in columns]
        names = tuple(self.names[k] for k in index)
        start, length = self.start[:, index], self.length[:, index]
        return Columns(self.buffer, start, length, self.offsets, names, self.lines, self.source)

    def distinct(self, which: int | str) -> tuple[Codes, NDArray[np.object_]]:
        """Return (the code of each token, the string of each code) of a column; codes number strings as they occur."""
        k = self.column(which)
        codes, first = distinct(self.buffer, self.start, self.length, k)
        raw = self.buffer.data
        strings = np.empty(first.size, dtype=object)
        for c, t in enumerate(first.tolist()):
            at = self.start[t, k]
            strings[c] = str(raw[at : at + self.length[t, k]], "utf-8")
        return codes, strings

    def strings(self, which: int | str) -> list[list[str]]:
        """Return a column as a list of lists of strings, one list per sentence."""
        codes, strings = self.distinct(which)
        flat: list[str] = strings[codes].tolist()
        bounds = self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(bounds)]

    def __len__(self) -> int:
        return self.offsets.size - 1

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, ...]]: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any] | list[int]) -> Columns: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"there are {len(self)} sentences, no {index}")
            return self._sentence(int(index) % len(self))
        if isinstance(index, slice):
            if index.step in (None, 1):
                first, last, _ = index.indices(len(self))
                return self._range(first, max(first, last))
            index = np.arange(len(self))[index]
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        index = np.where(index < 0, index + len(self), index).astype(np.int64)
        if index.size and np.array_equal(index, np.arange(index[0], index[0] + index.size)):
            return self._range(int(index[0]), int(index[0]) + index.size)
        tokens, offsets = gather(self.offsets, index)
        return Columns(
            self.buffer, self.start[tokens], self.length[tokens], offsets, self.names, self.lines[tokens], self.source
        )

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        return (self._sentence(i) for i in range(len(self)))

    def __repr__(self) -> str:
        where = f" of {self.source}" if self.source else ""
        return f"Columns({len(self)} sentences, {self.n_tokens} tokens, columns {', '.join(self.names)}{where})"

    def _sentence(self, i: int) -> list[tuple[str, ...]]:
        raw, rows = self.buffer.data, range(int(self.offsets[i]), int(self.offsets[i + 1]))
        spans = [zip(self.start[t].tolist(), self.length[t].tolist(), strict=True) for t in rows]
        return [tuple(str(raw[at : at + long], "utf-8") for at, long in token) for token in spans]

    def _range(self, first: int, last: int) -> Columns:
        if last > len(self):
            raise IndexError(f"there are {len(self)} sentences, no {last - 1}")
        a, b = int(self.offsets[first]), int(self.offsets[last])
        offsets = self.offsets[first : last + 1] - a
        return Columns(
            self.buffer, self.start[a:b], self.length[a:b], offsets, self.names, self.lines[a:b], self.source
        )


def gather(offsets: Ints, index: Ints) -> tuple[Ints, Ints]:
    """Return (the tokens of the sentences in `index`, in that order, and their new offsets)."""
    sizes = np.diff(offsets)[index]
    found = offsets_of(sizes)
    tokens = np.arange(found[-1]) + np.repeat(offsets[index] - found[:-1], sizes)
    return tokens, found


def joined(parts: Sequence[Columns], source: str = "") -> Columns:
    """Join the sentences of several `Columns` with the same columns; parts of one text continue to share it."""
    if len({part.names for part in parts}) != 1:
        raise DataError(f"expected parts with the same columns, found {[part.names for part in parts]}")
    one = all(part.buffer is parts[0].buffer for part in parts)
    bytes_before = np.cumsum([0, *(0 if one else part.buffer.size for part in parts)])
    tokens_before = np.cumsum([0, *(part.n_tokens for part in parts)])
    shifted = [part.offsets[1:] + before for part, before in zip(parts, tokens_before[:-1], strict=True)]
    return Columns(
        parts[0].buffer if one else np.concatenate([part.buffer for part in parts]),
        np.concatenate([part.start + before for part, before in zip(parts, bytes_before[:-1], strict=True)]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([np.zeros(1, dtype=np.int64), *shifted]),
        parts[0].names,
        np.concatenate([part.lines for part in parts]),
        source,
    )


def packed_strings(flat: list[str]) -> tuple[Bytes, Ints, Codes]:
    """Return (the concatenated strings as UTF-8, the start of each, the length of each in bytes)."""
    try:
        blob = "".join(flat).encode()
        length = np.fromiter(map(len, flat), dtype=np.int32, count=len(flat))
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(f"expected tokens as strings ({error})") from None
    buffer, ends = np.frombuffer(blob, dtype=np.uint8), np.cumsum(length, dtype=np.int64)
    if ends.size and ends[-1] != buffer.size:
        # Some characters have several bytes: find the ends of strings from the first byte of each character.
        begins = np.append(np.flatnonzero((buffer & 0xC0) != 0x80), buffer.size)
        ends = begins[ends]
        length = np.diff(ends, prepend=0).astype(np.int32)
    return buffer, ends - length, length


# --- files of tokens in columns ----------------------------------------------------------------------


def read_conll(
    source: Any,
    names: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> Columns:
    """Read all sentences of a file of tokens in columns: one token per line, a blank line after each sentence.

    `source` is a path, `"-"` for standard input, or a binary file; gzip and zstd are detected by their first bytes.
    Columns are separated by spaces or tabs, or by each `separator` if one is given ("\\t" allows fields to contain
    spaces and to be empty). Lines that begin with `comments` (such as "#") are skipped. Line ends may be those of any
    system, the last one may be missing, and -DOCSTART- lines are sentences like any other. Every line must have as many
    columns as the first: another number raises a `DataError` with the file and the line.

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
    """Read the same file as a stream of `Columns` of whole sentences, about `block_bytes` each, in constant memory.

    A file without tokens yields no block. A block is yielded as soon as it is complete, so a pipe can be followed.
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
    """Parse `content` into columns, or return None if it has no tokens; `before` is the number of lines before it."""
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
    """Return how many columns the first line of tokens has, or 0 if there is none."""
    at = _first_token(buffer, skip, separator, comment)
    if at < 0:
        return 0
    line = bytes(buffer[at : at + (1 << 16)]).split(b"\n", 1)[0].removesuffix(b"\r")
    return len(line.split(bytes([separator]))) if separator >= 0 else len(line.replace(b"\t", b" ").split())


def _first_token(buffer: Bytes, skip: int, separator: int, comment: int) -> int:
    """Return where the first line with a token starts, or -1 if there is none."""
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
    """Return the numbers of tokens, sentences and columns from byte `i` on; stop at a token with other columns."""
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


@kernel(f"void({BYTES}, int64[::1], int64[::1], int64[::1], {BYTES}, int64[::1], uint8[::1])")
def put_fields(text: Bytes, begin: Ints, end: Ints, codes: Ints, fields: Bytes, first: Ints, out: Bytes) -> None:
    """Copy the text, replacing bytes begin[t] to end[t] - 1 by fields[first[c] : first[c + 1]] with c = codes[t]."""
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
    """Return the text with bytes begin[t] to end[t] - 1 of each token t, in order, replaced by fields[codes[t]].

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
