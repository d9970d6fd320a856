"""Errors of spom; the message says what is wrong, where, and what to do."""

from __future__ import annotations


class SpomError(Exception):
    """The base of all errors of spom."""


class DataError(SpomError, ValueError):
    """Data that cannot be read: `source` is a file, `line` counts from 1, and `what` says what is wrong there.

    >>> str(DataError("expected 3 columns, found 2", source="train.txt", line=17))
    'train.txt, line 17: expected 3 columns, found 2'
    """

    def __init__(self, what: str, source: str | None = None, line: int | None = None) -> None:
        self.what, self.source, self.line = what, source, line
        where = ", ".join([*([source] if source else []), *([f"line {line}"] if line is not None else [])])
        super().__init__(f"{where}: {what}" if where else what)


class ModelFileError(SpomError, ValueError):
    """A model file that is truncated, altered, of a newer format, or no model file at all."""


class Diverged(SpomError, FloatingPointError):
    """A run whose numbers are no longer finite; the message says what to change."""


class Unsupported(SpomError, ValueError):
    """A combination that has no known method; the message names the ones that do."""
