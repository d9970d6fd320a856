"""Tokens that look alike in most treebanks, such as addresses, emoticons and brackets before words."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints

_LETTER: Final = r"[^\W\d_]"
_QUOTE: Final = r"[\"\u201c\u201d\u201e\u00ab\u00bb]|''"
# Each match is a token, or the group in it: a bracket that closes what was opened before a blank. Every pattern takes
# linear time: its repetitions have a limit, or a match cannot begin inside another one. The last one, `J.` in
# `J. Smith`, is split by some treebanks.
PATTERNS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:https?://|ftp://|www\.)[!-~]*[a-zA-Z0-9/]",
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.\w{1,64})+",
        r"(?<![^\s.,!?\u2026])(?:[:;]['o^-]?[()\[\]DPp/\\|*]++|=[()D]++)(?!\w)",
        r"(?<!\.)\.\.\.(?!\.)",
        r"(?<![.*=~_-])(?:\*\*+|==+|~~+|__+|--+)(?![*=~_-])",
        rf"(?<![\w.])(?:{_LETTER}\.){{2,}}(?!\w)",
        rf"(?<!\S)[(\[{{](?={_LETTER}{{2}}|\d{{3}}|{_QUOTE})",
        rf"[)\]}}](?:(?<={_LETTER}{{2}}.)|(?<=\d{{3}}.)|(?<={_LETTER}[.!?].))(?!\w)",
        r"(?<!\S)\((?=[^()\s]+\s[^()\n]{0,200}\))",
        r"\((?=[^()\s]*\s)[^()\n]{1,200}(\))(?!\w)",
        rf"(?<![^\s(])(?:{_QUOTE}|``|[\u00bf\u00a1])(?=\w)",
        rf"(?<=[\w.,!?\u2026])(?:{_QUOTE})(?!\w)",
        r"[,;\u060c\u061b](?<=\w.)(?!\S)",
        rf"(?:[?\u061f](?<=\w.)|[!\u0964](?<={_LETTER}{{2}}.))(?!\S)",
        r"\.(?<=\d{4}.)(?!\S)",
        rf"(?<!\S){_LETTER}\.(?= \S)",
    )
)
# A pattern is used if at most one in 40 of its matches in the training text is anything but a token, so also if there
# is no match: what was never seen is then cut as elsewhere. `J.` has to be seen twice. From `OFTEN` matches on, the
# learner knows better: it learns that `Yahoo!` is a token.
_WRONG, OFTEN = 40, 1000


def agreeing(text: str, begin: Ints, end: Ints) -> Ints:
    """Return the numbers of the patterns to be used after training on the tokens of a text."""
    ends = dict(zip(begin.tolist(), end.tolist(), strict=True))
    found = []
    for k, pattern in enumerate(PATTERNS):
        spans = (match.span(match.lastindex or 0) for match in islice(pattern.finditer(text), OFTEN))
        hits = [ends.get(a) == b for a, b in spans]
        wrong, least = hits.count(False), 2 if k + 1 == len(PATTERNS) else 0
        if least <= len(hits) < OFTEN and (_WRONG + 1) * wrong <= len(hits):
            found.append(k)
    return np.array(found, dtype=np.int64)


def impose(text: str, patterns: Ints, labels: NDArray[np.int8]) -> None:
    """Change the labels of characters so that matches are tokens; of two that overlap, that of the earlier pattern."""
    for k in patterns.tolist()[::-1]:
        for match in PATTERNS[k].finditer(text):
            first, end = match.span(match.lastindex or 0)
            last = end - 1
            labels[first:last] = 0
            labels[last] = max(int(labels[last]), 1)
            # A token before it may have continued over a blank.
            before = first - 1
            while before >= 0 and labels[before] == 0 and text[before].isspace():
                labels[before], before = 3, before - 1
            if before >= 0 and labels[before] == 0:
                labels[before] = 1
