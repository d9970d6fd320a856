"""Formats of files: which there are for each kind of data, and which one a file's name says."""

from __future__ import annotations

from collections.abc import Mapping

from spom.errors import Unsupported

Formats = Mapping[str, tuple[str, ...]]
# The endings of names by format; a file with another name is of the first format.
SENTENCES: Formats = {"conll": (), "conllu": (".conllu",), "items": (".items", ".crfsuite")}
TREES: Formats = {"conllu": ()}
TEXTS: Formats = {"text": (), "words": (), "conllu": (".conllu",)}
VECTORS: Formats = {"svmlight": (), "csv": (".csv", ".tsv"), "parquet": (".parquet", ".pq")}
# What other tools call a format.
ALIASES = {"crfsuite": "items", "crf++": "conll", "crfpp": "conll", "columns": "conll"}


def format_of(path: str, given: str | None, formats: Formats) -> str:
    """The format that was asked for, or the one that the file's name says.

    >>> format_of("train.conllu.gz", None, SENTENCES), format_of("train.txt", "crfsuite", SENTENCES)
    ('conllu', 'items')
    """
    if given is None:
        name = path.lower().removesuffix(".gz").removesuffix(".zst")
        return next((found for found, ends in formats.items() if name.endswith(ends)), next(iter(formats)))
    found = ALIASES.get(given, given)
    if found not in formats:
        known = [*formats, *(alias for alias, name in ALIASES.items() if name in formats)]
        raise Unsupported(f"there is no format {given!r} here; the formats are: {', '.join(known)}")
    return found
