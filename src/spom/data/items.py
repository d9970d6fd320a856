"""CRFsuite's item files: a label and named features per line, separated by tabs, a blank line after each sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spom.data.opening import opened, text_lines
from spom.errors import DataError

Token = list[str] | dict[str, float]


@dataclass(frozen=True)
class Items:
    """Sequences: `X` has a list of tokens per sequence, `y` their labels, `text` the lines that they were read from.

    A token is the list of its features, or if one of them has a weight a dict from feature to weight.
    """

    X: list[list[Token]]
    y: list[list[str]]
    text: list[list[str]]
    source: str

    def add(self, X: list[Token], y: list[str], text: list[str]) -> None:
        """Append a sequence."""
        self.X.append(X)
        self.y.append(y)
        self.text.append(text)


def read_items(source: Any) -> Items:
    """Read an item file: `label TAB feature[:weight] TAB ...`, plain or compressed, `-` for standard input.

    In names, a colon is written as a backslash and a colon, and a backslash as two backslashes.

    >>> import io
    >>> text = "B\\tw=the\\tcap:0.5\\nI\\tw=cat\\n\\n"
    >>> items = read_items(io.BytesIO(text.encode()))
    >>> items.X, items.y
    ([[{'w=the': 1.0, 'cap': 0.5}, ['w=cat']]], [['B', 'I']])
    """
    blocks = list(iter_items(source, 1 << 62))
    if not blocks:
        raise DataError("expected lines of a label and features, found none", str(source))
    return blocks[0]


def iter_items(source: Any, tokens: int = 1 << 15) -> Iterator[Items]:
    """Yield the sequences in blocks of whole sequences, with about `tokens` tokens each."""
    with opened(source) as (name, file):
        found, count = Items([], [], [], name), 0
        X: list[Token] = []
        y: list[str] = []
        text: list[str] = []
        for number, ended in enumerate(text_lines(file, name), 1):
            line = ended.rstrip("\r\n")
            if not line.strip():
                if X:
                    found.add(X, y, text)
                    count += len(X)
                    X, y, text = [], [], []
                if count >= tokens:
                    yield found
                    found, count = Items([], [], [], name), 0
                continue
            label, *features = line.split("\t")
            if not label:
                raise DataError("expected a label before the first tab, found none", name, number)
            X.append(_token(features, name, number))
            y.append(label)
            text.append(line)
        if X:
            found.add(X, y, text)
        if found.X:
            yield found


def _token(features: list[str], name: str, number: int) -> Token:
    if not any(":" in feature or "\\" in feature for feature in features):
        return [feature for feature in features if feature]
    pairs = [_feature(feature, name, number) for feature in features if feature]
    if all(weight is None for _, weight in pairs):
        return [text for text, _ in pairs]
    return {text: 1.0 if weight is None else weight for text, weight in pairs}


def _feature(feature: str, name: str, number: int) -> tuple[str, float | None]:
    """Return (the name of a feature without escapes, its weight or None)."""
    at, text = 0, []
    while at < len(feature):
        if feature[at] == "\\" and at + 1 < len(feature):
            text.append(feature[at + 1])
            at += 2
        elif feature[at] == ":":
            try:
                return "".join(text), float(feature[at + 1 :])
            except ValueError:
                what = f"expected feature:weight, found {feature!r}; a colon in a name is written \\:"
                raise DataError(what, name, number) from None
        else:
            text.append(feature[at])
            at += 1
    return "".join(text), None
