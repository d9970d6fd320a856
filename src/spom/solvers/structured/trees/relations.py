"""The second stage of a parser: relations of arcs, learnt on gold trees."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints, aligned_singles
from spom.features.arc_spaces import LINE
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates
from spom.solvers.structured.trees.arc_filter import words_of
from spom.solvers.structured.trees.model import run
from spom.solvers.structured.trees.relation_kernels import find_labels, learn_labels
from spom.solvers.structured.trees.scoring import Singles


@dataclass(frozen=True)
class LabelModel:
    """Weights of relations: row r of `weights` has one entry for each of them, and some room to spare.

    `root` is the relation that all words below the root have, and no others, or -1 where there is none such.
    """

    templates: ArcTemplates
    layout: ArcLayout
    names: tuple[str, ...]
    weights: Singles
    root: int = -1

    def entries(self) -> tuple[Ints, Singles]:
        """(places, weights) of all that are not zero; a row has as many places as there are relations."""
        rows, relations = np.nonzero(self.weights.reshape(-1, label_width(len(self.names))))
        values = self.weights.reshape(-1, label_width(len(self.names)))[rows, relations]
        return rows * len(self.names) + relations, values

    @classmethod
    def of(
        cls,
        templates: ArcTemplates,
        layout: ArcLayout,
        names: tuple[str, ...],
        places: Ints,
        values: Singles,
        root: int = -1,
    ) -> LabelModel:
        """The model with these `entries`."""
        width = label_width(len(names))
        weights = aligned_singles(layout.rows * width)
        rows, relations = np.divmod(places, len(names))
        weights[rows * width + relations] = values
        return cls(templates, layout, names, weights, root)

    def find(self, codes: ArcCodes, trees: Ints, n_jobs: int = 1) -> Ints:
        """The relation of each word to its head in `trees`, as indices of `names`; both laid out as the codes are."""
        out = np.zeros(codes.codes.shape[1], dtype=np.int64)

        def part(bounds: tuple[int, int]) -> None:
            arguments = label_arguments(self.templates, self.layout, codes, trees, len(self.names))
            run(find_labels, *arguments, self.weights, self.root, out, *bounds)

        cuts = np.linspace(0, codes.first.size, (4 * n_jobs if n_jobs > 1 else 1) + 1).astype(np.int64).tolist()
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(part, itertools.pairwise(cuts)))
        return out


def label_width(count: int) -> int:
    """The entries of a row: the relations, up to whole cache lines."""
    return -(-count // LINE) * LINE


def label_arguments(
    templates: ArcTemplates, layout: ArcLayout, codes: ArcCodes, trees: Ints, count: int
) -> tuple[Any, ...]:
    """What the kernels of relations take."""
    return (
        *(codes.codes, codes.kinds, codes.first, codes.sizes, trees, layout.ends, layout.atoms, layout.families),
        *(templates.columns.index("upos"), count, label_width(count)),
    )


class LabelLearner:
    """Averaged margin steps on the relations of gold arcs; `epoch()` makes a pass, `model()` gives the mean."""

    def __init__(
        self, templates: ArcTemplates, names: tuple[str, ...], seed: Any = 0, step: float | None = None
    ) -> None:
        self.templates, self.names = templates, names
        self.layout = templates.layout(apart=True)
        self.random = np.random.default_rng(seed)
        self.step = 2.0 / self.layout.families.shape[0] if step is None else step
        self.weights = aligned_singles(self.layout.rows * label_width(len(names)))
        self.sums = aligned_singles(self.weights.size)
        self.rounds = 0.0
        # Which relations were seen below the root, and which elsewhere.
        self.seen = np.zeros((2, len(names)), dtype=bool)

    def epoch(self, codes: ArcCodes, trees: Ints, gold: Ints) -> float:
        """One pass over all sentences in random order; the mean loss of a word."""
        order = self.random.permutation(codes.first.size)
        arguments = label_arguments(self.templates, self.layout, codes, trees, len(self.names))
        loss = run(learn_labels, *arguments, gold, order, self.weights, self.sums, self.step, self.rounds)
        words = int(codes.sizes.sum())
        self.rounds += words
        places = words_of(codes)
        np.logical_or.at(self.seen, ((trees[places] != 0).astype(np.int64), gold[places]), True)
        return float(loss) / max(words, 1)

    def model(self) -> LabelModel:
        """The mean of the weights over all rounds."""
        mean = aligned_singles(self.weights.size)
        np.divide(self.sums, np.float32(max(self.rounds, 1.0)), out=mean)
        np.subtract(self.weights, mean, out=mean)
        return LabelModel(self.templates, self.layout, self.names, mean, self.root)

    @property
    def root(self) -> int:
        """The relation of all words below the root and of no others, or -1."""
        below = np.flatnonzero(self.seen[0])
        return int(below[0]) if below.size == 1 and not self.seen[1, below[0]] else -1
