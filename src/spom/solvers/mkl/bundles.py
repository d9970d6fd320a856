"""What the compiled loops with kernels read, as bundles. Arrays whose precision varies are arguments of their own."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX
from spom.solvers.structured.structures import Loss, Parts, Structure

# Kinds of blocks.
DENSE, SPARSE, EXPLICIT = range(3)


class Sequences(NamedTuple):
    """Tokens offsets[q] .. offsets[q + 1] are sequence q; `local` has K_m within it, row-major from starts[q] on."""

    offsets: Annotated[Ints, "int64[::1]"]
    gold: Annotated[Ints, "int64[::1]"]
    weight: Annotated[Floats, "float64[::1]"]
    local: Annotated[Floats, "float64[:, ::1]"]
    starts: Annotated[Ints, "int64[::1]"]
    chain: Annotated[bool, "boolean"]


class Grams(NamedTuple):
    """Where the rows of each block's Gram matrix are.

    Row i of dense matrix places[m] is row slots[places[m], i] of the store, or -1 where it is not there now; ages are
    of the rows of the store, and empty where all rows are there for good.
    """

    kinds: Annotated[Ints, "int64[::1]"]
    places: Annotated[Ints, "int64[::1]"]
    slots: Annotated[Ints, "int64[:, ::1]"]
    ages: Annotated[Ints, "int64[::1]"]
    sparse_ptr: Annotated[Ints, "int64[:, ::1]"]
    sparse_indices: Annotated[Any, "int32[::1]"]
    sparse_values: Annotated[Floats, "float64[::1]"]


class Explicit(NamedTuple):
    """Rows of explicit blocks: row i of block e is ptr[e, i] .. ptr[e, i + 1].

    `shapes` has for each block where its indices begin less where its values begin, its first feature, whether its
    rows are dense (and have no indices), and how many features it has.
    """

    ptr: Annotated[Ints, "int64[:, ::1]"]
    indices: Annotated[Any, "int32[::1]"]
    values: Annotated[Floats, "float64[::1]"]
    shapes: Annotated[Ints, "int64[:, ::1]"]


class Data(NamedTuple):
    """All of the problem but the dense Gram matrices."""

    sequences: Sequences
    grams: Grams
    explicit: Explicit


class Rule(NamedTuple):
    """How a round decodes and shrinks: the loss, the prox of the vector of block norms, the penalty of transitions.

    `limit` bounds the norm of all blocks: a ball that SPOM projects to, the scale of the steps of dual averaging, which
    projects to the ball of `radius`.
    """

    structure: Structure
    loss: Loss
    tolerance: Annotated[float, "float64"]
    prox: Annotated[Any, f"FunctionType({PROX})"]
    reals: Annotated[Floats, "float64[::1]"]
    ints: Annotated[Ints, "int64[::1]"]
    learnt: Annotated[bool, "boolean"]
    strength: Annotated[float, "float64"]
    limit: Annotated[float, "float64"]
    radius: Annotated[float, "float64"] = np.inf


class Errors(NamedTuple):
    """The errors of one sequence: D = expected minus gold labels, and where it is not zero.

    Token tokens[e] of the sequence has the labels labels[e, :several[e]]; inner[a, b] = <D[tokens[a]], D[tokens[b]]>;
    `moves` is D of label pairs (and of first and last labels, which have no weights here). `scores` are those decoded.
    """

    scores: Parts
    D: Annotated[Floats, "float64[:, ::1]"]
    moves: Annotated[Floats, "float64[:, ::1]"]
    tokens: Annotated[Ints, "int64[::1]"]
    labels: Annotated[Ints, "int64[:, ::1]"]
    several: Annotated[Ints, "int64[::1]"]
    inner: Annotated[Floats, "float64[:, ::1]"]
    scratch: Annotated[Floats, "float64[::1]"]


class Wrong(NamedTuple):
    """The errors of a sequence whose first token is `first` of all; `size` of its tokens are wrong."""

    errors: Errors
    first: Annotated[int, "int64"]
    size: Annotated[int, "int64"]


class Weights(NamedTuple):
    """Weights V[feature, label] of explicit blocks; one whose mark is not the stamp of its block counts as zero.

    `sums` is what the average of all rounds needs, and empty where there is no average.
    """

    V: Annotated[Floats, "float64[:, ::1]"]
    marks: Annotated[Ints, "int64[::1]"]
    sums: Annotated[Floats, "float64[:, ::1]"]


class Active(NamedTuple):
    """Blocks whose Gram rows a step adds to the scores, the factor of each, and where the rows are in the store."""

    blocks: Annotated[Ints, "int64[::1]"]
    factors: Annotated[Floats, "float64[::1]"]
    rows: Annotated[Ints, "int64[::1]"]


def errors_of(longest: int, labels: int) -> Errors:
    """Space for the errors of sequences of at most `longest` tokens."""
    return Errors(
        scores=Parts(np.zeros((longest, labels)), np.zeros((labels + 2, labels))),
        D=np.zeros((longest, labels)),
        moves=np.zeros((labels + 2, labels)),
        tokens=np.zeros(longest, dtype=np.int64),
        labels=np.zeros((longest, labels), dtype=np.int64),
        several=np.zeros(longest, dtype=np.int64),
        inner=np.zeros((longest, longest)),
        scratch=np.zeros(0),
    )


def active_of(blocks: int) -> Active:
    """Space for that many blocks."""
    return Active(np.zeros(blocks, dtype=np.int64), np.zeros(blocks), np.zeros(blocks, dtype=np.int64))
