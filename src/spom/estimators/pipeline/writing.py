"""Words with tags and lemmas as CoNLL-U, with the text of each sentence and the place of each token in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from spom.core.arrays import Ints
from spom.estimators.pipeline.segmenter import Segments

_BLANKS = re.compile(r"\s+")
_ESCAPES = {" ": "\\s", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


@dataclass
class Place:
    """How far a text has been read: characters, and sentences written."""

    characters: int = 0
    sentences: int = 0


@dataclass(frozen=True)
class Words:
    """Tokens of a text and their words: token t has the words first[t] to first[t + 1] - 1; sentences by tokens."""

    text: str
    segments: Segments
    tokens: list[str]
    forms: list[str]
    first: list[int]

    @property
    def offsets(self) -> Ints:
        """Sentence s has the words offsets[s] to offsets[s + 1] - 1."""
        import numpy as np

        return np.array(self.first, dtype=np.int64)[self.segments.offsets]


def conllu_of(words: Words, tags: list[str], lemmas: list[str], place: Place) -> str:
    """The words as CoNLL-U without trees; `tags` are UPOS, XPOS and features of each word with tabs between them."""
    lines: list[str] = []
    text, begins, ends = words.text, words.segments.begin.tolist(), words.segments.end.tolist()
    begins.append(len(text))
    base, first = place.characters, words.first
    forms, tokens = words.forms, words.tokens
    for a, b in pairwise(words.segments.offsets.tolist()):
        place.sentences += 1
        if a > 0 and text.count("\n", ends[a - 1], begins[a]) > 1:
            lines.append("# newpar")
        lines.append(f"# sent_id = {place.sentences}")
        lines.append("# text = " + _BLANKS.sub(" ", text[begins[a] : ends[b - 1]]))
        number = 0
        for t in range(a, b):
            end = ends[t]
            misc = f"TokenRange={base + begins[t]}:{base + end}"
            after = text[end : begins[t + 1]]
            if after != " ":
                misc = _spaces(after, t + 1 == len(tokens)) + misc
            u, v = first[t], first[t + 1]
            if v - u > 1:
                lines.append(f"{number + 1}-{number + v - u}\t{tokens[t]}\t_\t_\t_\t_\t_\t_\t_\t{misc}")
                misc = "_"
            for w in range(u, v):
                number += 1
                lines.append(f"{number}\t{forms[w]}\t{lemmas[w]}\t{tags[w]}\t_\t_\t_\t{misc}")
        lines.append("")
    place.characters += len(text)
    lines.append("")
    return "\n".join(lines)


def _spaces(after: str, last: bool) -> str:
    """What follows a token where it is not one blank."""
    if not after:
        return "" if last else "SpaceAfter=No|"
    return f"SpacesAfter={''.join(_ESCAPES.get(c, c) if c != '|' else _ESCAPES[' '] for c in after)}|"
