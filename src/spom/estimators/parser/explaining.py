"""Why a word has its head and not another: what each template adds to the scores of the two arcs."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.estimators.explanation import Explanation, ordered

NO_OTHER = "no other head"


def template_scores(model: Any, codes: Any, guides: Ints | None) -> list[Floats]:
    """(templates, heads, modifiers) of each sentence: what each template adds to the score of each arc.

    Each template is scored alone, so that this costs one pass for each; it is meant for a few sentences.
    """
    count = len(codes.sizes)
    alone: list[list[Floats]] = [[] for _ in range(count)]
    for block in range(len(model.templates.blocks)):
        one = model.kept(np.array([block]))
        for s in range(count):
            alone[s].append(one.scores(codes, s, guides))
    return [np.array(parts) for parts in alone]


def explain_heads(names: list[str], parts: Floats, heads: Ints, words: list[str]) -> list[Explanation]:
    """For each word of one sentence: its head, against the other head with the highest score.

    The contributions sum to the difference of the scores of the two arcs. The tree decides: a word may have a head with
    a lower score than another one, where that other arc does not fit the rest of the tree.
    """
    total = np.where(np.isneginf(parts).any(axis=0), -np.inf, np.nan_to_num(parts, neginf=0.0).sum(axis=0))
    finite, found = np.nan_to_num(parts, neginf=0.0), []
    for m, head in enumerate(heads.tolist(), 1):
        others = np.where(np.arange(total.shape[0]) == head, -np.inf, total[:, m])
        others[m] = -np.inf
        rival = int(np.argmax(others))
        known = bool(np.isfinite(others[rival]))
        lead = finite[:, head, m] - (finite[:, rival, m] if known else 0.0)
        against = _name(words, rival) if known else NO_OTHER
        found.append(ordered(_name(words, head), against, names, lead, words[m - 1]))
    return found


def _name(words: list[str], place: int) -> str:
    """A head as text: its place and its word."""
    return "the root" if place == 0 else f"{place} {words[place - 1]}"
