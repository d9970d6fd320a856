"""Multiword tokens: `du` is the words `de le`. Seen tokens are split as in training, others by their endings."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.data.columns import Columns, gather
from spom.data.surface import Surface
from spom.data.treebank import Treebank
from spom.errors import ModelFileError
from spom.estimators.pipeline.tags import weight_arrays, weights_from
from spom.estimators.pipeline.writing import Strings
from spom.features.templates import Templates
from spom.solvers.structured.chains.data import as_tokens
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.solver import SparseChain

# A rule keeps one end of the token, removes the other, and adds letters and words: (side, taken, added, words). The
# side "bare" also keeps the first letters, but without their accents.
Rule = tuple[str, int, str, tuple[str, ...]]
# Unseen tokens of dev sets with a wrong split: Turkish 110 of 3,173, Portuguese 3 of 2,475, EWT 14 of 1,754. With
# prefixes, or a strength of 1e-6, up to 8 more.
TEMPLATES = (*(f"w.suffix{k}[0]" for k in range(1, 9)), "w.shape[0]", "w.length[0]")
# For tokens seen with several rules. Tokens of dev sets with a wrong split: EWT 36, Portuguese 11, Turkish 121; with a
# table of the next tokens instead 44, 20 and 121. With a strength of 1e-4: 41, 11 and 146.
AROUND = (
    *("w.lower[0]", "w.case[0]|w.lower[0]", "w.lower[0]|before[0]", "w.lower[0]|after[0]"),
    *("w.lower[0]|after.suffix2[0]", "w.lower[0]|before.cluster[0]", "w.lower[0]|after.cluster[0]"),
    *("w.lower[0]|before.cluster[0]|after.cluster[0]", "w.lower[0]|after.cluster[0]|second.cluster[0]"),
    *("before[0]", "after[0]", "after.suffix2[0]", "before.cluster[0]", "after.cluster[0]"),
    *("before.cluster[0]|after.cluster[0]", "after.cluster[0]|second.cluster[0]"),
)
STRENGTH = 1e-5
EPOCHS = 8
# There are many rules, most of them rare: a margin finds more of them than likelihood does. Wrong words of held-out
# parts, from 1,200 sentences: Spanish 95 instead of 117, Portuguese 146 instead of 153, Turkish 1,020 instead of 1,012,
# EWT 93 instead of 74 (by two names, nine times in all). Dev sets, whole training files: Turkish 366 instead of 375,
# EWT 111 instead of 108, Portuguese 30 instead of 30.
ENDINGS: dict[str, Any] = {"loss": "softmax-margin", "cost": 5.0, "epochs": 16}


def rule_of(token: str, words: list[str]) -> Rule:
    """Return the rule that makes the words from the token: of the three rules, the one that keeps most of the token.

    >>> rule_of("du", ["de", "le"])
    ('first', 1, 'e', ('le',))
    >>> rule_of("delle", ["di", "le"])
    ('last', 3, '', ('di',))
    >>> rule_of("dándole", ["dando", "le"])
    ('bare', 2, '', ('le',))
    """
    low, lower = token.lower(), [word.lower() for word in words]
    kept, kept_bare = _common(low, lower[0]), _common(bare(low), lower[0])
    kept_last = _common(low[::-1], lower[-1][::-1])
    if kept_bare > max(kept, kept_last):
        return "bare", len(low) - kept_bare, lower[0][kept_bare:], tuple(lower[1:])
    if kept >= kept_last:
        return "first", len(low) - kept, lower[0][kept:], tuple(lower[1:])
    added = lower[-1][: len(lower[-1]) - kept_last]
    return "last", len(low) - kept_last, added, tuple(lower[:-1])


def apply_rule(token: str, rule: Rule) -> list[str] | None:
    """Return the words of a token, in its case; None if it is too short for the rule."""
    side, taken, added, words = rule
    if taken > len(token):
        return None
    first = side != "last"
    token = bare(token) if side == "bare" else token
    found = [token[: len(token) - taken] + added, *words] if first else [*words, added + token[taken:]]
    if len(token) > 1 and token.isupper():
        found = [word.upper() for word in found]
    elif (token[:1].isupper() and side == "last") or (token[:1].isupper() and taken == len(token)):
        found[0] = found[0][:1].upper() + found[0][1:]
    return found if all(found) else None


def bare(token: str) -> str:
    """Return the token without acute and grave accents, with the same length."""
    if token.isascii():
        return token
    parts = [(c, unicodedata.normalize("NFD", c)) for c in token]
    return "".join(part[0] if part[1:] in ("\u0300", "\u0301") else c for c, part in parts)


def _common(a: str, b: str) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


@dataclass(frozen=True)
class Chooser:
    """A classifier of rules."""

    rules: list[Rule | None]
    templates: Templates
    weights: SparseWeights

    @classmethod
    def fit(cls, columns: Columns, rules: list[Rule | None], templates: Templates, seed: int, **how: Any) -> Chooser:
        """Learn from tokens as sentences of one word, and their rules; `how` has settings of the learner."""
        number: dict[Rule | None, int] = {}
        y = np.array([number.setdefault(rule, len(number)) for rule in rules])
        tokens = as_tokens(templates.fit(columns))
        solver = SparseChain(
            tokens, y, len(number), features=templates.n_features, l1=STRENGTH, transitions=False, random_state=seed,
            **{"epochs": EPOCHS, **how},
        )  # fmt: skip
        weights = solver.learnt()
        used = weights.used()
        return cls(list(number), templates.compact(used), weights.only(used))

    def of(self, columns: Columns) -> list[Rule | None]:
        """Return the rule of each token."""
        if len(columns) == 0:
            return []
        return [self.rules[k] for k in self.weights.tag(as_tokens(self.templates.transform(columns))).tolist()]

    def arrays(self) -> dict[str, Any]:
        """Return everything except the rules as arrays."""
        own = self.templates.arrays()
        return {f"features.{name}": array for name, array in own.items()} | weight_arrays(self.weights)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], rules: list[Rule | None]) -> Chooser:
        """Read and check the arrays that `arrays()` returns."""
        own = {n.removeprefix("features."): a for n, a in arrays.items() if n.startswith("features.")}
        templates = Templates.from_arrays(own)
        return cls(rules, templates, weights_from(arrays, templates.n_features, len(rules)))


@dataclass
class Splitter:
    """Rules by token in lower case (None: one word); `endings` decides for other tokens.

    `several` has the rules of tokens seen with more than one: `its` is one word, or `it s`. `readings`
    decides for them by the tokens around. Older files have `beside` instead, which decides by the next token.
    """

    seen: dict[str, Rule | None] = field(default_factory=dict)
    endings: Chooser | None = None
    beside: dict[str, dict[str, Rule | None]] = field(default_factory=dict)
    several: dict[str, list[Rule | None]] = field(default_factory=dict)
    readings: Chooser | None = None

    @classmethod
    def fit(cls, surface: Surface, bank: Treebank, classes: dict[str, str], seed: int = 0) -> Splitter:
        """Learn from the multiword tokens of a treebank; `classes` are those of frequent words in lower case."""
        forms = [form for sentence in bank.columns.strings("form") for form in sentence]
        bounds = pairwise(surface.words.tolist())
        rules = [
            None if b - a == 1 else rule_of(token, forms[a:b])
            for token, (a, b) in zip(surface.forms, bounds, strict=True)
        ]
        if not any(rules):
            return cls()
        low, counts = [token.lower() for token in surface.forms], dict[str, Counter[Rule | None]]()
        for token, rule in zip(low, rules, strict=True):
            counts.setdefault(token, Counter())[rule] += 1
        best = {token: own.most_common(1)[0][0] for token, own in counts.items()}
        endings = Chooser.fit(_alone(list(best)), list(best.values()), Templates(TEMPLATES), seed, **ENDINGS)
        # A token whose ending gives the right rule need not be stored.
        guessed = _by_ending(endings, list(best)).items()
        seen = {token: best[token] for token, rule in guessed if rule != best[token]}
        several = {token: list(own) for token, own in counts.items() if len(own) > 1}
        at = [t for t, token in enumerate(low) if token in several]
        if not at:
            return cls(seen, endings)
        readings = Chooser.fit(
            _around(surface.forms, low, at), [rules[t] for t in at], Templates(AROUND, clusters=classes), seed
        )
        return cls(seen, endings, {}, several, readings)

    def split(self, tokens: Strings) -> tuple[Strings, Ints]:
        """Return (the words of the tokens of a text, the first word of each token and of the end)."""
        strings, codes = tokens.strings, tokens.codes
        if self.endings is None:
            return tokens, np.arange(codes.size + 1, dtype=np.int64)
        low = [token.lower() for token in strings]
        unknown = [token for token in dict.fromkeys(low) if token not in self.seen]
        rules = {**self.seen, **_by_ending(self.endings, unknown)}
        # A token with a rule that depends on its neighbours is a separate string.
        own: dict[tuple[int, Rule | None], int] = {(k, rules[token]): k for k, token in enumerate(low)}
        codes = codes.copy()
        for t, rule in self._asked(tokens, low):
            codes[t] = own.setdefault((int(tokens.codes[t]), rule), len(own))
        number: dict[str, int] = {}
        words: list[int] = []
        first = [0]
        for token, rule in own:
            form = strings[token]
            found = None if rule is None or len(low[token]) != len(form) else apply_rule(form, rule)
            words += [number.setdefault(word, len(number)) for word in found or [form]]
            first.append(len(words))
        where, bounds = gather(np.array(first, dtype=np.int64), codes)
        return Strings(np.array(words, dtype=np.int64)[where], list(number)), bounds

    def _asked(self, tokens: Strings, low: list[str]) -> list[tuple[int, Rule | None]]:
        """Return (token, its rule) for tokens whose rule depends on their neighbours."""
        unsure = np.array([token in self.several or token in self.beside for token in low], dtype=bool)
        at = np.flatnonzero(unsure[tokens.codes]).tolist()
        if not at:
            return []
        every = [tokens.strings[k] for k in tokens.codes.tolist()]
        lower = [low[k] for k in tokens.codes.tolist()]
        if self.readings is None:
            pairs = [(t, lower[t], lower[t + 1] if t + 1 < len(lower) else "") for t in at]
            return [(t, self.beside[token][after]) for t, token, after in pairs if after in self.beside[token]]
        found = zip(at, self.readings.of(_around(every, lower, at)), strict=True)
        return [(t, rule) for t, rule in found if rule in self.several[lower[t]]]

    def words(self, token: str) -> list[str] | None:
        """Return the words of a single token, or None if it is one word."""
        found = self.split(Strings(np.zeros(1, dtype=np.int64), [token]))[0]
        words = [found.strings[k] for k in found.codes.tolist()]
        return None if words == [token] else words

    def __bool__(self) -> bool:
        return self.endings is not None

    def state(self) -> dict[str, Any]:
        """Return everything except the arrays as lists and text, for a model file."""
        beside = [(token, after, rule) for token, own in self.beside.items() for after, rule in own.items()]
        parts = [[] if part is None else part.rules for part in (self.endings, self.readings)]
        rules = list(dict.fromkeys([*parts[0], *parts[1], *self.seen.values(), *(rule for _, _, rule in beside)]))
        number = {rule: k for k, rule in enumerate(rules)}
        return {
            "rules": [None if rule is None else [*rule[:3], list(rule[3])] for rule in rules],
            "of_endings": len(parts[0]),
            "of_readings": [number[rule] for rule in parts[1]],
            "seen": [list(self.seen), [number[rule] for rule in self.seen.values()]],
            "beside": [[token, after, number[rule]] for token, after, rule in beside],
            "several": [[token, [number[rule] for rule in own]] for token, own in self.several.items()],
        }

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of the classifiers."""
        found = {} if self.endings is None else self.endings.arrays()
        if self.readings is not None:
            found |= {f"readings.{name}": array for name, array in self.readings.arrays().items()}
        return found

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, Any]) -> Splitter:
        """Read and check what `state()` and `arrays()` return."""
        rules: list[Rule | None] = [
            None if r is None else (str(r[0]), max(0, int(r[1])), str(r[2]), tuple(str(w) for w in r[3]))
            for r in state["rules"]
        ]
        seen = {str(token): rules[k] for token, k in zip(*state["seen"], strict=True)}
        beside: dict[str, dict[str, Rule | None]] = {}
        for token, after, k in state["beside"]:
            beside.setdefault(str(token), {})[str(after)] = rules[k]
        several = {str(token): [rules[k] for k in own] for token, own in state.get("several", [])}
        endings, readings, count = None, None, int(state["of_endings"])
        if count:
            if not count <= len(rules):
                raise ModelFileError(f"there are no {count} rules for multiword tokens: the file is damaged")
            endings = Chooser.from_arrays(arrays, rules[:count])
        if several:
            own = {n.removeprefix("readings."): a for n, a in arrays.items() if n.startswith("readings.")}
            readings = Chooser.from_arrays(own, [rules[k] for k in state["of_readings"]])
        return cls(seen, endings, beside, several, readings)


def _by_ending(endings: Chooser, tokens: list[str]) -> dict[str, Rule | None]:
    """Return the rule of each token by its ending; a token without letters is one word."""
    letters = [token for token in tokens if any(c.isalpha() for c in token)]
    return {**dict.fromkeys(tokens), **dict(zip(letters, endings.of(_alone(letters)), strict=True))}


def _alone(tokens: list[str]) -> Columns:
    return Columns.from_lists([[token] for token in tokens])


def _around(forms: list[str], low: list[str], at: list[int]) -> Columns:
    """Return the tokens at some places with their neighbours in lower case, - for none."""
    padded = ["-", *low, "-", "-"]
    rows = [[(forms[t], padded[t], padded[t + 2], padded[t + 3])] for t in at]
    return Columns.from_lists(rows, names=("w", "before", "after", "second"))
