"""Data in blocks: what counts as a stream, and passes over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from spom.data.svmlight import SvmlightFile
from spom.errors import DataError
from spom.estimators.training.streams import Stream, ahead, is_example


def is_stream(X: Any, y: Any) -> bool:
    """Tell whether X alone holds the targets too: a path to an svmlight file, or an iterable of (X, y) blocks.

    Anything with a shape, and a list of rows, is ordinary data.
    """
    if y is not None:
        return False
    if isinstance(X, (str, Path)):
        return True
    if any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__")) or isinstance(X, dict):
        return False
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(isinstance(b, tuple) and len(b) in (2, 3) and np.ndim(b[0]) != 0 for b in X[:1])
    return isinstance(X, Iterable)


class Blocks:
    """(X, y, weight) blocks of a source, in one pass or more.

    A path and every object whose `iter` starts again give `epochs` passes; an iterator that can be read only
    once gives one. Blocks are used in their order; `Stream` shuffles them.
    """

    def __init__(self, source: Any, epochs: int) -> None:
        self.source = SvmlightFile(source) if isinstance(source, (str, Path)) else source
        once = self.source.once if isinstance(self.source, Stream) else iter(self.source) is self.source
        self.epochs = 1 if once else epochs

    @property
    def labels(self) -> Any:
        """The distinct labels, if the source knows them before it is read, else None."""
        return getattr(self.source, "labels", None)

    @property
    def path(self) -> Any:
        """The file, if the source is one, else None."""
        return self.source.path if isinstance(self.source, SvmlightFile) else None

    @property
    def total(self) -> int | None:
        """The number of blocks to come, if it is known."""
        # A file with given features and labels is not scanned just to count its rows.
        if not isinstance(self.source, SvmlightFile) or not self.source.looked:
            return None
        return -(-self.source.n_rows // self.source.block_rows) * self.epochs

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        count = 0
        for number in range(self.epochs):
            for block in self._blocks(number):
                count += 1
                yield _parts(block, count)
        if not count:
            raise DataError("the stream gave no blocks: there is nothing to learn from")

    def _blocks(self, number: int) -> Iterator[Any]:
        """Yield the blocks of one pass, read ahead in a thread; single examples are collected in windows."""
        if isinstance(self.source, Stream):
            yield from self.source.windows(number)
            return
        if isinstance(self.source, (list, tuple)):
            yield from self.source
            return
        items = iter(self.source)
        try:
            first = next(items)
        except StopIteration:
            return
        every = chain([first], items)
        yield from Stream(every).windows(number) if is_example(first) else ahead(every)

    def opened(self) -> tuple[tuple[Any, Any, Any], Iterator[tuple[Any, Any, Any]]]:
        """Return the first block, and an iterator over all of them, the first one included."""
        blocks = iter(self)
        first = next(blocks)
        return first, chain([first], blocks)


def _parts(block: Any, count: int) -> tuple[Any, Any, Any]:
    if not isinstance(block, tuple) or len(block) not in (2, 3):
        raise DataError(
            f"expected (X, y) or (X, y, sample_weight) blocks; block {count} of the stream is a "
            f"{type(block).__name__}" + (f" of {len(block)}" if isinstance(block, tuple) else "")
        )
    X, y, *weight = block
    return X, y, weight[0] if weight else None
