"""`Stream`: any number of examples or blocks, read ahead in a thread and shuffled in windows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import scipy  # its parts are loaded when they are first used

from spom.core.arrays import is_sparse
from spom.data.columns import Columns, joined
from spom.data.treebank import Treebank
from spom.errors import DataError

T = TypeVar("T")
WINDOW = 4096


class Stream:
    """The examples of an iterable in windows: each window is one block, in its own random order.

    `source` yields blocks, or single examples: (X, y) or (X, y, sample_weight) of rows; (sentences, labels) as lists;
    `Columns`; a `Treebank`, as from `spom.data.iter_conllu`; `Shards.blocks()`. Items are read in a thread, one window
    ahead of training. At most three windows are in memory, however long the source is.
    The same seed gives the same examples in the same order, whatever the blocks of the source are. A source whose
    `iter` starts anew can be read again, and is shuffled differently in each pass; an iterator is read once.

    >>> windows = Stream(((np.array([float(i)]), i) for i in range(5)), window=3)
    >>> [(X.ravel().tolist(), y.tolist()) for X, y in windows]
    [([2.0, 0.0, 1.0], [2, 0, 1]), ([4.0, 3.0], [4, 3])]
    """

    def __init__(self, source: Iterable[Any], *, window: int = WINDOW, shuffle: bool = True, seed: int = 0) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1; it is {window!r}")
        self.source, self.window, self.shuffle, self.seed = source, window, shuffle, seed

    @property
    def once(self) -> bool:
        """Whether the source can be read only once."""
        return iter(self.source) is self.source

    def __iter__(self) -> Iterator[Any]:
        return self.windows(0)

    def windows(self, number: int) -> Iterator[Any]:
        """Return the windows of the pass with this number."""
        return ahead(self._windows(np.random.default_rng([self.seed, number])))

    def _windows(self, random: np.random.Generator) -> Iterator[Any]:
        held: list[Any] = []
        count = 0
        for block in _blocks(self.source, self.window):
            begin, size = 0, size_of(block)
            while size - begin >= self.window - count:
                end = begin + self.window - count
                yield self._mixed([*held, part_of(block, begin, end)], random)
                held, count, begin = [], 0, end
            if begin < size:
                held.append(part_of(block, begin, size))
                count += size - begin
        if held:
            yield self._mixed(held, random)

    def _mixed(self, parts: list[Any], random: np.random.Generator) -> Any:
        whole = as_one(parts)
        return taken(whole, random.permutation(size_of(whole))) if self.shuffle else whole


def windows_of(stream: Stream, passes: int) -> Iterator[Any]:
    """Yield the windows of all passes, or of one pass if the stream can be read only once."""
    count = 0
    for number in range(1 if stream.once else passes):
        for block in stream.windows(number):
            count += 1
            yield block
    if not count:
        raise DataError("the stream gave no examples: there is nothing to learn from")


def is_iterator(X: Any) -> bool:
    """Return whether sentences or trees come one by one, not as a whole."""
    return isinstance(X, Stream) or (hasattr(X, "__next__") and not hasattr(X, "__len__"))


def as_stream(X: Any) -> Stream:
    """Return the stream itself, or a stream of this iterable."""
    return X if isinstance(X, Stream) else Stream(X)


# --- blocks -------------------------------------------------------------------------------------------------------


def is_example(item: Any) -> bool:
    """Return whether an item is one example: a row and its target, tokens and their labels, the words of a tree."""
    if isinstance(item, tuple) and len(item) in (2, 3):
        X, y = item[0], item[1]
        if hasattr(X, "shape"):
            return bool(np.ndim(y) == 0)
        return isinstance(y, (list, tuple)) and not (y and isinstance(y[0], (list, tuple)))
    return isinstance(item, list)


def _blocks(source: Iterable[Any], window: int) -> Iterator[Any]:
    """Yield the blocks of a source; single examples are joined into blocks."""
    held: list[Any] = []
    for item in source:
        if not is_example(item):
            yield item
            continue
        held.append(item)
        if len(held) == window:
            yield _block(held)
            held = []
    if held:
        yield _block(held)


def _block(examples: list[Any]) -> Any:
    first = examples[0]
    if isinstance(first, list):
        return Treebank.from_sentences(examples)
    parts = list(zip(*examples, strict=True))
    if not hasattr(first[0], "shape"):
        return [list(part) for part in parts[0]], [list(part) for part in parts[1]]
    X = scipy.sparse.vstack(parts[0], format="csr") if is_sparse(first[0]) else np.stack(parts[0])
    return (X, *(np.asarray(part) for part in parts[1:]))


def size_of(block: Any) -> int:
    """Return the number of examples in a block."""
    X = block[0] if isinstance(block, tuple) else block
    if isinstance(block, tuple) and len(block) not in (2, 3):
        raise DataError(f"expected (X, y) or (X, y, sample_weight) in a stream, found a tuple of {len(block)}")
    if not hasattr(X, "__len__") and not hasattr(X, "shape"):
        raise DataError(f"expected blocks or examples in a stream, found a {type(X).__name__}")
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def part_of(block: Any, begin: int, end: int) -> Any:
    """Return the examples from `begin` to `end`."""
    if begin == 0 and end == size_of(block):
        return block
    return tuple(some(part, slice(begin, end)) for part in block) if isinstance(block, tuple) else block[begin:end]


def taken(block: Any, index: Any) -> Any:
    """Return the examples with these indices."""
    return tuple(some(part, index) for part in block) if isinstance(block, tuple) else block[index]


def some(part: Any, index: Any) -> Any:
    """Return the rows, sentences or labels with these indices; return values of other kinds unchanged."""
    if part is None or isinstance(part, (str, int)):
        return part
    if isinstance(part, (list, tuple)):
        return part[index] if isinstance(index, slice) else [part[i] for i in index]
    return part[index] if not hasattr(part, "iloc") else part.iloc[index]


def as_one(parts: list[Any]) -> Any:
    """Join several blocks."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], (Treebank, Columns)):
        return joined_parts(parts)
    return tuple(joined_parts(list(same)) for same in zip(*parts, strict=True))


def joined_parts(parts: list[Any]) -> Any:
    """Join rows, sentences or labels of one kind."""
    first = parts[0]
    if first is None or isinstance(first, (str, int)):
        return first
    if isinstance(first, Treebank):
        from spom.data.conllu import join_treebanks

        return join_treebanks(parts)
    if isinstance(first, Columns):
        return joined(parts)
    if is_sparse(first):
        return scipy.sparse.vstack(parts, format="csr")
    if isinstance(first, (list, tuple)):
        return [item for part in parts for item in part]
    if hasattr(first, "iloc"):
        import pandas

        return pandas.concat(parts)
    return np.concatenate(parts)


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the same items, each read one ahead in a thread."""
    box: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def put(kind: str, item: Any) -> bool:
        while not stop.is_set():
            try:
                box.put((kind, item), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            kind, item = box.get()
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item
    finally:
        stop.set()
        thread.join()
