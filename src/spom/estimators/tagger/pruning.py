"""What a selection of templates did, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.solvers.structured.chains.knockoffs import Discovery
from spom.solvers.structured.chains.select import Selection


@dataclass
class Pruning:
    """Which templates went, why, and what it cost.

    A template is kept where its evidence is above one: the norm of its mean gradient over the threshold, strength times
    its weight (see `solvers.structured.chains.select`); where a number of templates was asked for, those with the most.
    """

    names: tuple[str, ...]
    sizes: Ints
    selection: Selection
    refit_seconds: float = np.nan

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the templates that are left."""
        return tuple(self.names[m] for m in self.selection.kept)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of those that went."""
        left = set(self.selection.kept.tolist())
        return tuple(name for m, name in enumerate(self.names) if m not in left)

    def _promise(self) -> list[str]:
        """What a selection with knockoffs says of its error."""
        found = self.selection
        if not isinstance(found, Discovery):
            return []
        noise = found.estimate * found.kept.size
        return [f"false discovery rate at most {found.rate:g}; about {noise:.1f} of the kept templates may be noise"]

    def __str__(self) -> str:
        found = self.selection
        width = max((len(name) for name in self.names), default=8)
        left = set(found.kept.tolist())
        lines = [
            *self._promise(),
            f"{len(self.dropped)} of {len(self.names)} templates dropped at strength {found.strength:.4g}, from "
            f"{found.sentences} sentences in {found.seconds:.2f} s; learnt with the rest in {self.refit_seconds:.2f} s",
            f"{'template':<{width}}  {'features':>9}  {'weight':>6}  {'evidence':>8}",
        ]
        for m in np.argsort(-found.evidence, kind="stable"):
            row = f"{self.names[m]:<{width}}  {self.sizes[m]:>9}  {found.weights[m]:>6.2f}  {found.evidence[m]:>8.2f}"
            lines.append(row + ("" if int(m) in left else "  dropped"))
        return "\n".join(lines)


def check_prune(how: Any) -> None:
    """Complain about a `prune` that is none."""
    if isinstance(how, dict):
        rate = how.get("false_discovery_rate")
        if set(how) != {"false_discovery_rate"} or not isinstance(rate, (float, np.floating)) or not 0.0 < rate < 1.0:
            raise ValueError(f"prune as a dict is {{'false_discovery_rate': a number between 0 and 1}}; it is {how!r}")
        return
    number = isinstance(how, (int, float, np.number)) and not isinstance(how, bool) and how > 0
    if how is not None and not (isinstance(how, str) and how == "auto") and not number:
        raise ValueError(f"prune must be 'auto', a number of templates, a strength (a float) or None, not {how!r}")
