"""The templates that tags and lemmas of a pipeline need, by the errors on held-out words.

Sentences are divided into three runs, and a stage with all templates learns from two of them, for each run in turn. The
evidence for a template is the loss of right words in the first held-out run when only its weights are removed. Stages
with the third, the half and two thirds of the templates with most evidence learn from the same runs. From the smallest
on, the first that is good enough (`estimators.pruning`) is taken; otherwise all templates are kept. With fewer than 60
sentences all templates are kept too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spom.core.arrays import Ints
from spom.estimators.pruning import FEWEST, f1_of, is_worse, runs, will_do
from spom.features.rows import Blocks
from spom.solvers.structured.chains.data import Tokens

# The shares of the templates that are tried.
SHARES = (1 / 3, 1 / 2, 2 / 3)


@dataclass(frozen=True)
class Judged:
    """The results of a stage on held-out sentences, a row (wanted, found, right) for each, and its weights.

    `without(name)` returns the same rows without the weights of a template.
    """

    counts: Ints
    weights: int
    without: Callable[[str], Ints]


# Learns from some sentences with some templates, and judges on others.
Learn = Callable[[tuple[str, ...], Ints, Ints], Judged]


@dataclass(frozen=True)
class Kept:
    """The templates that a stage keeps, of all; `tried` are (templates, weights, score) of the comparisons."""

    stage: str
    names: tuple[str, ...]
    kept: tuple[str, ...]
    tried: tuple[tuple[int, int, float], ...]
    why: str

    def __str__(self) -> str:
        rows = [f"  {n:>9}  {weights:>9,}  {score:.4f}" for n, weights, score in self.tried]
        gone = [f"  - {name}" for name in self.names if name not in self.kept]
        head = f"{self.stage}: {len(self.kept)} of {len(self.names)} templates kept; {self.why}"
        return "\n".join([head, *(["  templates    weights   score"] if rows else []), *rows, *gone])


def kept_templates(stage: str, names: tuple[str, ...], sentences: int, learn: Learn) -> Kept:
    """Choose the templates that a stage needs, with the evidence."""
    if sentences < FEWEST:
        return Kept(stage, names, names, (), f"{sentences} sentences are too few to compare on")
    parts = runs(np.arange(sentences))
    whole = [learn(names, *part) for part in parts]
    full = np.concatenate([judged.counts for judged in whole])
    right = int(whole[0].counts[:, 2].sum())
    falls = [right - int(whole[0].without(name)[:, 2].sum()) for name in names]
    order = np.argsort([-fall for fall in falls], kind="stable")
    tried = [(len(names), whole[0].weights, f1_of(full))]
    for share in SHARES:
        best = set(order[: max(1, round(share * len(names)))].tolist())
        some = tuple(name for m, name in enumerate(names) if m in best)
        smaller: list[Judged] = []
        for part in parts:
            smaller.append(learn(some, *part))
            counts = np.concatenate([judged.counts for judged in smaller])
            if is_worse(full[: len(counts)], counts):
                break
        tried.append((len(some), smaller[0].weights, f1_of(counts)))
        if len(counts) == len(full) and will_do(full, counts)[0]:
            return Kept(stage, names, some, tuple(tried), will_do(full, counts)[1])
    return Kept(stage, names, names, tuple(tried), "fewer will not do on held-out sentences")


def rows_of(right: Ints, offsets: Ints, most: int = 1) -> Ints:
    """Return the counts of each sentence: per word `most` things are wanted and found, and `right` of them are right.

    >>> rows_of(np.array([1, 0, 1]), np.array([0, 2, 3])).tolist()
    [[2, 2, 1], [1, 1, 1]]
    """
    before = np.concatenate([[0], np.cumsum(right)]).astype(np.int64)
    wanted = most * np.diff(offsets)
    return np.stack([wanted, wanted, np.diff(before[offsets])], axis=1)


def without_template(tokens: Tokens, blocks: Blocks, name: str) -> Tokens:
    """Return the same tokens without the features of a template.

    >>> tokens = Tokens(np.array([0, 2, 3]), np.array([0, 4, 4]), np.ones(0), np.array([0, 2]))
    >>> found = without_template(tokens, Blocks(("w[0]", "w[1]"), np.array([0, 3, 5])), "w[1]")
    >>> found.indptr, found.indices
    (array([0, 1, 1]), array([0]))
    """
    if name not in blocks.names:
        return tokens
    m = blocks.names.index(name)
    stays = (tokens.indices < blocks.starts[m]) | (tokens.indices >= blocks.starts[m + 1])
    before = np.concatenate([[0], np.cumsum(stays)]).astype(np.int64)
    return Tokens(before[tokens.indptr], tokens.indices[stays], tokens.values, tokens.offsets)
