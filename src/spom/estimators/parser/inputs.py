"""Sentences as a parser takes them: a treebank, or lists of (word, tag) pairs."""

from __future__ import annotations

from typing import Any

from spom.data.treebank import Treebank
from spom.errors import DataError


def as_treebank(X: Any, columns: tuple[str, ...]) -> Treebank:
    """X as a treebank; an error says what is missing where words come without the columns that the model reads.

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
    """One word as a mapping of column names."""
    if isinstance(token, dict):
        return token
    if isinstance(token, str):
        return {"form": token}
    if isinstance(token, (tuple, list)) and len(token) == 2:
        # One tag stands for both columns of tags: models of tagged words read one of them or both.
        return {"form": token[0], "upos": token[1], "xpos": token[1]}
    raise DataError(
        f"sentence {sentence}, word {place}: expected a word, a (word, tag) pair or a dict, found {token!r}"
    )
