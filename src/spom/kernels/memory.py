"""The memory that Gram matrices may take, and the form in which they fit into it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from spom.errors import DataError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
# The cache must hold this share of the rows; with less, most rows are recomputed many times.
LEAST_SHARE = 0.02


def parse_memory(memory: str | int | float) -> int:
    """Return a number of bytes, given as a number or as a text such as "2GB" or "512 MiB".

    >>> parse_memory("2GB")
    2000000000
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([A-Z]*)\s*", str(memory).upper().replace("E", "e"))
    if isinstance(memory, bool) or found is None or found[2] not in UNITS or float(found[1]) <= 0:
        raise ValueError(f"memory must be a number of bytes or a text such as '2GB'; it is {memory!r}")
    return int(float(found[1]) * UNITS[found[2]])


def show_bytes(count: float) -> str:
    """Return a size as readable text: 1.5 GB."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


@dataclass(frozen=True)
class Plan:
    """The form of the Gram matrices: "kept", "rows" (computed on demand, `slots` of them cached) or "features"."""

    form: str
    slots: int
    components: int
    message: str


def plan(
    kernels: list[Any], n: int, *, memory: str | int | float, itemsize: int, reserve: int = 0, at_once: int = 1
) -> Plan:
    """Choose the best form that fits: `reserve` bytes have other uses, and `at_once` rows per kernel are held together.

    >>> from spom.kernels import Gaussian
    >>> plan([Gaussian(1.0)], 10_000, memory="1GB", itemsize=4).form
    'kept'
    >>> plan([Gaussian(1.0)], 60_000, memory="1GB", itemsize=4).form
    'rows'
    """
    budget = parse_memory(memory)
    # A sparse kernel has a value and a column index per nonzero entry.
    share = [1.0 - getattr(k, "zeros", 0.9) if k.sparse else 1.0 for k in kernels]
    whole = int(sum(s * n * n * (itemsize if s == 1.0 else itemsize + 4) for s in share))
    row = n * itemsize
    free = budget - reserve
    count = len(kernels)
    what = f"{count} Gram {'matrix' if count == 1 else 'matrices'} of {n} rows"
    if whole <= free:
        return Plan("kept", 0, 0, f"{what}: {show_bytes(whole)} of {show_bytes(budget)}, kept in memory")
    # Rows come in batches, and processing a batch takes some copies.
    slots = (free - min(free // 4, 1000 * row)) // row
    if slots < count * at_once:
        least = reserve + 2 * row * count * at_once
        raise DataError(
            f"memory={memory!r} is too small: {count * at_once} rows of {n} entries must be there at the same time, "
            f"and the solver itself needs {show_bytes(reserve)}; give at least {show_bytes(least)}"
        )
    if slots >= LEAST_SHARE * n * count:
        held = f"a cache of {show_bytes(slots * row)} holds {slots} of {n * count}"
        return Plan("rows", int(slots), 0, f"{what} would take {show_bytes(whole)}: rows are computed, and {held}")
    # Three arrays of this width are held while features are computed.
    components = max(1, min(n, 2000, int(free // (3 * row * count))))
    return Plan(
        "features",
        0,
        components,
        f"{what} would take {show_bytes(whole)}, and a cache in {show_bytes(budget)} would hold only "
        f"{slots / (n * count):.2%} of the rows: each kernel becomes {components} explicit features (Nystroem)",
    )
