"""Sentences in the form that learners of chains read: one row of feature ids per token, blocks of features, labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spom.core.arrays import Floats, Ints, is_sparse
from spom.core.arrays import Singles as Singles
from spom.core.jit import kernel
from spom.data.columns import gather
from spom.errors import DataError
from spom.features.rows import Blocks

Ids = NDArray[np.int32]

# Labels are padded to whole vectors of this many, so that inner loops have no remainder.
LANES = 8
# Results of `first_fault` other than an entry.
_WHOLE, _MISFIT = -1, -2


def padded(k: int) -> int:
    """Return the least multiple of LANES that holds k labels."""
    return -(-k // LANES) * LANES


class Tokens(NamedTuple):
    """Rows of features: token t has indices[indptr[t]:indptr[t + 1]], sentence i tokens offsets[i]:offsets[i + 1].

    `values` may be empty, which means all ones. `len` counts sentences.
    """

    indptr: Annotated[Ints, "int64[::1]"]
    indices: Annotated[Ids, "int32[::1]"]
    values: Annotated[Floats, "float64[::1]"]
    offsets: Annotated[Ints, "int64[::1]"]

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def total(self) -> int:
        """The number of tokens."""
        return int(self.offsets[-1])

    def part(self, sentences: ArrayLike) -> Tokens:
        """Return the sentences with these indices, in this order."""
        tokens, offsets = gather(self.offsets, np.asarray(sentences, dtype=np.int64))
        entries, indptr = gather(self.indptr, tokens)
        values = self.values[entries] if self.values.size else self.values
        return Tokens(indptr, self.indices[entries], values, offsets)


def as_tokens(rows: Any, features: int | None = None) -> Tokens:
    """Return checked tokens from anything with indptr, indices, values and offsets (`spom.features.Rows`)."""
    limit = np.iinfo(np.int32).max if features is None else features
    indices = np.ascontiguousarray(rows.indices)
    if indices.dtype != np.int32:
        if indices.size and not 0 <= indices.min() <= indices.max() < limit:
            raise _bad_id(int(indices.min() if indices.min() < 0 else indices.max()), limit)
        indices = indices.astype(np.int32)
    values = np.ascontiguousarray(rows.values, dtype=np.float64)
    if values.size not in (0, indices.size):
        raise DataError(f"there are {values.size} values for {indices.size} feature ids")
    indptr, offsets = (np.ascontiguousarray(part, dtype=np.int64) for part in (rows.indptr, rows.offsets))
    tokens = Tokens(indptr, indices, values, offsets)
    at = first_fault(tokens, limit)
    if at == _WHOLE:
        return tokens
    if at == _MISFIT:
        raise DataError("rows do not fit together: indptr has one entry per token and one more, offsets end at tokens")
    if not 0 <= indices[at] < limit:
        raise _bad_id(int(indices[at]), limit)
    token = int(np.searchsorted(indptr, at, side="right")) - 1
    sentence = int(np.searchsorted(offsets, token, side="right")) - 1
    where = f"sentence {sentence}, token {token - int(offsets[sentence])}"
    raise DataError(f"{where}: a feature's value is {values[at]}; values must be finite")


def _bad_id(found: int, limit: int) -> DataError:
    return DataError(f"a row has the feature id {found}; ids are 0 to {limit - 1}")


@kernel("boolean(int64[::1], int64)")
def spans(ends: Ints, total: int) -> bool:
    """Tell whether parts start at 0, end at `total`, and have no negative length."""
    if ends.size == 0 or ends[0] != 0 or ends[-1] != total:
        return False
    rising = True
    for i in range(1, ends.size):
        rising &= ends[i] >= ends[i - 1]
    return rising


@kernel("int64(Tokens, int64)")
def first_fault(tokens: Tokens, limit: int) -> int:
    """Return the first entry with an id outside 0 to limit - 1 or a value that is not finite; _WHOLE without one."""
    if not (spans(tokens.indptr, tokens.indices.size) and spans(tokens.offsets, tokens.indptr.size - 1)):
        return _MISFIT
    for e in range(tokens.indices.size):
        if not 0 <= tokens.indices[e] < limit:
            return e
    for e in range(tokens.values.size):
        if not np.isfinite(tokens.values[e]):
            return e
    return _WHOLE


@dataclass(frozen=True)
class Summary:
    """Norms of blocks, number of non-zero feature weights, the sum of their absolute values, the chain's weights."""

    norms: Floats
    nonzeros: int
    sizes: float
    chain: Floats


def entries(W: Any, low: int, high: int) -> Singles:
    """Return the weights of some rows of a table, as one vector; for a CSR matrix the stored ones."""
    found = W.data[W.indptr[low] : W.indptr[high]] if is_sparse(W) else W[low:high].reshape(-1)
    return np.asarray(found, dtype=np.float32)


@kernel("int64(Tokens, int32[::1], Tokens)")
def renumber(tokens: Tokens, place: Ids, out: Tokens) -> int:
    """Write features j as place[j] to `out`, without those that have none (-1); return the number of entries."""
    count = 0
    for t in range(tokens.indptr.size - 1):
        for e in range(tokens.indptr[t], tokens.indptr[t + 1]):
            j = place[tokens.indices[e]]
            if j >= 0:
                out.indices[count] = j
                if tokens.values.size:
                    out.values[count] = tokens.values[e]
                count += 1
        out.indptr[t + 1] = count
    return count


def restricted(tokens: Tokens, blocks: Blocks, ids: Ints) -> tuple[Tokens, Blocks]:
    """Return only the features `ids` (sorted), renumbered; all blocks remain, some of them empty."""
    place = np.full(blocks.total, -1, dtype=np.int32)
    place[ids] = np.arange(ids.size, dtype=np.int32)
    indptr, indices, values = np.zeros_like(tokens.indptr), np.empty_like(tokens.indices), np.empty_like(tokens.values)
    count = renumber(tokens, place, Tokens(indptr, indices, values, tokens.offsets))
    kept = Tokens(indptr, indices[:count], values[:count] if values.size else values, tokens.offsets)
    return kept, Blocks(blocks.names, np.searchsorted(ids, blocks.starts).astype(np.int64))


def of_features(blocks: Blocks) -> Ids:
    """Return the block of each feature."""
    return np.repeat(np.arange(len(blocks), dtype=np.int32), blocks.sizes)


def block_weights(tokens: Tokens, blocks: Blocks) -> Floats:
    """Return sqrt(concentration) of each block, scaled to mean 1."""
    share = np.bincount(tokens.indices, minlength=blocks.total)[: blocks.total] / max(1, tokens.total)
    squares = np.concatenate([[0.0], np.cumsum(share * share)])[blocks.starts]
    root = np.sqrt(np.sqrt(np.maximum(np.diff(squares), 0.0)))
    mean = float(root.mean()) if root.size else 1.0
    # A block without a feature in these sentences has no gradient either: any weight works.
    return np.where(root > 0.0, root, 1.0) / mean if mean > 0.0 else np.ones(root.size)


def as_blocks(blocks: Any, features: int | None = None) -> Blocks:
    """Return checked blocks from anything with starts (and names); one block of all features for None."""
    if blocks is None:
        return Blocks(("features",), np.array([0, features or 0], dtype=np.int64))
    starts = np.ascontiguousarray(blocks.starts, dtype=np.int64)
    if starts.size < 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise DataError("starts of blocks must begin with 0 and not fall")
    names = tuple(getattr(blocks, "names", ()))
    if len(names) != starts.size - 1:
        names = tuple(str(m) for m in range(starts.size - 1))
    return Blocks(names, starts)


def check_sentence_weights(weight: ArrayLike | None, sentences: int) -> Floats:
    """Return checked weights >= 0, one per sentence, with mean 1; empty for None, and if all are equal."""
    if weight is None:
        return np.zeros(0)
    found = np.ascontiguousarray(weight, dtype=np.float64)
    if found.shape != (sentences,) or not np.isfinite(found).all() or (found < 0.0).any():
        raise DataError(f"weights must be finite and >= 0, one for each of the {sentences} sentences")
    if sentences and not found.any():
        raise DataError("the weights are all zero: no sentence would count")
    return np.zeros(0) if sentences == 0 or found.min() == found.max() else found * (sentences / found.sum())


def check_gold(y: ArrayLike, tokens: Tokens, k: int, least: int = 0) -> Ints:
    """Return checked label numbers from `least` to k - 1, one per token; -1 is an unknown label, if allowed."""
    gold = np.ascontiguousarray(y, dtype=np.int64)
    if gold.shape != (tokens.total,):
        raise DataError(f"there are {gold.size} labels for {tokens.total} tokens: there must be one for each")
    if gold.size and (gold.min() < least or gold.max() >= k):
        raise DataError(f"labels must be numbers from 0 to {k - 1}; they go from {gold.min()} to {gold.max()}")
    return gold
