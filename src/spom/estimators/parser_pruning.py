"""Which templates a parser needs: they are ranked by what they had learnt when it was needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.estimators.parser_stages import Run
from spom.features.arcs import ArcCodes, ArcTemplates

AUTO_SHARE = 0.2


@dataclass(frozen=True)
class Pruning:
    """`scores` rank the `names`, of which `kept` (booleans) stayed; `why` says how, `seconds` what it cost."""

    names: list[str]
    scores: Floats
    kept: Any
    why: str
    seconds: float

    def table(self, count: int | None = None) -> str:
        """The templates from the best to the worst with their scores; those that were dropped have a minus."""
        order = np.argsort(-self.scores, kind="stable")[:count]
        rows = [f"{'+' if self.kept[k] else '-'} {self.scores[k]:10.4g}  {self.names[k]}" for k in order]
        return "\n".join([self.why, *rows])

    def __repr__(self) -> str:
        return f"Pruning({int(self.kept.sum())} of {len(self.names)} templates kept: {self.why})"


def how_many(prune: Any, count: int) -> int:
    """The number of templates to keep that `prune` means, of `count`."""
    if prune == "auto":
        return max(1, round(AUTO_SHARE * count))
    if isinstance(prune, bool) or not isinstance(prune, (int, float, np.integer, np.floating)) or not prune > 0:
        raise ValueError(f"prune must be None, 'auto', a number of templates or a share below one; it is {prune!r}")
    if prune < 1:
        return max(1, round(float(prune) * count))
    return min(int(prune), count)


def select_templates(
    run: Run, templates: ArcTemplates, codes: ArcCodes, gold: Ints, prune: Any
) -> tuple[ArcTemplates, Pruning]:
    """The best templates by progressive score: sum over sentences of (what a block had learnt) . (minus its gradient).

    One epoch of learning without a penalty gives it at no cost of its own.
    """
    solver = run.solver(templates, codes, gold, penalty=None)
    solver.epoch()
    scores = solver.progress
    kept = choose(templates, scores, how_many(prune, scores.size))
    why = f"progressive score after one epoch over {codes.first.size} sentences"
    mask = np.zeros(scores.size, dtype=bool)
    mask[kept] = True
    return templates.keep(kept), Pruning(templates.blocks, scores, mask, why, solver.seconds)


def choose(templates: ArcTemplates, scores: Floats, count: int) -> Ints:
    """The templates to keep: those with the highest scores."""
    return np.sort(np.argsort(-scores, kind="stable")[:count])
