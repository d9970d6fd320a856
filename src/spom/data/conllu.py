"""Reading and writing CoNLL-U: whole files, or block by block in constant memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.atomic import replacing, write_all
from spom.data import conllu_parser as parser
from spom.data.columns import Columns, joined, spliced
from spom.data.opening import decoded, last_blank_line, opened, pieces, read_all
from spom.data.treebank import NAMES, Treebank
from spom.errors import DataError

_CHUNK = 1 << 22


def read_conllu(source: Any) -> Treebank:
    """Read a CoNLL-U file, given as a path, `-` for standard input, or a binary file; gzip and zstd are decompressed.

    Following the standard, words are the lines with a whole number as their id. Multiword tokens (`1-2`), empty nodes
    (`8.1`) and comments are not words of the tree; they are kept and written again by `write_conllu`. HEAD may be `_`.
    A line that cannot be read raises a `DataError` with file and line.

    >>> import io
    >>> text = "# text = Dogs bark|1|Dogs|dog|NOUN|_|_|2|nsubj|_|_|2|bark|bark|VERB|_|_|0|root|_|_|"
    >>> fields = text.split("|")
    >>> lines = [fields[0], chr(9).join(fields[1:11]), chr(9).join(fields[11:21]), "", ""]
    >>> bank = read_conllu(io.BytesIO(chr(10).join(lines).encode()))
    >>> bank.heads, bank.columns.strings("form")
    (array([2, 0]), [['Dogs', 'bark']])
    """
    name, content = read_all(source)
    return parse_conllu(content, name)


def parse_conllu(content: bytes, name: str = "", first_line: int = 1) -> Treebank:
    """Parse the bytes of a CoNLL-U file, whose first line has the number `first_line`."""
    if not content.isascii():
        decoded(content, name, first_line - 1, hint=", which CoNLL-U files must be")
    text = np.frombuffer(content, dtype=np.uint8)
    lines = content.count(b"\n") + 2
    start, length = np.empty((lines, parser.WIDTH), dtype=np.int64), np.empty((lines, parser.WIDTH), dtype=np.int32)
    numbers, heads = np.empty(lines, dtype=np.int64), np.empty(lines, dtype=np.int64)
    offsets, spans = np.zeros(lines + 1, dtype=np.int64), np.empty((lines, 2), dtype=np.int64)
    # Two more line ends make sure that the last sentence ends.
    code, line, words, sentences = parser.find_words(
        np.frombuffer(content + b"\n\n", dtype=np.uint8), start, length, numbers, heads, offsets, spans
    )
    if code != parser.DONE:
        raise DataError(_explain(code, content, line, words), name or None, line + first_line - 1)
    spans = np.minimum(spans[:sentences], text.size)
    columns = Columns(
        text,
        start[:words],
        length[:words],
        offsets[: sentences + 1].copy(),
        NAMES,
        numbers[:words] + (first_line - 1),
        name,
    )
    return Treebank(columns, heads[:words].copy(), spans)


def _explain(code: int, content: bytes, line: int, number: int) -> str:
    fields = content.split(b"\n")[line - 1].decode("utf-8", "replace").rstrip("\r").split("\t")
    if code == parser.COLUMNS:
        return f"expected 10 columns, separated by tabs, found {number}"
    if code == parser.ID:
        return f"expected an id such as 3, 3-4 or 3.1, found {fields[0]!r}"
    if code == parser.ORDER:
        return f"expected the id {number}, found {fields[0]!r}: words are numbered from 1 in each sentence"
    if code == parser.HEAD_TEXT:
        return f"expected HEAD to be a whole number or _, found {fields[parser.HEAD]!r}"
    return f"HEAD is {fields[parser.HEAD]}, which is no word of this sentence"


def iter_conllu(source: Any, block_bytes: int = _CHUNK) -> Iterator[Treebank]:
    """Yield the sentences of a CoNLL-U file in blocks of about `block_bytes` of text, in constant memory."""
    if block_bytes < 1:
        raise ValueError(f"block_bytes must be >= 1; it is {block_bytes!r}")
    with opened(source) as (name, file):
        line = 1
        for piece in pieces(file.read, block_bytes, last_blank_line):
            found = parse_conllu(piece, name, line)
            line += piece.count(b"\n")
            if len(found):
                yield found


def conllu_text(bank: Treebank) -> bytes:
    """Return the sentences as CoNLL-U: the text that they were read from, with the treebank's heads and relations."""
    names = [name.encode() for name in bank.relation_names]
    ends = np.zeros(len(names) + 1, dtype=np.int64)
    ends[1:] = np.cumsum([len(name) for name in names], dtype=np.int64)
    columns = bank.columns
    arcs = parser.Arcs(np.ascontiguousarray(bank.heads), np.ascontiguousarray(bank.relations), ends)
    arguments = (
        *(columns.buffer, np.ascontiguousarray(bank.spans), np.ascontiguousarray(bank.offsets)),
        *(columns.start, columns.length, arcs, np.frombuffer(b"".join(names), dtype=np.uint8)),
    )
    out = np.empty(parser.put_trees(*arguments, np.empty(0, dtype=np.uint8)), dtype=np.uint8)
    parser.put_trees(*arguments, out)
    return out.tobytes()


def join_treebanks(banks: Iterable[Treebank], name: str = "") -> Treebank:
    """Join several treebanks. Parts of one text, such as predictions for its shards, continue to share it."""
    parts = list(banks)
    if parts and all(part.columns.buffer is parts[0].columns.buffer for part in parts):
        return _of_one_text(parts, name)
    return parse_conllu(b"".join(map(conllu_text, parts)), name)


def _of_one_text(parts: list[Treebank], name: str) -> Treebank:
    """Join several treebanks whose sentences are positions in the same text."""
    names: dict[str, int] = {}
    codes = []
    for part in parts:
        table = [names.setdefault(relation, len(names)) for relation in part.relation_names]
        codes.append(np.array(table, dtype=np.int32)[part.relations])
    heads, spans = (np.concatenate([getattr(part, what) for part in parts]) for what in ("heads", "spans"))
    columns = joined([part.columns for part in parts], name)
    return Treebank(columns, heads, spans, (np.concatenate(codes), tuple(names)))


def replace_columns(bank: Treebank, columns: dict[str, Any]) -> Treebank:
    """Return a treebank with other values in some columns: see `Treebank.with_columns`."""
    for name in columns:
        if name not in NAMES or name in ("id", "head", "deprel"):
            raise ValueError(f"there is no column {name!r} to replace; with_trees changes heads and relations")
    if not columns:
        return bank
    whole = parse_conllu(conllu_text(bank), bank.columns.source)
    at = sorted(NAMES.index(name) for name in columns)
    fields: list[bytes] = []
    codes = np.empty((bank.n_words, len(at)), dtype=np.int64)
    for j, k in enumerate(at):
        found, names = _coded(columns[NAMES[k]], bank, NAMES[k])
        codes[:, j] = found + len(fields)
        fields += [text.encode() for text in names]
    begin = whole.columns.start[:, at]
    end = begin + whole.columns.length[:, at]
    content = spliced(whole.columns.buffer, begin.reshape(-1), end.reshape(-1), codes.reshape(-1), fields)
    return parse_conllu(content, bank.columns.source)


def _coded(values: Any, bank: Treebank, name: str) -> tuple[Any, list[str]]:
    """Return (a code for each word, the strings) of a column in any form that `with_columns` takes, checked."""
    if isinstance(values, tuple) and len(values) == 2 and isinstance(values[0], np.ndarray):
        codes, names = np.asarray(values[0]), [str(text) for text in values[1]]
    else:
        flat = list(values)
        if flat and not isinstance(flat[0], str):
            flat = [text for sentence in flat for text in sentence]
        seen: dict[str, int] = {}
        codes = np.array([seen.setdefault(text, len(seen)) for text in flat], dtype=np.int64)
        names = list(seen)
    if codes.shape != (bank.n_words,):
        raise DataError(f"column {name!r} has {codes.size} values for {bank.n_words} words: there must be one for each")
    bad = next((text for text in names if not text or "\t" in text or "\n" in text), None)
    if bad is not None:
        raise DataError(f"column {name!r}: {bad!r} is empty or has a tab or a line end in it")
    return codes, names


def write_conllu(banks: Treebank | Iterable[Treebank], target: Any) -> None:
    """Write a treebank, or several one after another, to a path, `-` (standard output) or a binary file.

    Comments, multiword tokens, empty nodes and all columns except HEAD and DEPREL are those of the input. A file is
    written under a temporary name and moved into place, so a crash leaves the old file as it was.
    """
    parts = (conllu_text(bank) for bank in ([banks] if isinstance(banks, Treebank) else banks))
    if isinstance(target, str) and target == "-":
        target = sys.stdout.buffer
    if not isinstance(target, (str, Path)):
        for part in parts:
            write_all(target, part)
        return
    with replacing(target) as file:
        for part in parts:
            file.write(part)
