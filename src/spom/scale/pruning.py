"""Pruning of a tagger's templates before it learns from shards, with sentences drawn from all shards.

The rule is that of one machine (`spom.solvers.structured.chains.select`): sums of gradients over a tenth of the
sentences, at least 1,500 of them. Each shard draws its part, and returns rows of feature ids but no text. At most
`MOST` sentences are drawn: the strength follows from their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.errors import Unsupported
from spom.estimators.tagger.inputs import Features, label_codes, recode
from spom.estimators.tagger.pruning import Pruning
from spom.features.rows import Blocks
from spom.scale.team import Team
from spom.solvers.structured.chains.data import Tokens, as_blocks, as_tokens, restricted
from spom.solvers.structured.chains.select import LEAST, SHARE, select
from spom.solvers.structured.chains.solver import forbidden_scores

MOST = 20_000


@dataclass(frozen=True)
class DrawingLesson:
    """Draws a share of the sentences of a shard."""

    features: Features
    classes: Any
    share: float
    sentences: Any
    seed: int

    def ask(self, loaded: Any, place: int) -> tuple[Tokens, Ints]:
        """Return the rows of features and the labels of the sentences drawn."""
        X, y = self.sentences(loaded)
        rows = self.features.transform(X)
        codes = recode(*label_codes(y, rows.offsets, unknown=True), self.classes, rows.offsets)
        tokens = as_tokens(rows, as_blocks(self.features.blocks).total)
        count = int(np.ceil(self.share * len(tokens)))
        chosen = np.sort(np.random.default_rng([self.seed, place]).permutation(len(tokens))[:count])
        places = np.concatenate([np.arange(tokens.offsets[i], tokens.offsets[i + 1]) for i in chosen]).astype(np.int64)
        return tokens.part(chosen), codes[places]


def pruned(estimator: Any, team: Team, features: Features, total: int, sentences: Any) -> tuple[Features, float]:
    """Return the features of the templates that are kept, and their mean number per token; set `pruning_`."""
    how = estimator.prune
    if isinstance(how, (str, dict)):
        raise Unsupported(f"prune={how!r} compares on held-out sentences of one machine: give a number of templates")
    seed, blocks = estimator._seed(), as_blocks(features.blocks)
    share = min(total, max(LEAST, min(MOST, int(SHARE * total)))) / max(1, total)
    team.teach(DrawingLesson(features, estimator.classes_, share, sentences, seed))
    parts = list(team.ask("draw"))
    tokens, y = _joined([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    if y.min() < 0:
        raise Unsupported("prune= takes sentences whose labels are all known: set prune=None")
    if not isinstance(how, float) and how > len(blocks):
        raise ValueError(f"prune={how} is more than the {len(blocks)} templates there are")
    forbidden = forbidden_scores(estimator._allowed.while_learning, estimator.classes_.size)
    options: dict[str, Any] = {"transitions": estimator.transitions, "random_state": seed}
    found = select(tokens, y, blocks, forbidden, how, part=np.arange(len(tokens)), **options)
    if found.kept.size == 0:
        raise ValueError(f"prune={how!r} leaves no template: give a smaller strength")
    estimator.pruning_ = Pruning(blocks.names, found, np.diff(blocks.starts))
    ids = blocks.ids(found.kept)
    return features.compact(ids), _features_of(tokens, blocks, ids)


def _features_of(tokens: Tokens, blocks: Blocks, ids: Ints) -> float:
    return restricted(tokens, blocks, ids)[0].indices.size / max(1, tokens.total)


def _joined(parts: list[Tokens]) -> Tokens:
    """Join the sentences of several parts."""
    entries = np.cumsum([0, *(part.indices.size for part in parts)])
    before = np.cumsum([0, *(part.total for part in parts)])
    zero = np.zeros(1, dtype=np.int64)
    return Tokens(
        np.concatenate([zero, *(part.indptr[1:] + e for part, e in zip(parts, entries, strict=False))]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([zero, *(part.offsets[1:] + b for part, b in zip(parts, before, strict=False))]),
    )
