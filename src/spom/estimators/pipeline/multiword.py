"""Multiword tokens: `du` is the words `de le`. What was seen is split as it was seen, other tokens by their endings."""

from __future__ import annotations

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

# A rule keeps an end of the token, takes the other off, and adds letters and words: (side, taken, added, words).
Rule = tuple[str, int, str, tuple[str, ...]]
# Unseen tokens of dev sets that are split wrongly: Turkish 110 of 3,173, Portuguese 3 of 2,475, EWT 14 of 1,754. With
# prefixes, or a strength of 1e-6, up to 8 more.
TEMPLATES = (*(f"w.suffix{k}[0]" for k in range(1, 9)), "w.shape[0]", "w.length[0]")
STRENGTH = 1e-5
EPOCHS = 8


def rule_of(token: str, words: list[str]) -> Rule:
    """How to get the words from the token: the one of the two rules that keeps more of it.

    >>> rule_of("du", ["de", "le"])
    ('first', 1, 'e', ('le',))
    >>> rule_of("vámonos", ["vamos", "nos"])
    ('last', 4, '', ('vamos',))
    """
    low, lower = token.lower(), [word.lower() for word in words]
    kept = _common(low, lower[0])
    kept_last = _common(low[::-1], lower[-1][::-1])
    if kept >= kept_last:
        return "first", len(low) - kept, lower[0][kept:], tuple(lower[1:])
    added = lower[-1][: len(lower[-1]) - kept_last]
    return "last", len(low) - kept_last, added, tuple(lower[:-1])


def apply_rule(token: str, rule: Rule) -> list[str] | None:
    """The words of a token, in its case; None where it is too short for the rule."""
    side, taken, added, words = rule
    if taken > len(token):
        return None
    first = side == "first"
    found = [token[: len(token) - taken] + added, *words] if first else [*words, added + token[taken:]]
    if len(token) > 1 and token.isupper():
        found = [word.upper() for word in found]
    elif (token[:1].isupper() and side == "last") or (token[:1].isupper() and taken == len(token)):
        found[0] = found[0][:1].upper() + found[0][1:]
    return found if all(found) else None


def _common(a: str, b: str) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


@dataclass(frozen=True)
class Endings:
    """A classifier of rules by the ends of tokens, for those that were not seen."""

    rules: list[Rule | None]
    templates: Templates
    weights: SparseWeights

    @classmethod
    def fit(cls, best: dict[str, Rule | None], seed: int) -> Endings:
        """Learn from the rule of each different token in lower case."""
        number: dict[Rule | None, int] = {}
        y = np.array([number.setdefault(rule, len(number)) for rule in best.values()])
        templates = Templates(TEMPLATES)
        tokens = as_tokens(templates.fit(Columns.from_lists([[token] for token in best])))
        solver = SparseChain(
            tokens, y, len(number), features=templates.n_features, l1=STRENGTH, transitions=False, epochs=EPOCHS,
            random_state=seed,
        )  # fmt: skip
        for _ in solver.passes():
            pass
        weights = solver.weights()
        used = weights.used()
        return cls(list(number), templates.compact(used), weights.only(used))

    def of(self, tokens: list[str]) -> list[Rule | None]:
        """The rule of each token in lower case."""
        if not tokens:
            return []
        rows = as_tokens(self.templates.transform(Columns.from_lists([[token] for token in tokens])))
        return [self.rules[k] for k in self.weights.tag(rows).tolist()]


@dataclass
class Splitter:
    """Rules by token in lower case (None: one word); `endings` decides for tokens that are not among them.

    `beside` has the tokens that another token after them decides, by that token: `its` is one word, `its not` three.
    """

    seen: dict[str, Rule | None] = field(default_factory=dict)
    endings: Endings | None = None
    beside: dict[str, dict[str, Rule | None]] = field(default_factory=dict)

    @classmethod
    def fit(cls, surface: Surface, bank: Treebank, seed: int = 0) -> Splitter:
        """Learn from the multiword tokens of a treebank."""
        forms = [form for sentence in bank.columns.strings("form") for form in sentence]
        bounds = pairwise(surface.words.tolist())
        rules = [
            None if b - a == 1 else rule_of(token, forms[a:b])
            for token, (a, b) in zip(surface.forms, bounds, strict=True)
        ]
        if not any(rules):
            return cls()
        counts: dict[str, Counter[Rule | None]] = {}
        for token, rule in zip(surface.forms, rules, strict=True):
            counts.setdefault(token.lower(), Counter())[rule] += 1
        best = {token: own.most_common(1)[0][0] for token, own in counts.items()}
        endings = Endings.fit(best, seed)
        # A token whose ending decides rightly need not be kept.
        guessed = zip(best, endings.of(list(best)), strict=True)
        seen = {token: best[token] for token, rule in guessed if rule != best[token]}
        return cls(seen, endings, cls._beside(surface, rules, best))

    @staticmethod
    def _beside(
        surface: Surface, rules: list[Rule | None], best: dict[str, Rule | None]
    ) -> dict[str, dict[str, Rule | None]]:
        """Tokens that most often follow another rule than their own before a certain token, twice or more."""
        low = [token.lower() for token in surface.forms]
        unsure = {token for token, rule in zip(low, rules, strict=True) if rule != best[token]}
        counts: dict[tuple[str, str], Counter[Rule | None]] = {}
        for token, following, rule in zip(low, [*low[1:], ""], rules, strict=True):
            if token in unsure:
                counts.setdefault((token, following), Counter())[rule] += 1
        found: dict[str, dict[str, Rule | None]] = {}
        for (token, following), own in counts.items():
            rule, count = own.most_common(1)[0]
            if rule != best[token] and count >= 2 and 2 * count > own.total():
                found.setdefault(token, {})[following] = rule
        return found

    def split(self, tokens: Strings) -> tuple[Strings, Ints]:
        """(the words of the tokens of a text, the first word of each token and of the end)."""
        strings, codes = tokens.strings, tokens.codes
        if self.endings is None:
            return tokens, np.arange(codes.size + 1, dtype=np.int64)
        low = [token.lower() for token in strings]
        unknown = [token for token in dict.fromkeys(low) if token not in self.seen]
        rules = {**self.seen, **dict(zip(unknown, self.endings.of(unknown), strict=True))}
        # A token with a rule that the one after it asks for is a string of its own.
        own: dict[tuple[int, Rule | None], int] = {(k, rules[token]): k for k, token in enumerate(low)}
        beside = np.array([token in self.beside for token in low], dtype=bool)
        at = np.flatnonzero(beside[codes])
        following = [low[k] for k in codes[at[at + 1 < codes.size] + 1].tolist()] + [""]
        codes = codes.copy()
        for t, token, after in zip(at.tolist(), codes[at].tolist(), following, strict=False):
            rule = self.beside[low[token]].get(after, rules[low[token]])
            codes[t] = own.setdefault((token, rule), len(own))
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

    def words(self, token: str) -> list[str] | None:
        """The words of a token alone, or None where it is one word."""
        found = self.split(Strings(np.zeros(1, dtype=np.int64), [token]))[0]
        words = [found.strings[k] for k in found.codes.tolist()]
        return None if words == [token] else words

    def __bool__(self) -> bool:
        return self.endings is not None

    def state(self) -> dict[str, Any]:
        """Everything but the arrays as lists and text, for a model file."""
        beside = [(token, after, rule) for token, own in self.beside.items() for after, rule in own.items()]
        of_endings = [] if self.endings is None else self.endings.rules
        rules = list(dict.fromkeys([*of_endings, *self.seen.values(), *(rule for _, _, rule in beside)]))
        number = {rule: k for k, rule in enumerate(rules)}
        return {
            "rules": [None if rule is None else [*rule[:3], list(rule[3])] for rule in rules],
            "of_endings": len(of_endings),
            "seen": [list(self.seen), [number[rule] for rule in self.seen.values()]],
            "beside": [[token, after, number[rule]] for token, after, rule in beside],
        }

    def arrays(self) -> dict[str, Any]:
        """The arrays of the endings."""
        if self.endings is None:
            return {}
        own = self.endings.templates.arrays()
        return {f"features.{name}": array for name, array in own.items()} | weight_arrays(self.endings.weights)

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, Any]) -> Splitter:
        """What `state()` and `arrays()` gave, checked."""
        rules: list[Rule | None] = [
            None if r is None else (str(r[0]), max(0, int(r[1])), str(r[2]), tuple(str(w) for w in r[3]))
            for r in state["rules"]
        ]
        seen = {str(token): rules[k] for token, k in zip(*state["seen"], strict=True)}
        beside: dict[str, dict[str, Rule | None]] = {}
        for token, after, k in state["beside"]:
            beside.setdefault(str(token), {})[str(after)] = rules[k]
        endings, count = None, int(state["of_endings"])
        if count:
            if not count <= len(rules):
                raise ModelFileError(f"there are no {count} rules for multiword tokens: the file is damaged")
            own = {n.removeprefix("features."): a for n, a in arrays.items() if n.startswith("features.")}
            templates = Templates.from_arrays(own)
            endings = Endings(rules[:count], templates, weights_from(arrays, templates.n_features, count))
        return cls(seen, endings, beside)
