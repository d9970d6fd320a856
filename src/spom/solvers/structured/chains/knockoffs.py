"""Selection of a tagger's templates with a bounded error: knockoffs, and the threshold of `spom.solvers.knockoffs`.

Each template gets a knockoff: the same features, with each template's rows moved to other tokens at random. Group dual
averaging (`select`) runs on templates and knockoffs together. With Z_m the norm of a template's mean gradient over its
weight, and Z'_m that of its knockoff, W_m = Z_m - Z'_m. The guarantee is about templates that are independent of the
labels and of the other templates. A template that only repeats another one is related to the labels, and counts as a
discovery.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import DataError
from spom.features.rows import Blocks
from spom.solvers.knockoffs import Stated, stated
from spom.solvers.structured.chains.data import Tokens, block_weights, of_features
from spom.solvers.structured.chains.select import Selecting, Selection, some_sentences


@dataclass(frozen=True)
class Discovery(Selection, Stated):
    """A selection with a guaranteed rate."""


def with_knockoffs(tokens: Tokens, blocks: Blocks, random: np.random.Generator) -> tuple[Tokens, Blocks]:
    """Return the features followed by their knockoffs: the rows of each block moved by a permutation of its own."""
    n, total = tokens.total, blocks.total
    place = np.stack([random.permutation(n) for _ in range(len(blocks))]) if len(blocks) else np.empty((0, n), int)
    token = np.repeat(np.arange(n), np.diff(tokens.indptr))
    moved = place[of_features(blocks)[tokens.indices], token]
    row = np.concatenate([token, moved])
    order = np.argsort(row, kind="stable")
    indices = np.concatenate([tokens.indices, tokens.indices + np.int32(total)])[order].astype(np.int32)
    values = np.concatenate([tokens.values, tokens.values])[order] if tokens.values.size else tokens.values
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype(np.int64)
    names = (*blocks.names, *(f"knockoff of {name}" for name in blocks.names))
    starts = np.concatenate([blocks.starts, blocks.starts[1:] + total]).astype(np.int64)
    return Tokens(indptr, indices, values, tokens.offsets), Blocks(names, starts)


def discover(
    tokens: Tokens,
    y: Ints,
    blocks: Blocks,
    forbidden: Floats,
    rate: float,
    *,
    transitions: str | None = "fixed",
    random_state: Any = None,
) -> Discovery:
    """Select templates, with an expected share of noise among them of at most `rate`."""
    if y.size and y.min() < 0:
        raise DataError("false_discovery_rate needs all labels: some are unknown")
    begin, random, count = time.perf_counter(), np.random.default_rng(random_state), len(blocks)
    doubled, both = with_knockoffs(tokens, blocks, random)
    weights = np.tile(block_weights(tokens, blocks), 2)
    seed = random.integers(2**32)
    part = some_sentences(len(tokens), np.random.default_rng(seed))
    run = Selecting(doubled, y, both, weights, (forbidden, transitions is not None, seed), part)
    found = run.auto()
    # Evidence is divided by the threshold of each block. Undo this, so that both of a pair are measured alike.
    Z = found.evidence * found.strength
    promise = stated(Z[:count] - Z[count:], rate)
    found = replace(found, kept=promise.found, evidence=found.evidence[:count], weights=weights[:count])
    return Discovery(**{**vars(found), "seconds": time.perf_counter() - begin}, **vars(promise))
