"""`prune=` of estimators with kernels: selection by knockoffs, and a report of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spom.core.arrays import Floats, Ints
from spom.errors import Unsupported
from spom.estimators.mkl.training import Blocks
from spom.estimators.pruning import Dropping, asked_rate
from spom.solvers.mkl.knockoffs import KernelSelection, select_kernels


@dataclass
class KernelPruning(Dropping):
    """The dropped kernels, the evidence, and the cost of the selection."""

    selection: KernelSelection

    def __str__(self) -> str:
        found = self.selection
        head = (
            f"{len(self.dropped)} of {len(self.names)} kernels dropped, from {found.rows} rows in {found.seconds:.2f} s"
        )
        rows = [f"  {e:>8.2f}" for e in found.evidence]
        return "\n".join([*self._promise("kernels"), head, *self._table(("kernel", f"  {'evidence':>8}"), rows)])


def pruned(prune: Any, blocks: Blocks, X: Any, targets: Floats, seed: int) -> tuple[Blocks, KernelPruning | None]:
    """Return the blocks that `prune` keeps, and the report; all blocks without it. `targets` go to `select_kernels`."""
    if prune is None:
        return blocks, None
    if not isinstance(prune, dict):
        raise ValueError(f"prune must be {{'false_discovery_rate': a number between 0 and 1}} or None; it is {prune!r}")
    rate = asked_rate(prune)
    if blocks.explicit:
        raise Unsupported("prune= chooses among kernels, and these are explicit features: give more memory, or None")

    def block(m: int, rows: Ints) -> Any:
        return blocks.block(m, X, rows, rows)

    found = select_kernels(block, len(blocks.grams), targets, rate, seed)
    found.check_some("kernels")
    names = tuple(repr(kernel) for kernel in blocks.kernels) or tuple(map(str, range(len(blocks.grams))))
    return blocks.some(found.kept), KernelPruning(names, found)
