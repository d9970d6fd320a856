"""What a page shows, as plain data; fields that are empty are left out of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Number = float | None


@dataclass(frozen=True)
class Epoch:
    """One epoch; None where a number was not computed. `seconds` count from the start of learning.

    A run of several stages, each of which counts its own epochs, names them in `stage`.
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
    """A template, kernel, group or feature: its share of the norm, how many weights it has, how many are not zero."""

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
    """Block weights along the run: `weights[t][m]` is block m's after epoch `epochs[t]`."""

    names: Sequence[str]
    epochs: Sequence[int]
    weights: Sequence[Sequence[Number]]


@dataclass(frozen=True)
class Features:
    """The features that weigh most for or against a label, as (name, weight)."""

    label: str
    weights: Sequence[tuple[str, float]]

    @property
    def most(self) -> float:
        """The largest absolute weight; one where there is none, to divide by."""
        return max((abs(w) for _, w in self.weights), default=1.0) or 1.0


@dataclass(frozen=True)
class Matrix:
    """Numbers by two labels: counts of gold (rows) against predicted, or scores from one label (rows) to the next.

    None stands for what cannot be, such as a step that is not allowed.
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

    `block` says what a block is ("template", "kernel", "group", "feature"); `scores` are numbers by the names that
    `spom evaluate --json` gives them; `facts` are lines of (what, value) under a heading. Where `blocks` has only the
    largest, `block_count` is how many there are, and `scores["blocks_kept"]` how many of them are kept. `pruning` is
    a table in plain text of what was dropped before learning, and why.

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
        """How many blocks there are."""
        return len(self.blocks) if self.block_count is None else self.block_count

    @property
    def kept_blocks(self) -> int | None:
        """How many blocks are kept, where that is known."""
        kept = self.scores.get("blocks_kept")
        if self.blocks and (kept is None or len(self.blocks) == self.total_blocks):
            return sum(block.kept for block in self.blocks)
        return None if kept is None else int(kept)
