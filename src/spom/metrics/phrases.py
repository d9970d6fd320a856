"""Precision and recall of phrases that labels such as B-NP, I-NP, O encode, counted as in conlleval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, offsets_of
from spom.core.jit import kernel
from spom.errors import DataError

# L and U are E and S of BILOU, M and W are I and S of BMEWO.
_PREFIXES = {"O": 0, "B": 1, "I": 2, "M": 2, "E": 3, "L": 3, "S": 4, "U": 4, "W": 4}
_OTHER = 5


@dataclass(frozen=True)
class Counts:
    """The numbers of gold phrases (or words, arcs, ...), of found ones, and of correct ones among those."""

    gold: int
    found: int
    correct: int

    @property
    def precision(self) -> float:
        """correct / found, 0 if none was found."""
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """correct / gold, 0 if there is none."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """2 precision recall / (precision + recall) = 2 correct / (gold + found)."""
        return 2.0 * self.correct / (self.gold + self.found) if self.gold + self.found else 0.0


@dataclass(frozen=True)
class PhraseScores(Counts):
    """The counts of all phrases, those of each type, and the accuracy of the labels; `str` is conlleval's table."""

    tokens: int
    accuracy: float
    types: dict[str, Counts]

    def __str__(self) -> str:
        head = (
            f"processed {self.tokens} tokens with {self.gold} phrases; "
            f"found: {self.found} phrases; correct: {self.correct}.\n"
            f"accuracy: {100 * self.accuracy:6.2f}%; {_percent(self)}"
        )
        rows = [f"{name:>17}: {_percent(part)}  {part.found}" for name, part in sorted(self.types.items())]
        return "\n".join([head, *rows])


def _percent(counts: Counts) -> str:
    values = 100 * counts.precision, 100 * counts.recall, 100 * counts.f1
    return "precision: {:6.2f}%; recall: {:6.2f}%; FB1: {:6.2f}".format(*values)


def phrase_scores(gold: Sequence[Iterable[str]], found: Sequence[Iterable[str]]) -> PhraseScores:
    """Score label sequences against the right ones.

    A label is a prefix and a type (B-NP), or O. A phrase begins at B and S, at I and E after O, E or S, and wherever
    the type changes; it ends before the next begins, before O, and after E and S. L is read as E, U and W as S, M as I.
    Sentences of different lengths raise a `DataError`.

    >>> scores = phrase_scores([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "B-VP", "I-VP"]])
    >>> scores.gold, scores.found, scores.correct, scores.accuracy
    (2, 2, 1, 0.5)
    >>> print(scores)
    processed 4 tokens with 2 phrases; found: 2 phrases; correct: 1.
    accuracy:  50.00%; precision:  50.00%; recall:  50.00%; FB1:  50.00
                   NP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
                   VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1
    """
    if len(gold) != len(found):
        raise DataError(f"expected labels for {len(gold)} sentences, found {len(found)}")
    codes: dict[str, int] = {}
    flat: list[list[int]] = [[], []]
    sizes = []
    for i, (right, guess) in enumerate(zip(gold, found, strict=True)):
        pair = [[codes.setdefault(label, len(codes)) for label in labels] for labels in (right, guess)]
        if len(pair[0]) != len(pair[1]):
            raise DataError(f"sentence {i}: expected {len(pair[0])} labels, found {len(pair[1])}")
        flat[0] += pair[0]
        flat[1] += pair[1]
        sizes.append(len(pair[0]))
    offsets = offsets_of(sizes)
    right_codes, guess_codes = (np.array(part, dtype=np.int64) for part in flat)
    return score_codes(right_codes, guess_codes, offsets, list(codes))


def score_codes(gold: NDArray[Any], found: NDArray[Any], offsets: Ints, labels: Sequence[str]) -> PhraseScores:
    """Score labels given as indices into `labels`, with sentence i at offsets[i] to offsets[i + 1] - 1."""
    prefix, kind, names = _split(labels)
    counts = np.zeros((3, len(names)), dtype=np.int64)
    gold, found = (np.ascontiguousarray(part, dtype=np.int64) for part in (gold, found))
    right = count_phrases(gold, found, np.ascontiguousarray(offsets, dtype=np.int64), prefix, kind, counts)
    total, guessed, correct = (int(count) for count in counts.sum(axis=1))
    types = {name: Counts(*(int(n) for n in counts[:, k])) for k, name in enumerate(names) if counts[:, k].any()}
    accuracy = right / gold.size if gold.size else 0.0
    return PhraseScores(total, guessed, correct, int(gold.size), accuracy, types)


def counts_by_sentence(gold: Ints, found: Ints, offsets: Ints, labels: Sequence[str]) -> Ints:
    """Count gold, found and correct phrases, in one row per sentence.

    >>> counts_by_sentence(np.array([0, 1, 0]), np.array([0, 1, 1]), np.array([0, 2, 3]), ["O", "B-NP"])
    array([[1, 1, 1],
           [0, 1, 0]])
    """
    prefix, kind, names = _split(labels)
    result = np.empty((offsets.size - 1, 3), dtype=np.int64)
    for i in range(offsets.size - 1):
        counts = np.zeros((3, len(names)), dtype=np.int64)
        count_phrases(gold, found, np.ascontiguousarray(offsets[i : i + 2]), prefix, kind, counts)
        result[i] = counts.sum(axis=1)
    return result


def phrases(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the phrases of one sentence as (first token, token after the last, type).

    >>> phrases(["B-NP", "I-NP", "O", "I-VP", "I-PP"])
    [(0, 2, 'NP'), (3, 4, 'VP'), (4, 5, 'PP')]
    """
    prefix, kind, names = _split(labels)
    spans, begin = [], -1
    for t in range(len(labels) + 1):
        last = t == len(labels)
        a, b = (prefix[t - 1], kind[t - 1]) if t else (0, 0)
        c, d = (0, 0) if last else (prefix[t], kind[t])
        if begin >= 0 and ends(a, b, c, d):
            spans.append((begin, t, names[b]))
            begin = -1
        if starts(a, b, c, d):
            begin = t
    return spans


def has_phrases(labels: Iterable[str]) -> bool:
    """Tell whether labels encode phrases: all are O or have a prefix B, I, E, S, and not all are O.

    The prefixes L, U, M and W of other schemes count if B occurs and labels have types, as in B-NP. M without types
    counts if B and E occur.

    >>> has_phrases(["O", "B-NP", "L-NP", "U-NP"]), has_phrases(["B", "M", "E", "S"]), has_phrases(["M", "W"])
    (True, True, False)
    """
    parts = [label.partition("-") for label in labels]
    prefixes = {first for first, _, _ in parts}
    more = prefixes & set("LUMW")
    typed = all(dash for first, dash, _ in parts if first != "O")
    if more and not ("B" in prefixes and (typed or (more == {"M"} and "E" in prefixes))):
        return False
    return prefixes <= set(_PREFIXES) and bool(prefixes - {"O"})


def _split(labels: Sequence[str]) -> tuple[Ints, Ints, list[str]]:
    """Return (the prefix of each label, its type as an index, the types); type 0 is the empty one, that of O."""
    names, prefix, kind = {"": 0}, [], []
    for label in labels:
        first, _, rest = str(label).partition("-")
        prefix.append(_PREFIXES.get(first, _OTHER))
        kind.append(names.setdefault(rest, len(names)))
    return np.array(prefix, dtype=np.int64), np.array(kind, dtype=np.int64), list(names)


@kernel("boolean(int64, int64, int64, int64)")
def ends(before: int, kind_before: int, now: int, kind: int) -> bool:
    """Tell whether a phrase that holds the previous token ends between it and this one."""
    if before == 0:
        return False
    return before in (3, 4) or now in (0, 1, 4) or kind_before != kind


@kernel("boolean(int64, int64, int64, int64)")
def starts(before: int, kind_before: int, now: int, kind: int) -> bool:
    """Tell whether a phrase starts at this token."""
    if now in (1, 4):
        return True
    if now == 0:
        return False
    return (before in (0, 3, 4) and now in (2, 3)) or kind_before != kind


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1])")
def count_phrases(gold: Ints, found: Ints, offsets: Ints, prefix: Ints, kind: Ints, counts: Ints) -> int:
    """Count phrases by type into `counts` (gold, found, correct), and return how many labels are right."""
    right = 0
    for i in range(offsets.size - 1):
        # Whether the gold and found phrases of the last token began together, with the same type.
        together = False
        a, b, c, d = 0, 0, 0, 0
        for t in range(offsets[i], offsets[i + 1] + 1):
            a1, b1, c1, d1 = 0, 0, 0, 0
            if t < offsets[i + 1]:
                a1, b1, c1, d1 = prefix[gold[t]], kind[gold[t]], prefix[found[t]], kind[found[t]]
                right += gold[t] == found[t]
            end_gold, end_found = ends(a, b, a1, b1), ends(c, d, c1, d1)
            if together and end_gold and end_found:
                counts[2, b] += 1
            if end_gold or end_found:
                together = False
            start_gold, start_found = starts(a, b, a1, b1), starts(c, d, c1, d1)
            if start_gold:
                counts[0, b1] += 1
            if start_found:
                counts[1, d1] += 1
            if start_gold and start_found and b1 == d1:
                together = True
            a, b, c, d = a1, b1, c1, d1
    return right
