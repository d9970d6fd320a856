"""The raw text of a treebank: tokens as they are written, the blanks between them, and paragraphs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spom.core.arrays import Ints, offsets_of
from spom.data.treebank import Treebank

# Scripts without blanks between words, as prefixes of the Unicode names of their characters.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_ESCAPES = {"s": " ", "t": "\t", "n": "\n", "r": "\r", "p": "|", "\\": "\\"}
PARAGRAPH = "\n\n"


@dataclass(frozen=True)
class Surface:
    """Tokens: token t is written `forms[t]`, followed by `after[t]`, and has the words words[t] to words[t + 1] - 1.

    Sentence s has the tokens offsets[s] to offsets[s + 1] - 1, and `opens[s]` tells whether it opens a paragraph.

    >>> bank = Treebank.from_sentences([[{"form": "Dogs"}, {"form": "bark", "misc": "SpaceAfter=No"}, {"form": "."}]])
    >>> Surface.of(bank).text()
    'Dogs bark.'
    """

    forms: list[str]
    after: list[str]
    words: Ints
    offsets: Ints
    opens: list[bool]

    @classmethod
    def of(cls, bank: Treebank) -> Surface:
        """Return the surface of a treebank.

        Blanks are those of `# text` if the tokens are found in it, else those of `SpaceAfter` and `SpacesAfter`.
        If a treebank has neither, the script decides whether there are blanks between words.
        """
        forms: list[str] = []
        after: list[str] = []
        words, offsets, opens = [], [0], []
        known = False
        for tokens, text, opening in _sentences(bank):
            own, said = [form for form, _, _ in tokens], [blank for _, blank, _ in tokens]
            blanks = None if text is None else _blanks_in(text, own)
            known = known or text is not None or any(blank != " " for blank in said)
            after += said if blanks is None else [*blanks, said[-1]]
            forms += own
            words += [count for _, _, count in tokens]
            offsets.append(len(forms))
            opens.append(opening)
        if not known and _unspaced(forms):
            after = [""] * len(after)
        first = offsets_of(words)
        return cls(forms, after, first, np.array(offsets, dtype=np.int64), opens)

    def parts(self) -> Iterator[str]:
        """Yield the text sentence by sentence, each with the blanks before the next one."""
        for s in range(len(self.opens)):
            a, b = int(self.offsets[s]), int(self.offsets[s + 1])
            text = "".join(self.forms[t] + self.after[t] for t in range(a, b))
            if s + 1 < len(self.opens) and self.opens[s + 1]:
                text = text.rstrip() + PARAGRAPH
            yield text

    def part(self, first: int, end: int) -> Surface:
        """Return the sentences first to end - 1."""
        a, b = int(self.offsets[first]), int(self.offsets[end])
        words, offsets = self.words[a : b + 1] - self.words[a], self.offsets[first : end + 1] - a
        return Surface(self.forms[a:b], self.after[a:b], words, offsets, self.opens[first:end])

    def text(self) -> str:
        """Return the whole text, with a blank line between paragraphs."""
        return "".join(self.parts()).rstrip(" ")


def _sentences(bank: Treebank) -> Iterator[tuple[list[tuple[str, str, int]], str | None, bool]]:
    """Yield the tokens (form, following blanks, number of words), `# text`, and whether a paragraph begins."""
    raw = bank.columns.buffer.data
    for begin, end in bank.spans.tolist():
        text, opens, covered = None, False, 0
        tokens: list[tuple[str, str, int]] = []
        for line in str(raw[begin:end], "utf-8").split("\n"):
            if line.startswith("#"):
                name, _, value = line[1:].partition("=")
                text = value.strip() if name.strip() == "text" else text
                opens = opens or line[1:].lstrip().startswith(("newpar", "newdoc"))
                continue
            fields = line.rstrip("\r").split("\t")
            if len(fields) != 10 or "." in fields[0]:
                continue
            first, dash, last = fields[0].partition("-")
            if not dash and int(first) <= covered:
                continue
            covered = int(last) if dash else int(first)
            tokens.append((fields[1], _after(fields[9]), covered - int(first) + 1))
        yield tokens, text, opens


def _after(misc: str) -> str:
    """Return the blanks after a token, from its MISC column."""
    if "Space" not in misc:
        return " "
    for part in misc.split("|"):
        name, _, value = part.partition("=")
        if name == "SpaceAfter" and value == "No":
            return ""
        if name == "SpacesAfter":
            pieces = value.split("\\")
            return pieces[0] + "".join(_ESCAPES.get(piece[:1], piece[:1]) + piece[1:] for piece in pieces[1:])
    return " "


def _blanks_in(text: str, forms: list[str]) -> list[str] | None:
    """Return the blanks between the tokens in a text, or None if the text does not consist of them."""
    blanks, at = [], 0
    for k, form in enumerate(forms):
        found = text.find(form, at)
        if found < 0 or text[at:found].strip():
            return None
        if k:
            blanks.append(text[at:found])
        at = found + len(form)
    return blanks if not text[at:].strip() else None


def _unspaced(forms: list[str]) -> bool:
    letters = [c for form in forms[:2000] for c in form if c.isalpha()]
    without = sum(unicodedata.name(c, "").startswith(_UNSPACED) for c in letters)
    return 2 * without > len(letters)
