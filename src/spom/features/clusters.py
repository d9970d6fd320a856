"""Clusters of words from a file of word<TAB>cluster lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Ints, under
from spom.core.container import check_indices, check_shape, take
from spom.data.columns import Columns, read_conll
from spom.data.interning import Bytes, Codes
from spom.errors import DataError
from spom.features.vocabulary import Vocabulary


class Clusters:
    """The cluster of each known word, as a string such as the bit string of a Brown cluster.

    >>> clusters = Clusters.read({"cat": "0110", "dog": "0111"})
    >>> len(clusters)
    2
    """

    def __init__(self, words: Vocabulary, names: Vocabulary, cluster: Codes) -> None:
        self.words, self.names, self.cluster = words, names, cluster

    @classmethod
    def read(cls, source: Any) -> Clusters:
        """Read a mapping, or a file of lines word<TAB>cluster; a repeated word keeps its first cluster."""
        if isinstance(source, Clusters):
            return source
        if isinstance(source, Mapping):
            table = Columns.from_lists([list(source.items())], ["word", "cluster"])
        elif isinstance(source, (str, Path)) or hasattr(source, "read"):
            table = read_conll(source, separator="\t")
        else:
            raise ValueError(f"clusters must be a mapping, a path or a binary file, not {type(source).__name__}")
        if table.n_columns != 2:
            raise DataError(f"expected word<TAB>cluster, found {table.n_columns} columns", table.source, 1)
        words, names = Vocabulary(), Vocabulary()
        word, name = words.encode(table, 0, grow=True), names.encode(table, 1, grow=True)
        cluster = np.zeros(len(words) + 1, dtype=np.int32)
        cluster[word[::-1]] = name[::-1]
        return cls(words, names, cluster)

    def of(self, buffer: Bytes, start: Ints, length: Codes) -> tuple[Bytes, Ints, Codes]:
        """Return the spans of the clusters of words, which are spans too; length -1 for a word without a cluster."""
        found = self.cluster[self.words.lookup(buffer, start, np.maximum(length, 0))]
        found[length < 0] = 0
        bounds = self.names.offsets
        size = np.where(found > 0, bounds[found] - bounds[np.maximum(found - 1, 0)], -1).astype(np.int32)
        return self.names.blob, bounds[np.maximum(found - 1, 0)], size

    def __len__(self) -> int:
        return len(self.words)

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays."""
        parts = {"words": self.words.arrays(), "names": self.names.arrays()}
        flat = {f"{part}.{key}": value for part, arrays in parts.items() for key, value in arrays.items()}
        return {**flat, "cluster": self.cluster}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Clusters:
        """Rebuild the clusters from `arrays()`."""
        parts = [Vocabulary.from_arrays(under(arrays, f"{part}.")) for part in ("words", "names")]
        cluster = check_indices(take(arrays, "cluster", "i"), len(parts[1]) + 1, "cluster")
        check_shape(cluster, (len(parts[0]) + 1,), "cluster")
        return cls(parts[0], parts[1], np.ascontiguousarray(cluster, dtype=np.int32))
