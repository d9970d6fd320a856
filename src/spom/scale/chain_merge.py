"""Tables of taggers with penalties of blocks that become one: mean weights, and the prox after them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints, Singles
from spom.errors import Unsupported
from spom.penalties.forms import of_norms
from spom.solvers.structured.chains.scaled_engine import BlockEngine
from spom.solvers.structured.chains.scaled_rounds import SCALE, SUM


@dataclass(frozen=True)
class Change:
    """What a shard made of the tables: those rows of the large ones that changed, and the small ones whole."""

    rows: Ints
    large: dict[str, Singles]
    small: Arrays
    sentences: int
    loss: float


@dataclass(frozen=True)
class Merged:
    """The tables of all shards, their sentences, and the sum of the losses met."""

    arrays: Arrays
    sentences: int
    loss: float


# The tables that have a row for each feature.
LARGE = ("table", "average")


def change_of(engine: Any, before: Arrays, sentences: int, loss: float) -> Change:
    """What has changed since these tables: rows that did not change are not sent."""
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
    """Mean weights, weighted by sentences, and the prox of the blocks' norms after them.

    Where the mean of all iterates is wanted, the sums of iterates are averaged as well.
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
    """One more proximal step on the norms of the blocks, with the step of this time."""
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
    from spom.solvers.structured.chains.scaled_rounds import PEAK, SQUARED

    singles = W.astype(np.float32)
    squares = [float(np.vdot(singles[a:b], singles[a:b])) for a, b in pairwise(starts.tolist())]
    numbers[SQUARED] = numbers[PEAK] = [*squares, float(np.vdot(chain, chain))]
    return numbers
