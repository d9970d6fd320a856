"""Hashed templates slot by slot, and strings that are derived from columns at the edges of UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.data import Columns
from spom.features import Templates
from spom.features.streams import Spans, derived
from spom.features.tables import slot_of_key
from tests.data.test_token_lines import naive_hash

from .test_templates import step

WORD = (1 << 64) - 1
TEMPLATES = ["w[0]", "w[-2]|p[1]", "near: w[-1]", "near: w[1]", "w.suffix2[0]|p[0]|w[2]", "bias:"]


def slots_of(sentences: Any, slots: int, boundaries: bool) -> list[list[int]]:
    """Return the slots of all templates of each token; models depend on these numbers."""
    found = []

    def code(sentence: Any, at: int, read: Any) -> int:
        if at < 0:
            return -2 * at if boundaries else 0
        if at >= len(sentence):
            return 1000000 + 2 * (at - len(sentence) + 1) if boundaries else 0
        return naive_hash(read(sentence[at]).encode()) | 1

    for sentence in sentences:
        for t in range(len(sentence)):

            def w(d: int, sentence: Any = sentence, t: int = t) -> int:
                return code(sentence, t + d, lambda token: token[0])

            def p(d: int, sentence: Any = sentence, t: int = t) -> int:
                return code(sentence, t + d, lambda token: token[1])

            def suffix(d: int, sentence: Any = sentence, t: int = t) -> int:
                return code(sentence, t + d, lambda token: token[0][-2:])

            templates = [(0, [w(0)]), (1, [w(-2), p(1)]), (2, [w(-1)]), (2, [w(1)]), (3, [suffix(0), p(0), w(2)])]
            row = []
            for block, codes in [*templates, (4, [])]:
                h = 14695981039346656037
                for one in codes:
                    h = (h ^ one) * 11400714819323198485 & WORD
                    h ^= h >> 29
                if 0 not in codes:
                    row.append(block * slots + (h >> 2) % slots)
            found.append(row)
    return found


@pytest.mark.parametrize("boundaries", [True, False])
@pytest.mark.parametrize("table", [35, 5 * 1021])
def test_every_conjunction_has_the_slot_of_its_hash(table: int, boundaries: bool) -> None:
    sentences = [
        [("the", "DT"), ("caterpillars", "NNS"), ("", "X"), ("sleep", "VBP")],
        [("a", "DT")],
        [("\u00e9t\u00e9s", "N"), ("the", "DT"), ("the", "NN")],
    ]
    columns = Columns.from_lists(sentences, ("w", "p"))
    templates = Templates(TEMPLATES, table=table, boundaries=boundaries)
    rows = templates.transform(columns)
    expected = slots_of(sentences, table // 5, boundaries)
    found = [rows.indices[a:b].tolist() for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)]
    assert found == expected
    assert rows.offsets.tolist() == [0, 4, 5, 8]


EDGES = ["\0", "\x7f", "\x80", "\u07ff", "\u0800", "\u0fff", "\uffff", "\U00010000", "\U0001ffff", "\U0001f600"]
EDGES += ["\U0010ffff", "A", "z", "5", "\u00c9", "\u01c5", "\u0130", "\u0661", "\U0001d400", "\U00010400"]


@pytest.mark.parametrize(
    "name", ["lower", "pattern", "shape", "length", "digit", "case", "prefix1", "suffix2", "prefix3"]
)
def test_derived_strings_are_those_of_python(name: str) -> None:
    draw = np.random.default_rng(3)
    texts = [*EDGES, "", *("".join(draw.choice(EDGES, int(draw.integers(1, 13)))) for _ in range(60))]
    texts += ["x" * 9, "x" * 10, "x" * 100, "Xx", "xX", "XX", "1X", "1Xx", "X1", "12", "a1", "-A", "-Ab"]
    for some in (texts, [text for text in texts if text.isascii()]):
        buffer = np.frombuffer("".join(some).encode(), dtype=np.uint8)
        sizes = np.array([len(text.encode()) for text in some], dtype=np.int32)
        start = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64)
        # One has no value.
        length = np.append(sizes, np.int32(-1))
        found = derived(Spans(buffer, np.append(start, 0), length), (name,))
        assert found.length[-1] == -1
        for text, a, size in zip(some, found.start, found.length, strict=False):
            assert bytes(found.buffer[a : a + size]).decode() == step(text, name), ascii(text)


def test_a_search_in_a_table_begins_where_fibonacci_hashing_says() -> None:
    for key in (0, 1, 2, 12345, (1 << 62) - 1):
        for bits in (1, 10, 31):
            assert slot_of_key(key, bits) == (key * 11400714819323198485 & WORD) >> (64 - bits)
