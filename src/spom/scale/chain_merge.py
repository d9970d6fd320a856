"""Merge the tagger tables that shards return: sums of dual averaging, or mean weights followed by the prox.

Sums of gradients and of squares are added in shard order. Only rows that a shard changed come back, as differences. See
`spom.scale.linear_merge` for why the sums are divided by the number of shards. Under block penalties, weights are
averaged, and the prox of the blocks' norms follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles, aligned_singles
from spom.core.jit import kernel
from spom.errors import Unsupported
from spom.penalties.forms import of_norms
from spom.solvers.structured.chains.adaptive_engine import GRADIENTS, RATES, AdaptiveEngine
from spom.solvers.structured.chains.scaled_engine import BlockEngine
from spom.solvers.structured.chains.scaled_rounds import PEAK, SCALE, SQUARED, SUM

# --- block penalties: mean weights ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A shard's changes of the tables: the rows of large tables that changed, and the small tables whole."""

    rows: Ints
    large: dict[str, Singles]
    small: Arrays
    sentences: int
    loss: float


@dataclass(frozen=True)
class Merged:
    """The merged tables, the number of sentences of all shards, and the sum of their losses."""

    arrays: Arrays
    sentences: int
    loss: float


# The tables that have a row per feature.
LARGE = ("table", "average")


def change_of(engine: Any, before: Arrays, sentences: int, loss: float) -> Change:
    """Return the changes since the tables `before`: rows that did not change are not sent."""
    now = engine.pack()
    large = {name: now.pop(name) for name in LARGE if name in now}
    differs = np.zeros(large["table"].shape[0], dtype=bool)
    for name, a in large.items():
        if a.shape[0] == differs.size:
            differs |= (a != before[name]).any(axis=1)
    rows = np.flatnonzero(differs)
    sent = {name: a[rows] for name, a in large.items() if a.shape[0] == differs.size}
    return Change(rows, sent, now, sentences, loss)


def merge_changes(solver: Any, before: Arrays, parts: Iterator[Change]) -> Merged:
    """Average the weights, weighted by sentences, then apply the prox of the blocks' norms.

    If the engine averages iterates, their sums are averaged as well.
    """
    engine = solver.engine
    if not isinstance(engine, BlockEngine) or engine.rule.dual:
        raise Unsupported(
            "shards do not support dual averaging of blocks: take update='forward-backward', or a penalty of single "
            "weights such as L1"
        )
    averaged, block = engine.averaged, engine.scaled.block
    W, S = np.zeros(before["table"].shape), np.zeros(before["average"].shape)
    chain, chain_sum = np.zeros(before["chain_table"].shape), np.zeros(before["chain_average"].shape)
    sentences, most, loss = 0, 0, 0.0
    for part in parts:
        n = part.sentences
        sentences, most, loss = sentences + n, max(most, n), loss + part.loss
        table, average, numbers = before["table"].copy(), before["average"].copy(), part.small["numbers"]
        table[part.rows] = part.large["table"]
        if averaged:
            average[part.rows] = part.large["average"]
            S += n * (numbers[SUM, :-1][block][:, None] * table - average)
            chain_sum += n * (numbers[SUM, -1] * part.small["chain_table"] - part.small["chain_average"])
        W += n * (numbers[SCALE, :-1][block][:, None] * table)
        chain += n * (numbers[SCALE, -1] * part.small["chain_table"])
    mass = max(1, sentences)
    W, chain = _shrunk(solver, W / mass, chain / mass)
    rounds = int(before["rounds"]) + most
    numbers = before["numbers"].copy()
    numbers[SCALE], numbers[SUM] = 1.0, float(rounds)
    found = {
        "table": W.astype(np.float32),
        "average": (rounds * W - S / mass).astype(np.float32) if averaged else before["average"],
        "chain_table": chain,
        "chain_average": rounds * chain - chain_sum / mass if averaged else before["chain_average"],
        "numbers": _norms(numbers, W, chain, engine.blocks.starts),
        "rounds": np.array(rounds),
    }
    return Merged(found, sentences, loss)


def _shrunk(solver: Any, W: Floats, chain: Floats) -> tuple[Floats, Floats]:
    """Take one more proximal step on the norms of the blocks, with the current step size."""
    learnt = solver.transitions == "learnt"
    spans = list(pairwise(solver.blocks.starts.tolist()))
    norms = np.sqrt(
        [float(np.vdot(W[a:b], W[a:b])) for a, b in spans] + ([float(np.vdot(chain, chain))] if learnt else [])
    )
    eta = float(solver.step.sizes(solver.done + 1, 1, 1)[0])
    after = of_norms(solver.penalty, len(spans), learnt).prox(norms, eta)
    scale = np.divide(after, norms, out=np.zeros_like(norms), where=norms > 0.0)
    for (a, b), factor in zip(spans, scale, strict=False):
        W[a:b] *= factor
    return W, chain * scale[-1] if learnt else chain


def _norms(numbers: Floats, W: Floats, chain: Floats, starts: Ints) -> Floats:
    singles = W.astype(np.float32)
    squares = [float(np.vdot(singles[a:b], singles[a:b])) for a, b in pairwise(starts.tolist())]
    numbers[SQUARED] = numbers[PEAK] = [*squares, float(np.vdot(chain, chain))]
    return numbers


# --- penalties on single weights: sums of dual averaging -----------------------------------------------------


@dataclass(frozen=True)
class Added:
    """A shard's additions to rows of the table (gradients, then squares) and to the chain, and its last step."""

    rows: Ints
    table: Singles
    chain: Floats
    eta: float
    sentences: int
    loss: float


@kernel("int64(float32[:, ::1], float32[:, ::1], int64[::1], float32, int64[::1])")
def take_added(now: Singles, before: Singles, ids: Ints, delta: Any, rows: Ints) -> int:
    """Reduce `now` to what was added to rows `ids` of `before`; write their ids to `rows` and return their number."""
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
    """Add the sums times `share` to the table, and reset them to zero."""
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
    """Return what a shard's engine with the features `ids` added to the tables; overwrites the engine's own table."""
    rows, delta = np.empty(ids.size, dtype=np.int64), engine.rates.delta
    count = take_added(engine.sums.table, before["table"], ids, np.float32(delta), rows)
    old, new = before["chain"], engine.sums.chain
    chain = np.stack([new[GRADIENTS] - old[GRADIENTS], _squares(new[RATES], delta) - _squares(old[RATES], delta)])
    return Added(rows[:count], engine.sums.table[:count], chain, engine.eta, sentences, loss)


class Summing:
    """Adds the mean of the shards' additions to an engine; the table of sums is reused in each round."""

    def __init__(self, engine: AdaptiveEngine) -> None:
        self.engine = engine
        self._total = aligned_singles(engine.sums.table.size).reshape(engine.sums.table.shape)

    def add(self, parts: Iterator[Added]) -> tuple[int, float]:
        """Merge one round; return the number of sentences of all shards, and the sum of losses."""
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
