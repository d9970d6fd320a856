"""Tables of dual averaging that become one: sums of gradients and of squares, added up in the order of shards.

Only rows that a shard changed come back, as what it added to them. See `spom.scale.linear_merge` for why the sums are
divided by the number of shards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles, aligned_singles
from spom.core.jit import kernel
from spom.solvers.structured.chains.adaptive_engine import GRADIENTS, RATES, AdaptiveEngine


@dataclass(frozen=True)
class Added:
    """What a shard added: to rows of the table (gradients, then squares), to the chain, and its last step."""

    rows: Ints
    table: Singles
    chain: Floats
    eta: float
    sentences: int
    loss: float


@kernel("int64(float32[:, ::1], float32[:, ::1], int64[::1], float32, int64[::1])")
def take_added(now: Singles, before: Singles, ids: Ints, delta: Any, rows: Ints) -> int:
    """Leave in the first rows of `now` what was added to rows `ids` of `before`, and in `rows` which; how many."""
    count, lanes = 0, now.shape[1] // 2
    for i in range(now.shape[0]):
        new, old, into, differs = now[i], before[ids[i]], now[count], False
        for q in range(2 * lanes):
            differs |= new[q] != old[q]
        if not differs:
            continue
        for q in range(lanes):
            into[q] = new[q] - old[q]
        for q in range(lanes, 2 * lanes):
            a, b = new[q] - delta, old[q] - delta
            into[q] = a * a - b * b
        rows[count] = ids[i]
        count += 1
    return count


@kernel("void(float32[:, ::1], int64[::1], float32[:, ::1])")
def add_rows(total: Singles, rows: Ints, part: Singles) -> None:
    """total[rows] += part."""
    for i in range(rows.size):
        into, more = total[rows[i]], part[i]
        for q in range(total.shape[1]):
            into[q] += more[q]


@kernel("void(float32[:, ::1], float32[:, ::1], float32, float32, boolean)")
def apply_total(table: Singles, total: Singles, share: Any, delta: Any, adaptive: bool) -> None:
    """Add the sums times `share` to the table, and set them to zero."""
    lanes, zero = table.shape[1] // 2, np.float32(0.0)
    for i in range(table.shape[0]):
        row, more = table[i], total[i]
        for q in range(lanes):
            row[q] += more[q] * share
            more[q] = zero
        for q in range(lanes, 2 * lanes):
            if adaptive and more[q] != zero:
                s = row[q] - delta
                row[q] = delta + np.float32(math.sqrt(max(s * s + more[q] * share, zero)))
            more[q] = zero


def added_of(engine: AdaptiveEngine, ids: Ints, before: Arrays, sentences: int, loss: float) -> Added:
    """What the engine of a shard, with the features `ids`, added to the tables; its own table is used up."""
    rows, delta = np.empty(ids.size, dtype=np.int64), engine.rates.delta
    count = take_added(engine.sums.table, before["table"], ids, np.float32(delta), rows)
    old, new = before["chain"], engine.sums.chain
    chain = np.stack([new[GRADIENTS] - old[GRADIENTS], _squares(new[RATES], delta) - _squares(old[RATES], delta)])
    return Added(rows[:count], engine.sums.table[:count], chain, engine.eta, sentences, loss)


class Summing:
    """Adds what all shards added, over their number, to an engine; the table of sums is used again in each round."""

    def __init__(self, engine: AdaptiveEngine) -> None:
        self.engine = engine
        self._total = aligned_singles(engine.sums.table.size).reshape(engine.sums.table.shape)

    def add(self, parts: Iterator[Added]) -> tuple[int, float]:
        """One round; the sentences of all shards, and the sum of losses."""
        engine, total = self.engine, self._total
        edges, delta, adaptive = engine.sums.chain, engine.rates.delta, engine.rates.adaptive
        chain, count, sentences, loss, eta = np.zeros_like(edges), 0, 0, 0.0, engine.eta
        for part in parts:
            add_rows(total, part.rows, part.table)
            chain += part.chain
            count, sentences, loss, eta = count + 1, sentences + part.sentences, loss + part.loss, part.eta
        share = max(1, count)
        apply_total(engine.sums.table, total, np.float32(1.0 / share), np.float32(delta), adaptive)
        edges[GRADIENTS] += chain[GRADIENTS] / share
        if adaptive:
            squares = _squares(edges[RATES], delta) + chain[RATES] / share
            edges[RATES] = delta + np.sqrt(np.maximum(squares, 0.0))
        engine.rounds, engine.eta = engine.rounds + -(-sentences // share), eta
        return sentences, loss


def _squares(rates: Floats, delta: float) -> Floats:
    return np.asarray((rates - delta) ** 2)
