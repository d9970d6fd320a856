"""The base of `prune=`: whether a smaller model is good enough on held-out sentences, and a report of the result.

A smaller model is good enough if its score is lower by at most .002 at a risk of one in forty (paired by
sentence: fall + 1.96 standard errors), where a gain counts as no fall: the noise of the difference will be as large on
other sentences. It is also good enough if its score is higher at a risk of one in a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.solvers.knockoffs import Stated

# The risk as a normal quantile, the allowed fall of the score, and the quantile of a clear gain. The guide's page on
# defaults describes how they were chosen.
QUANTILE, FALL, CLEAR = 1.96, 0.002, 3.09
# The number of parts of the sentences, the maximum number that judge, and the minimum number of sentences.
PARTS, JUDGED, FEWEST = 3, 4000, 60


def runs(sentences: Ints) -> list[tuple[Ints, Ints]]:
    """Return (sentences to learn from, sentences to judge by) for each part, a run that rarely cuts a document.

    >>> [held.tolist() for _, held in runs(np.arange(8))]
    [[0, 1, 2], [3, 4, 5], [6, 7]]
    """
    size = max(1, min(JUDGED, -(-sentences.size // PARTS)))
    held = [sentences[a : a + size] for a in range(0, min(sentences.size, JUDGED), size)]
    return [(np.setdiff1d(sentences, part), part) for part in held]


def f1_of(counts: Ints) -> float:
    """2 right / (wanted + found), the accuracy if as many are found as are wanted.

    >>> f1_of(np.array([[2, 2, 1], [3, 1, 1]]))
    0.5
    """
    wanted, found, right = counts.sum(axis=0).tolist()
    return float(2.0 * right / max(1, wanted + found))


def paired_fall(full: Ints, smaller: Ints) -> tuple[float, float]:
    """Return how much lower the second score is, and its standard error, from counts with one row per sentence.

    >>> paired_fall(np.array([[2, 2, 2], [2, 2, 1]]), np.array([[2, 2, 2], [2, 2, 1]]))
    (0.0, 0.0)
    """
    moved = []
    for counts in (full, smaller):
        both = counts[:, 0] + counts[:, 1]
        moved.append((2.0 * counts[:, 2] - f1_of(counts) * both) / max(1, both.sum()))
    return f1_of(full) - f1_of(smaller), float(np.sqrt(np.sum((moved[0] - moved[1]) ** 2)))


def is_worse(full: Ints, smaller: Ints) -> bool:
    """Tell whether the smaller model is clearly worse: more sentences would hardly change the verdict."""
    fall, error = paired_fall(full, smaller)
    return fall - QUANTILE * error > FALL


def will_do(full: Ints, smaller: Ints) -> tuple[bool, str]:
    """Tell whether the smaller model is good enough, and return the figures.

    >>> will_do(np.array([[9, 9, 9], [9, 9, 8]]), np.array([[9, 9, 9], [9, 9, 7]]))
    (False, 'score 0.9444 to 0.8889, at most 0.0770 of noise at a risk of .025')
    """
    return good_enough(f1_of(full), f1_of(smaller), paired_fall(full, smaller)[1])


def good_enough(full: float, smaller: float, error: float) -> tuple[bool, str]:
    """Tell whether a smaller score will do if the difference has this standard error, and return the figures."""
    fall, noise = full - smaller, QUANTILE * error
    safe = max(fall, 0.0) + noise <= FALL or fall + CLEAR * error < 0.0
    return safe, f"score {full:.4f} to {smaller:.4f}, at most {noise:.4f} of noise at a risk of .025"


@dataclass
class Dropping:
    """A report: the blocks `names`, of which `selection.kept` are kept."""

    names: tuple[str, ...]
    selection: Any

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the kept blocks."""
        return tuple(self.names[m] for m in self.selection.kept)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the dropped blocks."""
        left = set(self.selection.kept.tolist())
        return tuple(name for m, name in enumerate(self.names) if m not in left)

    def _promise(self, what: str) -> list[str]:
        """Return the statement of a selection with knockoffs about its error."""
        return [self.selection.promise(what)] if isinstance(self.selection, Stated) else []

    def _table(self, first: tuple[str, str], rows: list[str]) -> list[str]:
        """Return lines with the blocks and `rows`, most evidence first; `first` are the headings of both."""
        width, left = max((len(name) for name in self.names), default=8), set(self.selection.kept.tolist())
        lines = [f"{first[0]:<{width}}{first[1]}"]
        for m in np.argsort(-self.selection.evidence, kind="stable").tolist():
            lines.append(f"{self.names[m]:<{width}}{rows[m]}{'' if m in left else '  dropped'}")
        return lines


def asked_rate(prune: dict[str, Any]) -> float:
    """Return the false discovery rate that `prune` asks for as a dict.

    >>> asked_rate({"false_discovery_rate": 0.1})
    0.1
    """
    rate = prune.get("false_discovery_rate")
    if set(prune) != {"false_discovery_rate"} or not isinstance(rate, (float, np.floating)) or not 0.0 < rate < 1.0:
        raise ValueError(f"prune as a dict is {{'false_discovery_rate': a number between 0 and 1}}; it is {prune!r}")
    return float(rate)
