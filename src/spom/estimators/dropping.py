"""What reports of `prune=` share: the names of the blocks, which stay and which go, and what is promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.solvers.knockoffs import Stated


@dataclass
class Dropping:
    """The blocks `names`, of which `selection.kept` stay."""

    names: tuple[str, ...]
    selection: Any

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the blocks that are left."""
        return tuple(self.names[m] for m in self.selection.kept)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of those that went."""
        left = set(self.selection.kept.tolist())
        return tuple(name for m, name in enumerate(self.names) if m not in left)

    def _promise(self, what: str) -> list[str]:
        """What a selection with knockoffs says of its error."""
        return [self.selection.promise(what)] if isinstance(self.selection, Stated) else []

    def _table(self, first: tuple[str, str], rows: list[str]) -> list[str]:
        """Lines with the blocks and `rows`, most evidence first; `first` are the headings of both."""
        width, left = max((len(name) for name in self.names), default=8), set(self.selection.kept.tolist())
        lines = [f"{first[0]:<{width}}{first[1]}"]
        for m in np.argsort(-self.selection.evidence, kind="stable").tolist():
            lines.append(f"{self.names[m]:<{width}}{rows[m]}{'' if m in left else '  dropped'}")
        return lines


def asked_rate(prune: dict[str, Any]) -> float:
    """The false discovery rate that `prune` asks for as a dict.

    >>> asked_rate({"false_discovery_rate": 0.1})
    0.1
    """
    rate = prune.get("false_discovery_rate")
    if set(prune) != {"false_discovery_rate"} or not isinstance(rate, (float, np.floating)) or not 0.0 < rate < 1.0:
        raise ValueError(f"prune as a dict is {{'false_discovery_rate': a number between 0 and 1}}; it is {prune!r}")
    return float(rate)
