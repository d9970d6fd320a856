"""The contents of a page as plain data; empty fields are left out of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Number = float | None


@dataclass(frozen=True)
class Epoch:
    """One epoch; None for numbers that were not computed. `seconds` count from the start of learning.

    In a run of several stages, each stage counts its own epochs, and `stage` is its name.
    """

    epoch: int
    objective: Number = None
    loss: Number = None
    dev: Number = None
    blocks_kept: Number = None
    nonzeros: Number = None
    per_second: Number = None
    seconds: Number = None
    stage: str = ""


@dataclass(frozen=True)
class Block:
    """A template, kernel, group or feature: its share of the norm, its number of weights and of nonzero weights."""

    name: str
    weight: float
    size: int | None = None
    nonzeros: int | None = None

    @property
    def kept(self) -> bool:
        """Whether the block is not switched off."""
        return self.weight != 0.0


@dataclass(frozen=True)
class Paths:
    """Block weights during the run: `weights[t][m]` is the weight of block m after epoch `epochs[t]`."""

    names: Sequence[str]
    epochs: Sequence[int]
    weights: Sequence[Sequence[Number]]


@dataclass(frozen=True)
class Features:
    """The features with the largest weights for or against a label, as (name, weight)."""

    label: str
    weights: Sequence[tuple[str, float]]

    @property
    def most(self) -> float:
        """The largest absolute weight, or one if there is none: a divisor."""
        return max((abs(w) for _, w in self.weights), default=1.0) or 1.0


@dataclass(frozen=True)
class Matrix:
    """Numbers by two labels: counts of gold (rows) against predicted, or scores from one label (rows) to the next.

    None marks impossible pairs, such as a transition that is not allowed.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number]]


@dataclass(frozen=True)
class Sentence:
    """A parsed sentence, one entry per word; heads count from 1, and 0 is the root. Gold may be missing."""

    words: Sequence[str]
    predicted_heads: Sequence[int]
    predicted_relations: Sequence[str] = ()
    heads: Sequence[int] = ()
    relations: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class Contents:
    """All that a page can show.

    `block` is the kind of the blocks ("template", "kernel", "group", "feature"); `scores` are numbers by their names
    in `spom evaluate --json`; `facts` are lines of (name, value) under a heading. If `blocks` has only the largest,
    `block_count` is the total number, and `scores["blocks_kept"]` how many of them are kept. `pruning` is a plain
    text table of what was dropped before learning, and why.

    >>> page = Contents("chunker.spom", "SequenceTagger", "tagger", scores={"f1": 0.93})
    >>> page.epochs, page.scores
    ((), {'f1': 0.93})
    """

    title: str
    estimator: str = ""
    task: str = ""
    block: str = "block"
    score: str = "score"
    scores: dict[str, float] = field(default_factory=dict)
    facts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    epochs: Sequence[Epoch] = ()
    paths: Paths | None = None
    blocks: Sequence[Block] = ()
    block_count: int | None = None
    pruning: str = ""
    features: Sequence[Features] = ()
    confusion: Matrix | None = None
    transitions: Matrix | None = None
    sentences: Sequence[Sentence] = ()
    notes: Sequence[str] = ()

    @property
    def total_blocks(self) -> int:
        """The number of blocks."""
        return len(self.blocks) if self.block_count is None else self.block_count

    @property
    def kept_blocks(self) -> int | None:
        """The number of blocks that are kept, if it is known."""
        kept = self.scores.get("blocks_kept")
        if self.blocks and (kept is None or len(self.blocks) == self.total_blocks):
            return sum(block.kept for block in self.blocks)
        return None if kept is None else int(kept)
