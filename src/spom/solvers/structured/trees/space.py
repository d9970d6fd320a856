"""Compiled: the arcs of one sentence that are worth scoring, with the data for scoring and learning."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, read_only
from spom.core.jit import kernel
from spom.data.interning import Codes
from spom.features.arc_spaces import (
    CODES,
    LIMITS,
    PAIR,
    TABLE,
    VECTOR,
    Corpus,
    Sentence,
    Shorts,
    addends,
    candidates,
    pair_codes,
    side_codes,
    tags_between,
)
from spom.features.arcs import ArcCodes, ArcLayout, ArcTemplates

Places = NDArray[np.uint64]
WEIGHTS = "Array(float32, 1, 'C', readonly=True)"
NO_GUIDES: Ints = np.empty(0, dtype=np.int64)


class Layout(NamedTuple):
    """A layout of templates as kernels take it; `sets` are the columns whose tags between words are features."""

    ends: Annotated[Ints, VECTOR]
    atoms: Annotated[Ints, TABLE]
    families: Annotated[Ints, TABLE]
    sets: Annotated[Ints, VECTOR]
    upos: Annotated[int, "int64"]
    rows: Annotated[int, "int64"]


class Space(NamedTuple):
    """Memory for the arcs of a sentence: `arcs`, the attributes of `pairs`, the `tags` between words and their counts.

    `heads` and `modifiers` have the terms of each word in the rows of each family.
    """

    arcs: Annotated[Ints, "int64[:, ::1]"]
    heads: Annotated[Ints, "int64[:, ::1]"]
    modifiers: Annotated[Ints, "int64[:, ::1]"]
    tags: Annotated[Ints, "int64[:, :, :, ::1]"]
    counts: Annotated[Ints, "int64[:, :, ::1]"]
    pairs: Annotated[Ints, "int64[:, ::1]"]


def corpus_of(codes: ArcCodes, guides: Ints | None = None) -> Corpus:
    """Return sentences as kernels take them."""
    found = NO_GUIDES if guides is None else guides
    first, sizes = read_only(codes.first), read_only(codes.sizes)
    return Corpus(read_only(codes.codes), read_only(codes.kinds), first, sizes, read_only(found))


def layout_of(templates: ArcTemplates, layout: ArcLayout) -> Layout:
    """Return a layout as kernels take it."""
    sets = read_only(np.array(layout.columns, dtype=np.int64))
    ends, atoms, families = read_only(layout.ends), read_only(layout.atoms), read_only(layout.families)
    return Layout(ends, atoms, families, sets, templates.columns.index("upos"), layout.rows)


def places_of(templates: ArcTemplates) -> Ints:
    """Return the family and the slot of each template."""
    return np.array(templates.places, dtype=np.int64).reshape(-1, 2)


@kernel("Space(int64, int64, int64)")
def make_space(longest: int, families: int, sets: int) -> Any:
    """Allocate memory for sentences of up to `longest` words."""
    N, F = longest + 1, families
    return Space(
        np.empty((4, N * N), dtype=np.int64),
        np.empty((F, N), dtype=np.int64),
        np.empty((F, N), dtype=np.int64),
        np.empty((sets, N, 2, N), dtype=np.int64),
        np.empty((sets, N, N), dtype=np.int64),
        np.empty((4, N * N), dtype=np.int64),
    )


@kernel(f"int64(Sentence, Layout, {LIMITS}, Space)")
def prepare(sentence: Sentence, layout: Layout, limits: Shorts, space: Space) -> int:
    """Fill `space` with everything for scoring a sentence; return the number of arcs."""
    prepare_words(sentence, layout, space)
    count = int(candidates(sentence, layout.upos, limits, space.arcs))
    prepare_pairs(sentence, layout, count, space)
    return count


@kernel("void(Sentence, Layout, Space)")
def prepare_words(sentence: Sentence, layout: Layout, space: Space) -> None:
    """Compute the terms of words in the rows of each family, and the tags between them."""
    sides = np.empty((layout.ends.size - 1, sentence.n + 1), dtype=np.int64)
    side_codes(sentence, layout.ends, layout.atoms, sides)
    addends(layout.families, sides, sentence.n, space.heads, space.modifiers)
    for k in range(layout.sets.size):
        tags_between(sentence, layout.sets[k], space.tags[k], space.counts[k])


@kernel("void(Sentence, Layout, int64, Space)")
def prepare_pairs(sentence: Sentence, layout: Layout, count: int, space: Space) -> None:
    """Compute the attributes of arcs as pairs."""
    families = layout.families
    for which in range(space.pairs.shape[0]):
        for f in range(families.shape[0]):
            if families[f, PAIR] == which:
                pair_codes(sentence, layout.upos, space.arcs, count, which, space.pairs[which])
                break


@kernel(f"int64({VECTOR}, int64)")
def index_of(sets: Ints, which: int) -> int:
    """Return the place of a column among the sets."""
    k = 0
    while sets[k] != which:
        k += 1
    return k


# --- arcs worth scoring: pairs of tags in one direction, up to the largest distance seen in trees -------

# A limit that lets every arc pass.
ANY = 30000


@kernel(f"void({CODES}, int64, {VECTOR}, {VECTOR}, {VECTOR}, int16[:, :, ::1])")
def widen_limits(codes: Codes, column: int, first: Ints, sizes: Ints, gold: Ints, limits: Shorts) -> None:
    """limits[direction, tag of head, tag of modifier] = the largest distance of an arc; 1 for arcs from the root."""
    for s in range(first.size):
        a = first[s]
        for m in range(1, sizes[s] + 1):
            h = gold[a + m]
            side = 0 if h < m else 1
            d = 1 if h == 0 else abs(h - m)
            tag, other = codes[column, a + h], codes[column, a + m]
            limits[side, tag, other] = max(limits[side, tag, other], min(d, ANY))


def arc_limits(templates: ArcTemplates, codes: ArcCodes, gold: Ints, known: Shorts | None = None) -> Shorts:
    """Return the limits that let every arc of these trees pass, widened from `known`; unknown tags have none.

    `gold` has the layout of the codes, with any number at the places of roots.
    """
    column, radix = templates.columns.index("upos"), templates.radix("upos")
    limits = np.zeros((2, radix, radix), dtype=np.int16) if known is None else known.copy()
    limits[:, 0, :] = limits[:, :, 0] = ANY
    widen_limits(codes.codes, column, codes.first, codes.sizes, gold, limits)
    return limits
