"""The measures of the CoNLL 2018 shared task: tokens, words, tags and trees of raw text, aligned by characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.data.surface import Surface
from spom.data.treebank import Treebank
from spom.errors import DataError
from spom.metrics.phrases import Counts

_FEATURES = (
    "PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree VerbForm Mood "
    "Tense Aspect Voice Evident Polarity Person Polite"
)
_CONTENT = (
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse nmod appos "
    "nummod acl amod conj fixed flat compound list parataxis orphan goeswith reparandum root dep"
)
FEATURES, CONTENT = frozenset(_FEATURES.split()), frozenset(_CONTENT.split())
FUNCTION = frozenset(["aux", "cop", "mark", "det", "clf", "case", "cc"])


@dataclass(frozen=True)
class Measures:
    """All scores by name: tokens sentences words upos xpos feats alltags lemmas uas las clas mlas blex."""

    scores: dict[str, Counts]

    def __getitem__(self, name: str) -> float:
        return self.scores[name].f1

    def flat(self) -> dict[str, float]:
        """Return F1 by name, as fractions."""
        return {name: score.f1 for name, score in self.scores.items()}

    def __str__(self) -> str:
        lines = [f"{'':10} {'precision':>9} {'recall':>9} {'F1':>9}"]
        for name, score in self.scores.items():
            lines.append(f"{name:10} {100 * score.precision:9.2f} {100 * score.recall:9.2f} {100 * score.f1:9.2f}")
        return "\n".join(lines)


def conll2018(gold: Treebank, system: Treebank) -> Measures:
    """F1 = 2 correct / (gold + system) of tokens, sentences, words, tags, lemmas and arcs, words aligned by characters.

    The two may differ in the ends of tokens and sentences, but must have the same text, except for blanks. Words of
    multiword tokens are aligned by a longest common subsequence of their forms; relations are equal if they agree
    before the first colon; only universal features count; a gold lemma `_` matches any lemma. If one of the two has no
    trees (no word has a head), the measures of trees are left out.

    >>> words = [{"form": "Dogs", "upos": "NOUN", "head": 2, "deprel": "nsubj"},
    ...          {"form": "bark", "upos": "VERB", "head": 0, "deprel": "root"}]
    >>> bank = Treebank.from_sentences([words])
    >>> other = Treebank.from_sentences([[{**words[0], "upos": "VERB"}, words[1]]])
    >>> found = conll2018(bank, other)
    >>> found["words"], found["upos"], found["las"]
    (1.0, 0.5, 1.0)
    """
    ours, theirs = _Text.of(gold), _Text.of(system)
    _check_same(ours, theirs)
    pairs = np.array(_aligned(ours, theirs), dtype=np.int64).reshape(-1, 2)
    return Measures({**_span_scores(ours, theirs), **_word_scores(ours, theirs, pairs)})


# --- the data to compare ----------------------------------------------------------------------------------------


@dataclass
class _Text:
    """A treebank prepared for the measures: spans of characters without blanks, and columns of words as objects."""

    characters: str
    tokens: list[tuple[int, int]]
    sentences: list[tuple[int, int]]
    spans: list[tuple[int, int]]
    multiword: list[bool]
    forms: list[str]
    columns: dict[str, NDArray[np.object_]]
    parents: Ints | None

    @classmethod
    def of(cls, bank: Treebank) -> _Text:
        """Prepare a treebank whose sentences are trees, or which has no trees."""
        surface = Surface.of(bank)
        pieces, tokens, at = [], [], 0
        for form in surface.forms:
            piece = form if form.isascii() and " " not in form else _without_blanks(form)
            pieces.append(piece)
            tokens.append((at, at + len(piece)))
            at += len(piece)
        counts = np.diff(surface.words).tolist()
        spans = [span for span, count in zip(tokens, counts, strict=True) for _ in range(count)]
        # A multiword token of one word has its own line too, but is compared like any other token.
        multiword = [count > 1 for count in counts for _ in range(count)]
        bounds = surface.offsets.tolist()
        sentences = [(tokens[a][0], tokens[b - 1][1]) for a, b in pairwise(bounds) if b > a]
        columns = {name: _column(bank, name, change) for name, change in _CHANGES.items()}
        names = np.array([name.split(":")[0] for name in bank.relation_names], dtype=object)
        columns["deprel"] = names[bank.relations]
        forms = _lower_forms(bank, multiword)
        return cls("".join(pieces), tokens, sentences, spans, multiword, forms, columns, _parents(bank))


def _without_blanks(form: str) -> str:
    return "".join(c for c in form if unicodedata.category(c) != "Zs")


def _universal(features: str) -> str:
    return "|".join(sorted(part for part in features.split("|") if part.split("=", 1)[0] in FEATURES))


_CHANGES: dict[str, Callable[[str], str]] = {"upos": str, "xpos": str, "feats": _universal, "lemma": str}


def _column(bank: Treebank, name: str, change: Callable[[str], str]) -> NDArray[np.object_]:
    codes, strings = bank.columns.distinct(name)
    return np.array([change(text) for text in strings.tolist()], dtype=object)[codes]


def _lower_forms(bank: Treebank, multiword: list[bool]) -> list[str]:
    """Return forms in lower case, without blanks except in words of multiword tokens, as in the official scorer."""
    codes, strings = bank.columns.distinct("form")
    whole = [text.lower() for text in strings.tolist()]
    lower = [_without_blanks(text) for text in whole]
    return [whole[c] if many else lower[c] for c, many in zip(codes.tolist(), multiword, strict=True)]


def _parents(bank: Treebank) -> Ints | None:
    """Return the head of each word as an index of words, -1 for the root; None if no word has a head."""
    if (bank.heads < 0).any():
        if not bank.has_trees:
            return None
        bank.check_trees()
    first = np.repeat(bank.offsets[:-1], np.diff(bank.offsets))
    return np.where(bank.heads > 0, first + bank.heads - 1, -1)


def _check_same(gold: _Text, system: _Text) -> None:
    a, b = gold.characters, system.characters
    if a != b:
        at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        raise DataError(
            f"the texts differ after {at} characters: {a[at : at + 20]!r} in the gold data, {b[at : at + 20]!r} in the "
            "other; both must be of the same text"
        )


# --- alignment of words -----------------------------------------------------------------------------------------


def _aligned(gold: _Text, system: _Text) -> list[tuple[int, int]]:
    """Return pairs of aligned words: by their spans, and within the spans of multiword tokens by their forms."""
    pairs: list[tuple[int, int]] = []
    g = s = 0
    while g < len(gold.spans) and s < len(system.spans):
        if gold.multiword[g] or system.multiword[s]:
            g, s, g_end, s_end = _span_of_both(gold, system, g, s)
            pairs += _common(gold.forms, system.forms, (g, g_end), (s, s_end))
            g, s = g_end, s_end
        elif gold.spans[g] == system.spans[s]:
            pairs.append((g, s))
            g, s = g + 1, s + 1
        elif gold.spans[g][0] <= system.spans[s][0]:
            g += 1
        else:
            s += 1
    return pairs


def _span_of_both(gold: _Text, system: _Text, g: int, s: int) -> tuple[int, int, int, int]:
    """Return (first gold word, first system word, both ends) of the smallest span that no multiword token crosses."""
    if gold.multiword[g]:
        end = gold.spans[g][1]
        s += not system.multiword[s] and system.spans[s][0] < gold.spans[g][0]
    else:
        end = system.spans[s][1]
        g += not gold.multiword[g] and gold.spans[g][0] < system.spans[s][0]
    first = g, s

    def inside(text: _Text, i: int) -> bool:
        return i < len(text.spans) and (text.spans[i][0] < end if text.multiword[i] else text.spans[i][1] <= end)

    while inside(gold, g) or inside(system, s):
        left = g < len(gold.spans) and (s >= len(system.spans) or gold.spans[g][0] <= system.spans[s][0])
        text, i = (gold, g) if left else (system, s)
        if text.multiword[i]:
            end = max(end, text.spans[i][1])
        g, s = (g + 1, s) if left else (g, s + 1)
    return *first, g, s


def _common(a: list[str], b: list[str], rows: tuple[int, int], columns: tuple[int, int]) -> list[tuple[int, int]]:
    """Return a longest common subsequence of a[rows] and b[columns], taking each matching pair when it is met."""
    n, m = rows[1] - rows[0], columns[1] - columns[0]
    best = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            match = best[i + 1, j + 1] + 1 if a[rows[0] + i] == b[columns[0] + j] else 0
            best[i, j] = max(match, best[i + 1, j], best[i, j + 1])
    pairs, i, j = [], 0, 0
    while i < n and j < m:
        if a[rows[0] + i] == b[columns[0] + j]:
            pairs.append((rows[0] + i, columns[0] + j))
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs


# --- counting ---------------------------------------------------------------------------------------------------


def _span_scores(gold: _Text, system: _Text) -> dict[str, Counts]:
    found = {}
    for name in ("tokens", "sentences"):
        ours, theirs = getattr(gold, name), getattr(system, name)
        found[name] = Counts(len(ours), len(theirs), len(set(ours) & set(theirs)))
    return found


def _word_scores(gold: _Text, system: _Text, pairs: Ints) -> dict[str, Counts]:
    g, s = pairs[:, 0], pairs[:, 1]
    sizes = len(gold.spans), len(system.spans)
    same = {name: gold.columns[name][g] == system.columns[name][s] for name in (*_CHANGES, "deprel")}
    same["lemma"] |= gold.columns["lemma"][g] == "_"
    right = {
        "words": np.ones(g.size, dtype=bool),
        "upos": same["upos"],
        "xpos": same["xpos"],
        "feats": same["feats"],
        "alltags": same["upos"] & same["xpos"] & same["feats"],
        "lemmas": same["lemma"],
    }
    found = {name: Counts(*sizes, int(np.sum(values))) for name, values in right.items()}
    if gold.parents is None or system.parents is None:
        return found
    # The gold word of each system word; an unaligned word (-2) equals neither a gold word nor the root (-1).
    place = np.full(sizes[1] + 1, -2, dtype=np.int64)
    place[s], place[-1] = g, -1
    return found | _tree_scores(gold, system, same, pairs, gold.parents[g] == place[system.parents[s]], place)


def _tree_scores(
    gold: _Text, system: _Text, same: dict[str, Any], pairs: Ints, heads: Any, place: Ints
) -> dict[str, Counts]:
    """Return the measures of trees; `heads` tells which of the aligned words have the right head."""
    arcs, sizes = heads & same["deprel"], (len(gold.spans), len(system.spans))
    content = [np.array([name in CONTENT for name in text.columns["deprel"]], dtype=bool) for text in (gold, system)]
    few, counted = (int(content[0].sum()), int(content[1].sum())), content[0][pairs[:, 0]]
    functions = _function_words(gold, None), _function_words(system, place)
    alike = np.array([functions[0].get(i) == functions[1].get(j) for i, j in pairs.tolist()], dtype=bool)
    return {
        "uas": Counts(*sizes, int(heads.sum())),
        "las": Counts(*sizes, int(arcs.sum())),
        "clas": Counts(*few, int(np.sum(arcs & counted))),
        "mlas": Counts(*few, int(np.sum(arcs & same["upos"] & same["feats"] & alike & counted))),
        "blex": Counts(*few, int(np.sum(arcs & same["lemma"] & counted))),
    }


def _function_words(text: _Text, place: Ints | None) -> dict[int, list[tuple[Any, ...]]]:
    """Return the function words of each word, in order, as (gold word, relation, UPOS, features)."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    columns, parents = text.columns, text.parents
    assert parents is not None
    for w, relation in enumerate(columns["deprel"].tolist()):
        if relation in FUNCTION:
            word = w if place is None else int(place[w])
            entry = (word, relation, columns["upos"][w], columns["feats"][w])
            found.setdefault(int(parents[w]), []).append(entry)
    return found
