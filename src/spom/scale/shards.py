"""`Shards`: recipes for the parts of a data set, small enough to send to any worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spom.errors import DataError, Unsupported
from spom.scale.cutting import listed, open_file, pieces_of
from spom.scale.recipes import ArrayShard, DelayedShard, ParquetShard, Shard, TextShard

Paths = str | Path | Sequence[str | Path]
# The ends of sentences, and of lines.
SENTENCE, LINE = (b"\n\n", b"\n\r\n"), (b"\n",)


class LoadedShards:
    """(X, y) or (X, y, sample_weight) of each shard that is not empty; `Columns` and treebanks as they are."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards

    def __iter__(self) -> Iterator[Any]:
        for shard in self.shards:
            X, y, weight = shard.load()
            if X is not None:
                yield X if y is None else (X, y) if weight is None else (X, y, weight)


class Shards:
    """The parts of a data set, each a recipe that any worker can follow: only the places of the cuts are read here.

    What is learnt depends on the data, the seed and the number of shards, but not on the number of machines that read
    them. `paths` is a path, a pattern such as `"part-*.conll"`, an address that fsspec knows, or a list of these.

    >>> import numpy as np
    >>> shards = Shards.arrays(np.eye(5), np.array([0, 1, 0, 1, 1]), 2)
    >>> len(shards), [shard.load()[1].tolist() for shard in shards]
    (2, [[0, 1], [0, 1, 1]])
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = tuple(shards)
        if not self.shards:
            raise DataError("there are no shards: give at least one")

    def __len__(self) -> int:
        return len(self.shards)

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.shards)

    def __getitem__(self, index: int) -> Shard:
        return self.shards[index]

    def __repr__(self) -> str:
        return f"Shards({len(self)}: {self.shards[0]}, ...)"

    def blocks(self) -> LoadedShards:
        """Return what the shards load, one after another: a source for a `Stream`, which can be read again."""
        return LoadedShards(self.shards)

    @classmethod
    def arrays(cls, X: Any, y: Any = None, n: int = 8, sample_weight: Any = None) -> Shards:
        """Cut data in memory: rows of a matrix, sentences (lists or `Columns`), or a `Treebank`."""
        count = X.shape[0] if hasattr(X, "shape") else len(X)
        if n < 1:
            raise ValueError(f"the number of shards must be at least 1; it is {n!r}")
        cuts = [k * count // n for k in range(n + 1)]

        def part(values: Any, a: int, b: int) -> Any:
            # The name or number of a column of labels is the same for all parts.
            return values if values is None or isinstance(values, (str, int)) else values[a:b]

        return cls(
            [
                ArrayShard(f"items {a} to {b - 1}", part(X, a, b), part(y, a, b), part(sample_weight, a, b))
                for a, b in pairwise(cuts)
            ]
        )

    @classmethod
    def conll(cls, paths: Paths, n: int = 8, *, y: Any = None, **options: Any) -> Shards:
        """Cut files of one token per line at blank lines; `options` are those of `spom.data.read_conll`.

        `y` is the name or number of the column of labels, by default the last one.
        """
        return cls._text("conll", paths, n, SENTENCE, {"y": y, **options})

    @classmethod
    def conllu(cls, paths: Paths, n: int = 8) -> Shards:
        """Cut CoNLL-U files at blank lines."""
        return cls._text("conllu", paths, n, SENTENCE, {})

    @classmethod
    def svmlight(cls, paths: Paths, n: int = 8, *, n_features: int | None = None, zero_based: bool = False) -> Shards:
        """Cut svmlight files at line ends; without `n_features` the first pass finds the number of features."""
        return cls._text("svmlight", paths, n, LINE, {"n_features": n_features, "zero_based": zero_based})

    @classmethod
    def csv(cls, paths: Paths, n: int = 8, *, target: str | None = None, encoding: str = "utf-8") -> Shards:
        """Cut CSV files with a header at line ends; no cell may contain one. The default target is the last column."""
        return cls._text("csv", paths, n, LINE, {"target": target, "encoding": encoding}, header=True)

    @classmethod
    def _text(
        cls, kind: str, paths: Paths, n: int, ends: Sequence[bytes], options: dict[str, Any], header: bool = False
    ) -> Shards:
        runs = pieces_of(listed(paths), n, ends, skip=header)
        return cls([TextShard(run, kind, tuple(options.items())) for run in runs])

    @classmethod
    def parquet(cls, paths: Paths, n: int = 8, *, target: str | None = None) -> Shards:
        """Distribute the row groups of Parquet files; the target is by default the last column."""
        try:
            import pyarrow.parquet
        except ImportError:
            raise Unsupported("reading Parquet needs the package pyarrow; CSV needs nothing") from None
        groups: list[tuple[str, int]] = []
        for path in listed(paths):
            try:
                with open_file(path) as file:
                    found = pyarrow.parquet.ParquetFile(file).metadata.num_row_groups
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(f"expected a whole Parquet file ({str(error).splitlines()[0]})", path) from None
            groups += [(path, k) for k in range(found)]
        cuts = [k * len(groups) // n for k in range(n + 1)]
        return cls([ParquetShard(tuple(groups[a:b]), target) for a, b in pairwise(cuts)])

    @classmethod
    def dask(cls, collection: Any, y: Any = None) -> Shards:
        """Make one shard per partition of a Dask collection, or per delayed `(X, y)` of a list.

        A Dask array needs `y`, an array with the same chunks of rows; a dataframe needs `y`, the name of its target;
        the items of a bag are pairs (sentence, labels). A lost partition is computed again from its graph.
        """
        try:
            from dask.delayed import Delayed
        except ImportError:
            raise Unsupported("Shards.dask needs the packages dask and distributed (pip install spom[dask])") from None
        if isinstance(collection, (list, tuple)):
            wrong = next((part for part in collection if not isinstance(part, Delayed)), None)
            if wrong is not None:
                raise DataError(f"expected a list of delayed (X, y), found a {type(wrong).__name__} in it")
            return cls([DelayedShard(part, "pair", None, k) for k, part in enumerate(collection)])
        if not hasattr(collection, "to_delayed"):
            raise DataError(f"expected a Dask collection or a list of delayed (X, y), not {type(collection).__name__}")
        parts = np.ravel(np.asarray(collection.to_delayed(), dtype=object)).tolist()
        if hasattr(collection, "chunks"):
            if y is None or not hasattr(y, "to_delayed") or y.chunks[0] != collection.chunks[0]:
                raise DataError("a Dask array needs y=, a Dask array with the same chunks of rows")
            if len(collection.chunks) > 1 and len(collection.chunks[1]) > 1:
                raise DataError("the columns of a Dask array must be one chunk: use X.rechunk({1: -1})")
            targets = np.ravel(np.asarray(y.to_delayed(), dtype=object)).tolist()
            return cls([DelayedShard(p, "array", t, k) for k, (p, t) in enumerate(zip(parts, targets, strict=True))])
        kind = "frame" if hasattr(collection, "columns") else "bag"
        if kind == "frame" and y is None:
            raise DataError("a Dask dataframe needs y=, the name of the column of targets")
        return cls([DelayedShard(part, kind, y, k) for k, part in enumerate(parts)])
