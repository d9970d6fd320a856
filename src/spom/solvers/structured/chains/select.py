r"""Selection of the blocks of features that a chain needs: group dual averaging with the log loss, on some sentences.

    theta_m = -eta u_m max(0, 1 - t s d_m / norm(u_m)),   u_m the sum of all gradients of block m in t rounds

The gradient of one sentence has about the same norm in every block, and any step along it refills all blocks. Sums of
gradients average this noise away: norm(u_m) / t tends to what the block could still explain, and the blocks below
s d_m stay exactly zero. The strength is a multiple of the level of pure noise, rms(norm of a gradient) /
sqrt(sentences). The weights d_m are sqrt(concentration), scaled to mean 1, where concentration is the norm of the
features' shares of tokens: a template with few frequent features has larger sums of pure noise than one with many rare
ones. The weights of the kept blocks are shrunk, so the method includes a refit on these blocks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.data.columns import gather
from spom.features.rows import Blocks
from spom.penalties import GroupLasso
from spom.penalties.forms import compiled_prox
from spom.solvers.structured.chains.data import Tokens, block_weights, restricted
from spom.solvers.structured.chains.scaled_engine import BlockEngine
from spom.solvers.structured.chains.scaled_rounds import SCALE, SQUARED, BlockRule
from spom.solvers.structured.chains.sentence import Rounds, gradient_noise
from spom.solvers.structured.structures import LOG, Loss, structure

ETA, EPOCHS, SKIP = 0.1, 3, 0.95
# The minimum number of sentences that a selection uses, and its share of a large set.
LEAST, SHARE = 1500, 0.1
# The strength in units of noise / sqrt(sentences), and the number of sentences from which the noise is estimated.
UNITS, SAMPLE = 1.5, 500


@dataclass(frozen=True)
class Selection:
    """The result of a selection: block m is kept if its evidence norm(u_m) / (t s d_m) is above 1."""

    kept: Ints
    evidence: Floats
    weights: Floats
    strength: float
    noise: float
    sentences: int
    seconds: float


def select(
    tokens: Tokens,
    y: Ints,
    blocks: Blocks,
    forbidden: Floats,
    how: Any,
    *,
    transitions: str | None = "fixed",
    random_state: Any = None,
    part: Ints | None = None,
) -> Selection:
    """Return the blocks to keep: `how` is `"auto"`, a number of blocks (an integer), or a strength (a float).

    It uses the sentences `part`, by default a random sample.
    """
    begin = time.perf_counter()
    random = np.random.default_rng(random_state)
    part = some_sentences(len(tokens), random) if part is None else part
    settings = (forbidden, transitions is not None, random.integers(2**32))
    run = Selecting(tokens, y, blocks, block_weights(tokens, blocks), settings, part)
    by_number = isinstance(how, (int, np.integer)) and not isinstance(how, bool)
    if by_number:
        found = run.closest(int(how))
    elif how == "auto":
        found = run.auto()
    else:
        found = run.at(float(how))
    return replace(found, seconds=time.perf_counter() - begin)


def some_sentences(n: int, random: np.random.Generator) -> Ints:
    """Return a random sample of sentences for a selection."""
    return np.sort(random.permutation(n)[: min(n, max(LEAST, int(SHARE * n)))])


class Selecting:
    """Selections from the sentences `part`.

    Their features are renumbered in order, so that small tables stay in the cache. `settings` are the forbidden scores,
    whether label pairs are learnt, and the seed of the order of sentences.
    """

    def __init__(
        self, tokens: Tokens, y: Ints, blocks: Blocks, weights: Floats, settings: tuple[Floats, bool, Any], part: Ints
    ) -> None:
        self.forbidden, self.learnt, self.seed = settings
        self.y, self.weights = y[gather(tokens.offsets, part)[0]], weights
        sample = tokens.part(part)
        used = np.flatnonzero(np.bincount(sample.indices, minlength=blocks.total))
        self.tokens, self.blocks = restricted(sample, blocks, used)

    def auto(self) -> Selection:
        """Return the selection at the strength that the rule gives."""
        noise = self.noise()
        return replace(self.at(UNITS * noise / np.sqrt(max(1, len(self.tokens)))), noise=noise)

    def closest(self, count: int) -> Selection:
        """Raise the strength until at most `count` blocks remain, and keep those with the most evidence."""
        found = self.auto()
        for _ in range(8):
            if found.kept.size <= count:
                break
            after = self.at(1.5 * found.strength)
            if after.kept.size < count:
                break
            found = after
        best = np.argsort(-found.evidence, kind="stable")[:count]
        return replace(found, kept=np.sort(best))

    def noise(self) -> float:
        """Return the rms norm of a sentence's gradient after one pass over a few of them, without a penalty."""
        few = np.random.default_rng(self.seed).permutation(len(self.tokens))[:SAMPLE]
        engine = self._engine(0.0)
        self._pass(engine, few)
        W, chain = engine.weights()
        return gradient_noise(self.tokens, self.y, few, (W, chain + self.forbidden))

    def _engine(self, strength: float) -> BlockEngine:
        count = len(self.blocks)
        prox = compiled_prox(GroupLasso(strength, weights=self.weights).on_norms(count), count)
        rule = BlockRule(prox, count, np.ones(count), 0.0, True, self.learnt)
        return BlockEngine(self.blocks, self.forbidden, rule, average=False)

    def _pass(self, engine: BlockEngine, order: Ints) -> None:
        steps = np.full(order.size, ETA)
        loss = Loss(LOG, 0.0)
        kind = structure("quick-chain", loss)
        engine.run(Rounds(self.tokens, self.y, order, steps, kind, loss, SKIP, engine.rounds))

    def at(self, strength: float) -> Selection:
        """Return the selection at a strength."""
        engine, random = self._engine(strength), np.random.default_rng(self.seed)
        for _ in range(EPOCHS):
            self._pass(engine, random.permutation(len(self.tokens)))
        norms = np.sqrt(np.maximum(engine.numbers[SQUARED, :-1], 0.0))
        level = max(1, engine.rounds) * strength * self.weights
        evidence = norms / level if strength > 0.0 else np.where(norms > 0.0, np.inf, 0.0)
        kept = np.flatnonzero(engine.numbers[SCALE, :-1] != 0.0)
        return Selection(kept, evidence, self.weights, strength, np.nan, len(self.tokens), 0.0)
