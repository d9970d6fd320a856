"""Raw text for the command: read block by block, written as CoNLL-U in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from spom.cli.options import TEXTS, format_of
from spom.errors import DataError

# The number of characters of text, and of sentences of words, that are read at a time.
_BLOCK, _SENTENCES = 1 << 18, 1 << 12


def predicted_text(model: Path, format: str | None, encoding: str, jobs: int) -> Callable[[str], Iterator[bytes]]:
    """Return a function that yields the sentences of a file as CoNLL-U, block by block."""
    from spom.data.conllu import conllu_text, iter_conllu
    from spom.data.opening import not_empty
    from spom.models.loading import load_model

    format_of("", format, TEXTS)
    pipeline = load_model(model)
    pipeline.n_jobs = jobs

    def parts(source: str) -> Iterator[bytes]:
        kind = format_of(source, format, TEXTS)
        if kind == "text":
            return (conllu_text(bank) for bank in pipeline.predict_blocks(text_blocks(source, encoding)))
        blocks = word_blocks(source) if kind == "words" else not_empty(iter_conllu(source), "sentences", source)
        return (conllu_text(pipeline.predict(bank)) for bank in blocks)

    return parts


def text_blocks(source: str, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the text of a file in blocks; `_cut` says where they end."""
    import codecs

    from spom.data.opening import opened

    with opened(source) as (name, file):
        decoder, rest, before = codecs.getincrementaldecoder(encoding)(), "", 0
        while True:
            more = file.read(_BLOCK)
            try:
                rest += decoder.decode(more, final=not more)
            except UnicodeDecodeError as error:
                at = before + error.start
                what = f"byte {error.object[error.start]:#04x} at {at} is not {encoding}; see --encoding"
                raise DataError(what, name) from None
            before += len(more)
            if not more:
                break
            if len(rest) >= _BLOCK:
                cut = _cut(rest)
                yield rest[:cut]
                rest = rest[cut:]
        if rest:
            yield rest


def _cut(text: str) -> int:
    """Return where a block ends: after the last paragraph, line, ". " or blank of its second half, else at its end."""
    half = len(text) // 2
    for end in ("\n\n", "\r\n\r\n", "\n", ". ", " "):
        found = text.rfind(end, half)
        if found >= 0:
            return found + len(end)
    return len(text)


def word_blocks(source: str) -> Iterator[Any]:
    """Yield treebanks from a file of words, one per line, with a blank line after each sentence.

    The text of a sentence is its words, joined by blanks.
    """
    from spom.data.conllu import parse_conllu
    from spom.data.opening import opened, text_lines

    sentences: list[str] = []
    words: list[str] = []
    done = 0
    with opened(source) as (name, file):
        # The end of the file ends the last sentence.
        for line in chain(text_lines(file, name), [""]):
            word = " ".join(line.split())
            if word:
                words.append(word)
            elif words:
                done += 1
                sentences.append(_sentence(words, done))
                words = []
            if len(sentences) == _SENTENCES:
                yield parse_conllu("".join(sentences).encode(), name)
                sentences = []
    if sentences:
        yield parse_conllu("".join(sentences).encode(), name)
    elif not done:
        raise DataError("expected words, one per line, found none", name)


def _sentence(words: list[str], number: int) -> str:
    """Format a sentence as CoNLL-U.

    >>> _sentence(["Dogs", "bark"], 3).splitlines()[:3]
    ['# sent_id = 3', '# text = Dogs bark', '1\\tDogs\\t_\\t_\\t_\\t_\\t_\\t_\\t_\\t_']
    """
    rows = [f"{k}\t{word}" + "\t_" * 8 for k, word in enumerate(words, 1)]
    return "\n".join([f"# sent_id = {number}", f"# text = {' '.join(words)}", *rows, "", ""])
