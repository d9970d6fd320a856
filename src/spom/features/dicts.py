"""`DictFeatures`: feature dicts or lists of strings per token, as sklearn-crfsuite takes them, to feature ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, offsets_of, under
from spom.core.jit import kernel
from spom.data.columns import packed_strings
from spom.data.interning import distinct
from spom.errors import DataError
from spom.features.rows import (
    NO_VALUES,
    Blocks,
    InBlocks,
    Rows,
    check_kind,
    cut_blocks,
    opening,
    read_blocks,
    read_spec,
    write_spec,
)
from spom.features.vocabulary import Vocabulary

_VERSION = 1
# Separators within a name, which no key contains: between a dict's key and its text, and after a key with a number.
_MARK, _ALONE = "\x1f", "\x1e"
_ONE_BLOCK = "features"
_MANY_ALONE = 256


class DictFeatures(InBlocks):
    """x_t = sum of value times unit vector over the features of token t's dict or list.

    A token is a dict or a list of strings. In a dict `"key": "text"` is the feature key:text, `"key": number` the
    feature key with that value, `"key": True` the feature key, and lists, sets and dicts as values are features
    key:each. A feature's block is its key. The block of a string such as "word=the" or "pos:NN" is the part before the
    first "=" or, without one, ":"; strings with neither share one block. `blocks` may instead be a function from the
    name of a feature to that of its block. Features seen fewer than `min_count` times by `fit`, or never, are left out.

    >>> features = DictFeatures()
    >>> rows = features.fit([[{"word": "the", "upper": False}, {"word": "CAT", "upper": True, "length": 3}]])
    >>> [features.name(id) for id in rows.indices], rows.values
    (['word:the', 'word:CAT', 'upper', 'length'], array([1., 1., 1., 3.]))
    >>> features.blocks.names, features.blocks.sizes
    (('word', 'upper', 'length'), array([2, 1, 1]))
    >>> features.transform([[{"word": "dog"}, {"word": "the"}]]).indices
    array([0], dtype=int32)
    """

    kind = "named"

    def __init__(self, *, min_count: int = 1, blocks: Callable[[str], str] | None = None) -> None:
        if isinstance(min_count, bool) or min_count < 1:
            raise ValueError(f"min_count must be at least 1; it is {min_count!r}")
        self.min_count, self.block_of = min_count, blocks
        self._names = Vocabulary()

    def fit(self, X: Iterable[Iterable[Any]]) -> Rows:
        """Learn the features of the sentences, and return their rows."""
        check_kind(X, self.kind)
        flat, values, indptr, offsets = _flattened(X)
        buffer, start, length = packed_strings(flat)
        local, first = distinct(buffer, start[:, None], length[:, None], 0)
        names = [flat[t] for t in first.tolist()]
        block, titles = self._blocks_of(names)
        enough = np.bincount(local, minlength=len(names)) >= self.min_count
        order = np.argsort(np.where(enough, block, len(titles)), kind="stable")[: int(enough.sum())]
        self._names = Vocabulary()
        self._names.add(buffer, start[first[order]], length[first[order]])
        sizes = np.bincount(block[order], minlength=len(titles))
        self._blocks = Blocks(tuple(titles), offsets_of(sizes))
        ids = np.full(len(names), -1, dtype=np.int32)
        ids[order] = np.arange(order.size, dtype=np.int32)
        return _rows(ids[local], values, indptr, offsets)

    def transform(self, X: Iterable[Iterable[Any]]) -> Rows:
        """Return the rows of the sentences, with the known features only. Threads may share this object."""
        _ = self.blocks  # an error before `fit`
        check_kind(X, self.kind)
        flat, values, indptr, offsets = _flattened(X)
        ids = self._names.lookup(*packed_strings(flat))
        ids -= 1
        return _rows(ids, values, indptr, offsets)

    def _blocks_of(self, names: list[str]) -> tuple[Ints, list[str]]:
        """Return (the block of each name, the names of the blocks in order of first occurrence)."""
        if self.block_of is not None:
            given = [str(self.block_of(_shown(name))) for name in names]
        else:
            given = [_block(name) for name in names]
            alone = {title for name, title in zip(names, given, strict=True) if name == title + _ALONE}
            if len(alone) > _MANY_ALONE:  # a bag of words, not a set of templates
                given = [_ONE_BLOCK if title in alone else title for title in given]
        titles: dict[str, int] = {}
        return np.array([titles.setdefault(title, len(titles)) for title in given], dtype=np.int64), list(titles)

    def name(self, feature: int) -> str:
        """Return a feature as text."""
        return _shown(self._names[int(feature) + 1])

    def _like(self, ids: Ints, blocks: list[int]) -> Self:
        found = type(self)(min_count=self.min_count, blocks=self.block_of)
        found._names, found._blocks = self._names.subset(ids + 1), cut_blocks(self.blocks, ids, blocks)
        return found

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file; `spec` is JSON as UTF-8."""
        spec = {"version": _VERSION, "min_count": self.min_count, "blocks": list(self.blocks.names)}
        names = {f"names.{key}": value for key, value in self._names.arrays().items()}
        return {"spec": write_spec(spec), "starts": self.blocks.starts, **names}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> DictFeatures:
        """Rebuild the features from `arrays()`; the arrays may be read-only. Damaged ones raise a `ModelFileError`."""
        with opening("features"):
            spec = read_spec(arrays, _VERSION)
            found = cls(min_count=spec["min_count"])
            found._names = Vocabulary.from_arrays(under(arrays, "names."))
            found._blocks = read_blocks(spec["blocks"], arrays, len(found._names))
            return found


def _shown(name: str) -> str:
    return name.removesuffix(_ALONE).replace(_MARK, ":")


def _block(name: str) -> str:
    """Return the block of a feature; a dict's key that contains a value (word=the) counts as a string would."""
    at = name.find(_MARK)
    if at >= 0:
        return name[:at]
    at = name.find("=", 1)
    if at > 0:
        return name[:at]
    if name.endswith(_ALONE):
        return name[:-1]
    at = name.find(":", 1)
    return name[:at] if at > 0 else _ONE_BLOCK


def _flattened(X: Iterable[Iterable[Any]]) -> tuple[list[str], Floats, Ints, Ints]:
    """Return (the feature names of all tokens, their values, where each token's begin, where each sentence begins)."""
    names: list[str] = []
    odd: dict[int, float] = {}
    ends, sizes = [0], [0]
    add, end = names.append, ends.append
    for i, sentence in enumerate(X):
        if isinstance(sentence, str):
            raise DataError(f"sentence {i} is a string; expected a list of tokens with features")
        for t, token in enumerate(sentence):
            if type(token) is list:
                names += token
            elif isinstance(token, dict):
                for key, value in token.items():
                    if type(value) is str:
                        add(f"{key}{_MARK}{value}")
                    else:
                        _add_value(str(key), value, names, odd, i, t)
            elif isinstance(token, str):
                raise DataError(f"sentence {i}, token {t} is a string; expected a dict, or a list of strings")
            else:
                names.extend(token)
            end(len(names))
        sizes.append(len(ends) - 1)
    values = NO_VALUES
    if odd:
        values = np.ones(len(names))
        values[list(odd)] = list(odd.values())
    return names, values, np.array(ends, dtype=np.int64), np.array(sizes, dtype=np.int64)


def _add_value(key: str, value: Any, names: list[str], odd: dict[int, float], i: int, t: int) -> None:
    """Add the features of `key: value` where the value is not a plain string."""
    if isinstance(value, (bool, np.bool_)):
        if value:
            names.append(key + _ALONE)
    elif isinstance(value, (int, float, np.number)):
        number = float(value)
        if not np.isfinite(number):
            raise DataError(f"sentence {i}, token {t}: feature {key!r} is {value}; values must be finite")
        if number != 0.0:
            if number != 1.0:
                odd[len(names)] = number
            names.append(key + _ALONE)
    elif isinstance(value, str):
        names.append(f"{key}{_MARK}{value}")
    elif isinstance(value, dict):
        for inner, part in value.items():
            _add_value(f"{key}:{inner}", part, names, odd, i, t)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in sorted(value) if isinstance(value, (set, frozenset)) else value:
            if not isinstance(part, str):
                raise DataError(f"sentence {i}, token {t}: feature {key!r} has {part!r} in its list; expected strings")
            names.append(f"{key}{_MARK}{part}")
    else:
        raise DataError(
            f"sentence {i}, token {t}: feature {key!r} is {value!r}; expected a string, a number, a truth value, "
            "or a list, set or dict of them"
        )


@kernel("int64(int32[::1], float64[::1], int64[::1])")
def keep_known(ids: NDArray[np.int32], values: Floats, indptr: Ints) -> int:
    """Drop the entries whose id is negative, in place; return the number that remain."""
    kept, first = 0, indptr[0]
    for t in range(indptr.size - 1):
        last = indptr[t + 1]
        for e in range(first, last):
            if ids[e] >= 0:
                ids[kept] = ids[e]
                if values.size:
                    values[kept] = values[e]
                kept += 1
        first = last
        indptr[t + 1] = kept
    return kept


def _rows(ids: Any, values: Floats, indptr: Ints, offsets: Ints) -> Rows:
    """Return rows without the entries whose id is negative; the arrays may be overwritten."""
    kept = keep_known(ids, values, indptr)
    if values.size:
        values = values[:kept] if (values[:kept] != 1.0).any() else NO_VALUES
    return Rows(indptr, ids[:kept], values, offsets)
