"""What a selection of templates did, for people to read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spom.core.arrays import Ints
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

    def __str__(self) -> str:
        found = self.selection
        width = max((len(name) for name in self.names), default=8)
        left = set(found.kept.tolist())
        lines = [
            f"{len(self.dropped)} of {len(self.names)} templates dropped at strength {found.strength:.4g}, from "
            f"{found.sentences} sentences in {found.seconds:.2f} s; learnt with the rest in {self.refit_seconds:.2f} s",
            f"{'template':<{width}}  {'features':>9}  {'weight':>6}  {'evidence':>8}",
        ]
        for m in np.argsort(-found.evidence, kind="stable"):
            row = f"{self.names[m]:<{width}}  {self.sizes[m]:>9}  {found.weights[m]:>6.2f}  {found.evidence[m]:>8.2f}"
            lines.append(row + ("" if int(m) in left else "  dropped"))
        return "\n".join(lines)
