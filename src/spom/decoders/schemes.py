"""Which label may follow which, for phrases encoded as labels of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Constraints(NamedTuple):
    """What is allowed: transition[a, b] (b after a), begin[a] and end[a]."""

    transition: Mask
    begin: Mask
    end: Mask


# The letters of each scheme, and their meaning in BIOES.
_LETTERS = {
    "IOB1": {"I": "I", "B": "B"},
    "BIO": {"B": "B", "I": "I"},
    "BIOES": {"B": "B", "I": "I", "E": "E", "S": "S"},
    "BILOU": {"B": "B", "I": "I", "L": "E", "U": "S"},
}


def tag_constraints(labels: Sequence[str], scheme: str = "BIO") -> Constraints:
    """Return the transitions that a tagging scheme allows between labels such as "O", "B-NP" and "I-NP".

    BIO (IOB2): a phrase begins with B and continues with I. IOB1: a phrase consists of I; it begins with B only
    directly after another phrase of its type. BIOES, BILOU: a phrase is B I* E, or a single S (B I* L, or U).

    >>> allowed = tag_constraints(["O", "B-NP", "I-NP"])
    >>> allowed.transition.astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [1, 1, 1]])
    >>> allowed.begin
    array([ True,  True, False])
    """
    if scheme not in _LETTERS:
        raise ValueError(f"scheme must be one of {', '.join(_LETTERS)}; it is {scheme!r}")
    if len(set(labels)) != len(labels):
        raise ValueError("labels must differ from each other")
    tags = [_split(label, scheme) for label in labels]
    outside = ("O", "")
    follows = _follows_iob1 if scheme == "IOB1" else _follows
    # The borders of a sentence count as a token outside all phrases.
    transition = np.array([[follows(a, b, scheme) for b in tags] for a in tags], dtype=bool)
    begin = np.array([follows(outside, b, scheme) for b in tags], dtype=bool)
    end = np.array([follows(a, outside, scheme) for a in tags], dtype=bool)
    return Constraints(transition.reshape(len(tags), len(tags)), begin, end)


def _split(label: str, scheme: str) -> tuple[str, str]:
    """Return (letter in BIOES, type of the phrase)."""
    if label == "O":
        return "O", ""
    letter, dash, kind = label.partition("-")
    if letter not in _LETTERS[scheme] or (dash and not kind):
        letters = ", ".join(_LETTERS[scheme])
        raise ValueError(f"label {label!r} is not of scheme {scheme}: O, or one of {letters} and -TYPE")
    return _LETTERS[scheme][letter], kind


def _follows_iob1(a: tuple[str, str], b: tuple[str, str], scheme: str) -> bool:
    return b[0] != "B" or (a[0] != "O" and a[1] == b[1])


def _follows(a: tuple[str, str], b: tuple[str, str], scheme: str) -> bool:
    inside = b[0] in ("I", "E")
    if inside:
        return a[0] in ("B", "I") and a[1] == b[1]
    # In BIO a phrase may stop after any token; with E and S it must be closed.
    return scheme == "BIO" or a[0] not in ("B", "I")
