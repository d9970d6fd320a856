"""Dependency trees as SVG: words in a row, with labelled arcs from heads to words above them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

# Pixels: width of a letter, least width of a word, space between words, height of a level, height of the lines below.
_LETTER, _LEAST, _GAP, _LEVEL, _BELOW = 8, 24, 14, 26, 44


def levels(heads: Sequence[int]) -> list[int]:
    """Return the level of each word's arc, above all arcs that it spans and shorter ones that it crosses; 0 for a root.

    >>> levels([2, 3, 0, 3])
    [1, 1, 0, 1]
    """
    found = [0] * len(heads)
    spans = [(abs(head - i), min(head, i), max(head, i), i) for i, head in enumerate(heads, 1) if head > 0]
    for _, a, b, i in sorted(spans):
        inside = [found[j - 1] for _, c, d, j in spans if j != i and a <= c and d <= b and found[j - 1]]
        crossed = [found[j - 1] for _, c, d, j in spans if found[j - 1] and (c < a < d < b or a < c < b < d)]
        found[i - 1] = 1 + max(inside + crossed, default=0)
    return found


def tree_svg(words: Sequence[str], tags: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> str:
    """Draw one sentence as SVG; a head is a word counted from 1, 0 for the root, or negative if there is none.

    >>> svg = tree_svg(["Dogs", "bark"], ["NOUN", "VERB"], [2, 0], ["nsubj", "root"])
    >>> svg[:4], svg.count("<path"), "nsubj" in svg
    ('<svg', 4, True)
    """
    at, x = [], _GAP
    for i, word in enumerate(words):
        wide = max(_LEAST, _LETTER * max(len(word), len(tags[i]), len(relations[i])))
        at.append(x + wide // 2)
        x += wide + _GAP
    level = levels(heads)
    base = 30 + _LEVEL * max([1, *level])
    height = base + _BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x}" height="{height}" viewBox="0 0 {x} {height}" role="img" '
        f'aria-label="{escape(" ".join(words))}" font-family="sans-serif" font-size="13" text-anchor="middle">'
    ]
    for i, head in enumerate(heads):
        if head == 0:
            parts += _arrow(f"M{at[i]},16 L{at[i]},{base - 6}", at[i], base, relations[i], 12)
        elif head > 0:
            a, b, top = at[head - 1], at[i], base - _LEVEL * level[i]
            a += 5 if b > a else -5
            bend = 6 if b > a else -6
            path = (
                f"M{a},{base - 2} L{a},{top + 6} Q{a},{top} {a + bend},{top} L{b - bend},{top} Q{b},{top} {b},{top + 6}"
            )
            parts += _arrow(f"{path} L{b},{base - 6}", b, base, relations[i], top - 4, (a + b) // 2)
    for i, word in enumerate(words):
        parts += [_text(at[i], base + 16, word, 13), _text(at[i], base + 34, tags[i], 10)]
    return "".join([*parts, "</svg>"])


def _text(x: int, y: int, text: str, size: int) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="currentColor">{escape(text)}</text>'


def _arrow(path: str, x: int, base: int, relation: str, y: int, middle: int | None = None) -> list[str]:
    """Return an arc, its arrowhead above a word, and its relation."""
    tip = f"M{x - 4},{base - 8} L{x + 4},{base - 8} L{x},{base} Z"
    return [
        f'<path d="{path}" fill="none" stroke="#4a7ab5"/>',
        f'<path d="{tip}" fill="#4a7ab5"/>',
        _text(x if middle is None else middle, y, relation, 10),
    ]
