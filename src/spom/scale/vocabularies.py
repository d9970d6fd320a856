"""Features of templates counted shard by shard: the same features, in the same order, as for all sentences at once.

A feature is a conjunction of values. Each shard returns the values of its features as codes of its own strings, in
order of first occurrence. Here the strings and then the features are merged, in shard order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spom.core.arrays import Ints
from spom.errors import Unsupported
from spom.features import tables
from spom.features.conjunctions import Block, Coder, Conjunctions, Stage
from spom.features.templates import Templates
from spom.features.vocabulary import Vocabulary


@dataclass(frozen=True)
class Counted:
    """The strings of a shard's columns (`words`) and streams (`values`), the codes of its features, their counts."""

    words: dict[Any, Vocabulary]
    values: dict[Any, Vocabulary]
    codes: list[Any]
    counts: Ints


def counted(templates: Templates, columns: Any) -> Counted:
    """Return the features of one shard."""
    single = templates.fresh()
    single.min_count = 1
    rows = single.fit(columns)
    model = single._fitted
    assert isinstance(model, Conjunctions)
    counts = np.bincount(rows.indices, minlength=model.blocks.total)
    codes = [model.codes(block, np.arange(block.size)).astype(np.int32) for block in model.parts]
    return Counted(model.coder.words, model.coder.values, codes, counts.astype(np.int64))


def merged_templates(templates: Templates, parts: Sequence[Counted]) -> Templates:
    """Return templates that know the features of all shards."""
    if templates.table is not None:
        return templates
    coder, maps = _merged_coder(templates._coder(), parts)
    blocks, counts, starts = [], [], [0] * len(parts)
    for b, (name, group) in enumerate(templates._groups.items()):
        streams = group[0].streams
        codes, numbers = [], []
        for p, part in enumerate(parts):
            own = part.codes[b]
            columns = [maps[p][stream][own[:, a]] for a, stream in enumerate(streams)]
            codes.append(np.stack(columns, axis=1) if columns else own)
            numbers.append(part.counts[starts[p] : starts[p] + own.shape[0]])
            starts[p] += own.shape[0]
        stages, ids = _staged(np.concatenate(codes), coder.radix(streams))
        blocks.append(Block(name, tuple(group), stages))
        counts.append(np.bincount(ids, weights=np.concatenate(numbers), minlength=blocks[-1].size))
    model = Conjunctions(coder, blocks)
    if templates.min_count > 1:
        kept = np.flatnonzero(np.concatenate(counts) >= templates.min_count)
        model = model.compact(kept, range(len(blocks)))
    return templates._like(list(templates._groups), model)


def _merged_coder(coder: Coder, parts: Sequence[Counted]) -> tuple[Coder, list[dict[Any, Ints]]]:
    """Return a coder of all strings, and for each part the new code of each of its codes, by stream."""
    coder.words = {stream.column: Vocabulary() for stream in coder.streams}
    for column, words in coder.words.items():
        for part in parts:
            words.add(*part.words[column].spans())
    shift, maps = 2 * coder.reach, []
    for stream in coder.streams:
        coder._learn(stream)
    for part in parts:
        found: dict[Any, Ints] = {}
        for stream in coder.streams:
            theirs = coder.values[stream].lookup(*part.values[stream].spans()).astype(np.int64)
            if (theirs == 0).any():
                raise Unsupported("shards derive different strings from the same words: do all have the same clusters?")
            found[stream] = np.concatenate([np.arange(shift + 1, dtype=np.int64), shift + theirs])
        maps.append(found)
    return coder, maps


def _staged(codes: Ints, radix: list[int]) -> tuple[tuple[Stage, ...], Ints]:
    """Return the stages of a block whose features have these codes, and the number of each feature."""
    ids, first, room, stages = np.zeros(codes.shape[0], dtype=np.int64), 0, 1, []
    keys = ids
    for a, size in enumerate(radix):
        if a > first and room * size > tables.LIMIT:
            ids, known = _numbered(keys)
            stages.append(Stage(a - first, known))
            first, room, keys = a, max(1, known.size), ids
        room *= size
        keys = keys * size + codes[:, a]
    ids, known = _numbered(keys)
    return (*stages, Stage(len(radix) - first, known)), ids


def _numbered(keys: Ints) -> tuple[Ints, Ints]:
    """Return (the number of each key, the distinct keys in order of first occurrence)."""
    known, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return rank[inverse], known[order]
