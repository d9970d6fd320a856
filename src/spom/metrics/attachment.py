"""Attachment scores of dependency trees, as the CoNLL 2018 shared task counts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spom.data.treebank import Treebank
from spom.errors import DataError


@dataclass(frozen=True)
class Attachment:
    """Shares of words: `uas` have the right head, `las` the right head and relation; both over `words` words."""

    uas: float
    las: float
    words: int
    sentences: int


def attachment(gold: Treebank, found: Treebank, punctuation: bool = True, subtypes: bool = False) -> Attachment:
    """UAS = words with the gold head / words; LAS = words with the gold head and relation / words.

    As in the evaluation of the CoNLL 2018 shared task with gold tokens, every word counts, including punctuation, and
    two relations are equal if they agree before the first colon (`nsubj:pass` is `nsubj`). With `subtypes` they
    must agree completely. Without `punctuation`, words whose gold UPOS is PUNCT are ignored.

    >>> words = [{"form": "Dogs", "upos": "NOUN", "head": 2, "deprel": "nsubj"},
    ...          {"form": "bark", "upos": "VERB", "head": 0, "deprel": "root"}]
    >>> gold = Treebank.from_sentences([words])
    >>> other = Treebank.from_sentences([[{**words[0], "deprel": "nsubj:outer"}, {**words[1], "deprel": "dep"}]])
    >>> attachment(gold, other)
    Attachment(uas=1.0, las=0.5, words=2, sentences=1)
    """
    if not np.array_equal(gold.offsets, found.offsets):
        raise DataError(
            f"expected the sentences of the gold trees ({len(gold)}, {gold.n_words} words), found "
            f"{len(found)} sentences with {found.n_words} words, or of other lengths"
        )
    if (gold.heads < 0).any():
        gold.check_trees()
    counted = np.ones(gold.n_words, dtype=bool)
    if not punctuation:
        codes, names = gold.columns.distinct("upos")
        counted = (names != "PUNCT")[codes]
    heads = (gold.heads == found.heads) & counted
    labels = heads & (_names(gold, subtypes) == _names(found, subtypes))
    total = int(counted.sum())
    shares = [float(right.sum()) / total if total else np.nan for right in (heads, labels)]
    return Attachment(shares[0], shares[1], total, len(gold))


def _names(bank: Treebank, subtypes: bool) -> NDArray[np.object_]:
    names = [name if subtypes else name.split(":")[0] for name in bank.relation_names]
    found: NDArray[np.object_] = np.array(names, dtype=object)[bank.relations]
    return found
