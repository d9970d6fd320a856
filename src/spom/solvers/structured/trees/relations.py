"""The second stage of a parser: relations of arcs, learnt on gold trees."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from spom.core.arrays import (
    Ints,
    Singles,
    aligned_singles,
    check_radius,
    read_only,
)
from spom.core.registry import register
from spom.core.state import State
from spom.features.arc_spaces import LINE
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates, words_of
from spom.solvers import examples
from spom.solvers.structured.trees.learner import TreeLearner
from spom.solvers.structured.trees.model import Entries, in_threads, mean_into_ball
from spom.solvers.structured.trees.relation_kernels import (
    LabelSums,
    LabelTable,
    Relations,
    find_labels,
    learn_labels,
    mark_rows,
)
from spom.solvers.structured.trees.space import corpus_of, layout_of


@dataclass(frozen=True)
class LabelModel:
    """Weights of relations: all, in rows padded to whole cache lines, or `Entries`, with unpadded rows.

    `root` is the relation of all words below the root and of no others, or -1 if there is none.
    """

    templates: ArcTemplates
    layout: ArcLayout
    names: tuple[str, ...]
    stored: Singles | Entries
    root: int = -1

    @cached_property
    def weights(self) -> Singles:
        """All weights: row r has one entry for each relation, padded to whole cache lines."""
        if not isinstance(self.stored, Entries):
            return self.stored
        return self._spread(np.arange(self.layout.rows))

    @cached_property
    def table(self) -> LabelTable:
        """The weights as used for parsing."""
        alive = np.zeros(self.layout.rows, dtype=bool)
        alive[self.entries().places // len(self.names)] = True
        places = np.where(alive, np.cumsum(alive), 0)
        return LabelTable(places.astype(np.int32), read_only(self._spread(places)))

    def _spread(self, places: Ints) -> Singles:
        """Return weights in their memory layout, with row r as row places[r]."""
        width = label_width(len(self.names))
        weights = aligned_singles((int(places.max(initial=0)) + 1) * width)
        found, values = self.entries()
        rows, relations = np.divmod(found, len(self.names))
        weights[places[rows] * width + relations] = values
        return weights

    def entries(self) -> Entries:
        """Return all weights that are not zero; a row has one place per relation."""
        if isinstance(self.stored, Entries):
            return self.stored
        width, count = label_width(len(self.names)), len(self.names)
        found = np.flatnonzero(self.stored)
        return Entries(found // width * count + found % width, self.stored[found])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("weights", "table")}

    def find(self, codes: ArcCodes, trees: Ints, n_jobs: int = 1) -> Ints:
        """Return the relation of each word to its head in `trees`, as an index of `names`, in the codes' layout."""
        out = np.zeros(codes.codes.shape[1], dtype=np.int64)

        corpus, layout = corpus_of(codes, trees), layout_of(self.templates, self.layout)
        relations, table = relations_of(len(self.names), self.root), self.table

        def part(bounds: tuple[int, int]) -> int:
            find_labels(corpus, np.arange(*bounds), layout, relations, table, out)
            return bounds[1] - bounds[0]

        in_threads(part, 0, codes.first.size, n_jobs)
        return out


def label_width(count: int) -> int:
    """Return the number of entries of a row: one per relation, padded to whole cache lines."""
    return -(-count // LINE) * LINE


def rows_of(templates: ArcTemplates, codes: ArcCodes, trees: Ints) -> Ints:
    """Return the rows of weights that learning from these trees can change."""
    layout = templates.layout(apart=True)
    used = np.zeros(layout.rows, dtype=bool)
    mark_rows(corpus_of(codes, trees), codes.first.size, layout_of(templates, layout), used)
    return np.flatnonzero(used)


def relations_of(count: int, root: int = -1) -> Relations:
    """Return the relations as kernels take them."""
    return Relations(count, label_width(count), root)


@register(
    "solver",
    "relations",
    examples=lambda: [LabelLearner(*examples.two_relations()[0]).feed(*examples.two_relations()[1])],
    cost="O(templates * relations) per word",
)
class LabelLearner(TreeLearner):
    """Averaged margin steps on the relations of gold arcs; `epoch()` makes a pass, `model()` returns the mean.

    With `rows` it has weights for these only, in their order; `rows_of` returns those of some sentences. Each pass ends
    with the projection onto the ball of `radius` (Algorithm 3 of SPOM).
    After `feed`, iterating yields a `State` after each pass, without end: its `theta` is the iterate (a copy unless
    `copies=False`), `internal` has the sums of the average. `restore` resumes from a state, with the same bits.

    >>> from spom.solvers import examples
    >>> made, data = examples.two_relations()
    >>> learner = LabelLearner(*made).feed(*data)
    >>> states = [state for state, _ in zip(learner, range(3))]
    >>> learner.model().find(*data[:2])
    array([0, 0, 1, 2, 0, 2, 3])
    """

    def __init__(
        self,
        templates: ArcTemplates,
        names: tuple[str, ...],
        seed: Any = 0,
        step: float | None = None,
        copies: bool = True,
        rows: Ints | None = None,
        radius: float = np.inf,
    ) -> None:
        self.radius = check_radius(radius)
        self.templates, self.names, self.copies = templates, names, copies
        self._data: tuple[ArcCodes, Ints, Ints] | None = None
        self.layout = templates.layout(apart=True)
        self.random = np.random.default_rng(seed)
        self.step = 2.0 / self.layout.families.shape[0] if step is None else step
        self.places = np.zeros(0 if rows is None else self.layout.rows, dtype=np.int32)
        if rows is not None:
            self.places[rows] = np.arange(rows.size)
        count = self.layout.rows if rows is None else rows.size
        self.weights = aligned_singles(count * label_width(len(names)))
        self.sums = aligned_singles(self.weights.size)
        self.rounds = 0.0
        # Masks of the relations seen below the root, and elsewhere.
        self.seen = np.zeros((2, len(names)), dtype=bool)

    def feed(self, codes: ArcCodes, trees: Ints, gold: Ints) -> Self:
        """Learn from these sentences."""
        self._data = codes, trees, gold
        return self

    @property
    def words(self) -> int:
        """The number of words in a pass."""
        return 0 if self._data is None else int(self._data[0].sizes.sum())

    def _kept(self) -> dict[str, Any]:
        return {"sums": self.sums, "seen": self.seen}

    def epoch(self) -> State:
        """Make one pass over all sentences in random order; the loss is the mean per word."""
        if self._data is None:
            raise ValueError("feed() the sentences first")
        begin, (codes, trees, gold) = time.perf_counter(), self._data
        self.k += 1
        order = self.random.permutation(codes.first.size)
        to = LabelSums(self.places, self.weights, read_only(self.weights), self.sums, self.step)
        layout, corpus = layout_of(self.templates, self.layout), corpus_of(codes, trees)
        relations = relations_of(len(self.names))
        loss = learn_labels(corpus, read_only(gold), order, layout, relations, to, self.rounds)
        self.rounds += self.words
        if self.radius < np.inf:
            mean_into_ball(self.weights, self.sums, self.rounds, self.radius)
        places = words_of(codes)
        np.logical_or.at(self.seen, ((trees[places] != 0).astype(np.int64), gold[places]), True)
        self.seconds += time.perf_counter() - begin
        return self._state(float(loss) / max(self.words, 1))

    def _state(self, loss: float) -> State:
        return self._saved(step=self.step, loss=loss, objective=loss)

    def model(self) -> LabelModel:
        """Return the mean of the weights over all rounds."""
        mean = aligned_singles(self.weights.size)
        np.divide(self.sums, np.float32(max(self.rounds, 1.0)), out=mean)
        np.subtract(self.weights, mean, out=mean)
        return self.model_of(mean, self.root)

    def model_of(self, weights: Singles, root: int) -> LabelModel:
        """Return these weights as a model; an invalid root counts as none."""
        root = root if -1 <= root < len(self.names) else -1
        return LabelModel(self.templates, self.layout, self.names, weights, root)

    @property
    def root(self) -> int:
        """The relation of all words below the root and of no others, or -1."""
        below = np.flatnonzero(self.seen[0])
        return int(below[0]) if below.size == 1 and not self.seen[1, below[0]] else -1
