"""What a template is: a named conjunction of fields of tokens at offsets, written as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from spom.errors import DataError

_ATOM = re.compile(r"(?P<column>[^\[\]|.:\s]+)(?P<steps>(\.[a-z]+\d*)*)\[(?P<offset>[+-]?\d+)\]")


@dataclass(frozen=True)
class Stream:
    """A column of tokens, or what is derived from it by one step after another: `w`, `w.lower`, `w.lower.suffix3`."""

    column: int | str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((str(self.column), *self.steps))


@dataclass(frozen=True)
class Template:
    """A conjunction of (stream, offset): one feature for each combination of values that occurs.

    Templates of the same name over the same streams at other offsets share their features, as a bag of words does.

    >>> Template.parse("w[-1]|pos.lower[0]")
    Template(w[-1]|pos.lower[0])
    >>> Template.parse("near: w[-2]").name
    'near'
    """

    name: str
    atoms: tuple[tuple[Stream, int], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template of `[name:] column[.step...][offset] | ...`; without a name its text is its name."""
        name, colon, rest = text.partition(":")
        body = (rest if colon else text).strip()
        # A name alone is a template without atoms: one feature that every token has.
        atoms = tuple(_atom(part.strip(), text) for part in body.split("|")) if body or not colon else ()
        return cls(name.strip() if colon else written(atoms), atoms)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams in the order of the atoms."""
        return tuple(stream for stream, _ in self.atoms)

    @property
    def text(self) -> str:
        """What `parse` reads."""
        body = written(self.atoms)
        return body if body == self.name else f"{self.name}: {body}"

    def __repr__(self) -> str:
        return f"Template({self.text})"


def written(atoms: Iterable[tuple[Stream, int]]) -> str:
    """The atoms as text."""
    return "|".join(f"{stream}[{offset}]" for stream, offset in atoms)


def _atom(part: str, text: str) -> tuple[Stream, int]:
    found = _ATOM.fullmatch(part)
    if found is None:
        raise DataError(f"template {text!r}: expected column[offset] such as w[-1] or w.lower[0], found {part!r}")
    column = found["column"]
    steps = tuple(found["steps"].split(".")[1:])
    return Stream(int(column) if column.isdigit() else column, steps), int(found["offset"])


def grouped(templates: Iterable[Template]) -> dict[str, list[Template]]:
    """Templates by block: those of the same name over the same streams share one, others of that name get their own."""
    blocks: dict[str, list[Template]] = {}
    for template in templates:
        name, number = template.name, 1
        while name in blocks and blocks[name][0].streams != template.streams:
            number += 1
            name = f"{template.name}~{number}"
        if any(known.atoms == template.atoms for known in blocks.get(name, ())):
            raise DataError(f"template {template.text!r} is given twice")
        blocks.setdefault(name, []).append(Template(name, template.atoms))
    return blocks
