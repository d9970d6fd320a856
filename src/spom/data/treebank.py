"""Sentences with dependency trees, stored as positions in the text that they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints
from spom.core.jit import kernel
from spom.data.columns import Columns, gather
from spom.data.drawing import tree_svg
from spom.data.interning import Codes
from spom.errors import DataError

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# The faults that `first_fault` finds.
_CYCLE, _ROOTS, _NO_ROOT, _NO_HEAD = range(1, 5)
# The number of sentences drawn in a notebook.
_SHOWN = 5


@kernel("UniTuple(int64, 2)(int64[::1], int64[::1])")
def first_fault(heads: Ints, offsets: Ints) -> tuple[int, int]:
    """Return (fault, word) of the first sentence that is no tree with one root, or (0, 0)."""
    for s in range(offsets.size - 1):
        a, n = offsets[s], offsets[s + 1] - offsets[s]
        roots = 0
        for w in range(n):
            if heads[a + w] < 0:
                return 4, a + w
            roots += heads[a + w] == 0
            if roots > 1:
                return 2, a + w
        seen = np.zeros(n + 1, dtype=np.int64)
        for first in range(1, n + 1):
            w = first
            while w != 0 and seen[w] == 0:
                seen[w] = first
                w = heads[a + w - 1]
            if w != 0 and seen[w] == first:
                # A sentence without a root has a cycle too; the missing root is reported first.
                return (1 if roots else 3), a + first - 1
    return 0, 0


@dataclass(frozen=True)
class Treebank:
    """Sentences in the ten columns of CoNLL-U with `heads` (0: the root, -1: none given) and relations.

    `columns` has only the words. Comments, multiword tokens and empty nodes of a sentence stay in its span of the
    text, and are written again by `write_conllu`. Relations are codes into `relation_names`. An integer index
    returns a sentence as a list of tuples of strings, a slice or an array of indices a smaller `Treebank`.

    >>> bank = Treebank.from_sentences([[{"form": "Dogs", "upos": "NOUN", "head": 2, "deprel": "nsubj"},
    ...                                  {"form": "bark", "upos": "VERB", "head": 0, "deprel": "root"}]])
    >>> bank
    Treebank(1 sentence, 2 words)
    >>> bank.heads, bank.relation_names
    (array([2, 0]), ('nsubj', 'root'))
    """

    columns: Columns
    heads: Ints
    spans: Ints
    predicted: tuple[Codes, tuple[str, ...]] | None = None

    @classmethod
    def from_sentences(cls, sentences: Iterable[Iterable[Mapping[str, Any]]]) -> Treebank:
        """Create a treebank from lists of words, each word a mapping from column names (`form`, `upos`, ...)."""
        from spom.data.conllu import parse_conllu

        lines = []
        for s, sentence in enumerate(sentences):
            for number, word in enumerate(sentence, 1):
                unknown = [name for name in word if name not in NAMES]
                if unknown:
                    raise DataError(
                        f"sentence {s}, word {number}: unknown column {unknown[0]!r}; available: {', '.join(NAMES)}"
                    )
                fields = [str(number), *(str(word.get(name, "_")) for name in NAMES[1:])]
                if any("\t" in field or "\n" in field for field in fields):
                    raise DataError(f"sentence {s}, word {number}: a field contains a tab or a line break")
                lines.append("\t".join(fields))
            lines.append("")
        return parse_conllu("\n".join(lines).encode(), "sentences")

    @property
    def offsets(self) -> Ints:
        """Sentence i has the words offsets[i] to offsets[i + 1] - 1."""
        return self.columns.offsets

    @property
    def n_words(self) -> int:
        """The number of words of all sentences."""
        return self.columns.n_tokens

    @cached_property
    def _relations(self) -> tuple[Codes, tuple[str, ...]]:
        if self.predicted is not None:
            return self.predicted
        codes, names = self.columns.distinct("deprel")
        return codes, tuple(names.tolist())

    @property
    def relations(self) -> Codes:
        """The relation of each word to its head, as a code into `relation_names`."""
        return self._relations[0]

    @property
    def relation_names(self) -> tuple[str, ...]:
        """The relations, one per code."""
        return self._relations[1]

    def with_trees(self, heads: Ints, relations: Codes | None = None, names: tuple[str, ...] = ()) -> Treebank:
        """Return the same sentences with other trees; without `relations`, the old relations are kept."""
        labels = self._relations if relations is None else (relations, names)
        return Treebank(self.columns, np.ascontiguousarray(heads, dtype=np.int64), self.spans, labels)

    def without_trees(self) -> Treebank:
        """Return the same sentences without heads and relations: the input of a parser."""
        n = self.n_words
        return self.with_trees(np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int32), ("_",))

    def with_columns(self, **columns: Any) -> Treebank:
        """Return the same sentences with other values in some columns: form, lemma, upos, xpos, feats, deps, misc.

        A column is a list of lists of strings, one per sentence; a flat sequence of strings, one per word; or a pair
        (codes, names). Comments, multiword tokens and all other columns are kept.

        >>> bank = Treebank.from_sentences([[{"form": "Dogs"}, {"form": "bark"}]])
        >>> bank.with_columns(upos=[["NOUN", "VERB"]], lemma=["dog", "bark"])[0][0][:4]
        ('1', 'Dogs', 'dog', 'NOUN')
        """
        from spom.data.conllu import replace_columns

        return replace_columns(self, columns)

    def trees(self) -> Iterator[tuple[Ints, list[str]]]:
        """Yield (heads, relations) of each sentence."""
        names = np.array(self.relation_names, dtype=object)
        for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            yield self.heads[a:b], names[self.relations[a:b]].tolist()

    @property
    def has_trees(self) -> bool:
        """Whether some word has a head."""
        return bool((self.heads >= 0).any())

    def check_trees(self) -> None:
        """Raise a `DataError` with file and line for the first sentence that is no tree with one root."""
        what, word = first_fault(self.heads, np.ascontiguousarray(self.offsets))
        if what:
            text = {
                _CYCLE: "the heads of this sentence form a cycle, which starts at this word: a tree has no cycles",
                _ROOTS: "this sentence has several roots (HEAD 0), of which this word is the second: a tree has one",
                _NO_ROOT: "this sentence has no root: one word must have HEAD 0",
                _NO_HEAD: "this word has no HEAD: training and evaluation need trees",
            }[what]
            raise DataError(text, self.columns.source or None, int(self.columns.lines[word]))

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, ...]]: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any] | list[int]) -> Treebank: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            return self._sentence(int(index))
        chosen = np.arange(len(self))[index]
        words, _ = gather(self.offsets, chosen)
        labels = None if self.predicted is None else (self.predicted[0][words], self.predicted[1])
        return Treebank(self.columns[chosen], self.heads[words], self.spans[chosen], labels)

    def _sentence(self, i: int) -> list[tuple[str, ...]]:
        rows = self.columns[i]
        a = int(self.offsets[i % len(self)])
        names = self.relation_names
        return [
            (*row[:6], str(head) if head >= 0 else "_", names[code], *row[8:])
            for row, head, code in zip(rows, self.heads[a:].tolist(), self.relations[a:].tolist(), strict=False)
        ]

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        return (self._sentence(i) for i in range(len(self)))

    def svg(self, sentence: int) -> str:
        """Draw the tree of a sentence as SVG, for a browser.

        >>> bank = Treebank.from_sentences([[{"form": "Dogs", "head": 2}, {"form": "bark", "head": 0}]])
        >>> bank.svg(0)[:4]
        '<svg'
        """
        rows = self[sentence]
        heads = [int(row[6]) if row[6] != "_" else -1 for row in rows]
        relations = ["" if row[7] == "_" else row[7] for row in rows]
        return tree_svg([row[1] for row in rows], [row[3] for row in rows], heads, relations)

    def _repr_html_(self) -> str:
        """Draw the first trees, for notebooks."""
        trees = "".join(f'<div style="overflow-x:auto">{self.svg(i)}</div>' for i in range(min(len(self), _SHOWN)))
        more = f"<p>{len(self) - _SHOWN:,} more sentences</p>" if len(self) > _SHOWN else ""
        return f"<div>{trees}{more}</div>"

    def __repr__(self) -> str:
        where = f" of {self.columns.source}" if self.columns.source not in ("", "sentences") else ""
        return f"Treebank({len(self)} sentence{'s' * (len(self) != 1)}, {self.n_words} words{where})"


def as_treebank(X: Any, columns: tuple[str, ...]) -> Treebank:
    """Return X as a treebank, or raise an error that names the columns that the model reads and the words lack.

    >>> as_treebank([[("dogs", "NOUN"), ("bark", "VERB")]], ("form", "upos"))[0][0][:4]
    ('1', 'dogs', '_', 'NOUN')
    """
    if isinstance(X, Treebank):
        return X
    if isinstance(X, str) or not hasattr(X, "__iter__"):
        raise DataError(f"expected a Treebank or lists of (word, tag) pairs, found {type(X).__name__}")
    sentences = [[_word(token, i, t) for t, token in enumerate(sentence)] for i, sentence in enumerate(X)]
    given = {name for sentence in sentences for word in sentence for name in word}
    missing = [name for name in columns if name not in given and name in ("form", "upos", "xpos")]
    if sentences and any(sentences) and missing:
        what = f"the parser reads {', '.join(missing)}, which the sentences do not have"
        raise DataError(f"{what}: give (word, tag) pairs, dicts with these names, or a Treebank")
    return Treebank.from_sentences(sentences)


def _word(token: Any, sentence: int, place: int) -> dict[str, Any]:
    """Return one word as a mapping from column names."""
    if isinstance(token, dict):
        return token
    if isinstance(token, str):
        return {"form": token}
    if isinstance(token, (tuple, list)) and len(token) == 2:
        # The tag fills both columns of tags, because a model may read either or both of them.
        return {"form": token[0], "upos": token[1], "xpos": token[1]}
    raise DataError(
        f"sentence {sentence}, word {place}: expected a word, a (word, tag) pair or a dict, found {token!r}"
    )
