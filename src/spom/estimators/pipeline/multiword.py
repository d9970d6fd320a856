"""Multiword tokens: `du` is the words `de le`. What was seen is split as it was seen, other tokens by their endings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from spom.data.surface import Surface
from spom.data.treebank import Treebank

# A rule keeps an end of the token, takes the other off, and adds letters and words: (side, taken, added, words).
Rule = tuple[str, int, str, tuple[str, ...]]
_LONGEST = 6
# How many different tokens an ending must have been seen with, before it decides for tokens that were not seen.
_ENOUGH = 3


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


@dataclass
class Splitter:
    """Rules by token in lower case (None: one word), and by ending for tokens that were not seen."""

    seen: dict[str, Rule | None] = field(default_factory=dict)
    endings: dict[str, Rule] = field(default_factory=dict)

    @classmethod
    def fit(cls, surface: Surface, bank: Treebank) -> Splitter:
        """Learn from the multiword tokens of a treebank."""
        forms = [form for sentence in bank.columns.strings("form") for form in sentence]
        counts: dict[str, Counter[Rule | None]] = {}
        any_rule = False
        for token, (a, b) in zip(surface.forms, pairwise(surface.words.tolist()), strict=True):
            rule = None if b - a == 1 else rule_of(token, forms[a:b])
            any_rule = any_rule or rule is not None
            counts.setdefault(token.lower(), Counter())[rule] += 1
        if not any_rule:
            return cls()
        best = {token: rules.most_common(1)[0][0] for token, rules in counts.items()}
        found = cls._endings(best)
        # A token that its ending decides rightly, or that is split by no rule, need not be kept.
        splitter = cls({}, found)
        splitter.seen = {token: rule for token, rule in best.items() if splitter._by_ending(token) != rule}
        return splitter

    @staticmethod
    def _endings(best: dict[str, Rule | None]) -> dict[str, Rule]:
        """Endings most of whose tokens follow one rule."""
        by_ending: dict[str, Counter[Rule | None]] = {}
        for token, rule in best.items():
            for size in range(1, min(_LONGEST, len(token) - 1) + 1):
                by_ending.setdefault(token[-size:], Counter())[rule] += 1
        found: dict[str, Rule] = {}
        for ending, rules in by_ending.items():
            rule, count = rules.most_common(1)[0]
            total = sum(rules.values())
            if rule is not None and total >= _ENOUGH and 2 * count > total:
                found[ending] = rule
        return found

    def _by_ending(self, token: str) -> Rule | None:
        for size in range(min(_LONGEST, len(token) - 1), 0, -1):
            if token[-size:] in self.endings:
                return self.endings[token[-size:]]
        return None

    def words(self, token: str) -> list[str] | None:
        """The words of a token, or None where it is one word."""
        low = token.lower()
        rule = self.seen[low] if low in self.seen else self._by_ending(low)
        return None if rule is None or len(low) != len(token) else apply_rule(token, rule)

    def __bool__(self) -> bool:
        return bool(self.seen or self.endings)

    def state(self) -> dict[str, Any]:
        """Everything as lists and text, for a model file."""
        rules = list(dict.fromkeys([*self.seen.values(), *self.endings.values()]))
        number = {rule: k for k, rule in enumerate(rules)}
        return {
            "rules": [None if rule is None else [*rule[:3], list(rule[3])] for rule in rules],
            "seen": [list(self.seen), [number[rule] for rule in self.seen.values()]],
            "endings": [list(self.endings), [number[rule] for rule in self.endings.values()]],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Splitter:
        """What `state()` gave."""
        rules: list[Rule | None] = [
            None if r is None else (str(r[0]), max(0, int(r[1])), str(r[2]), tuple(str(w) for w in r[3]))
            for r in state["rules"]
        ]
        seen = {str(token): rules[k] for token, k in zip(*state["seen"], strict=True)}
        endings = {str(e): rule for e, k in zip(*state["endings"], strict=True) if (rule := rules[k]) is not None}
        return cls(seen, endings)
