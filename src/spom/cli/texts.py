"""Raw text for the command: read block by block, written as CoNLL-U in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spom.errors import DataError, Unsupported

FORMATS = ("text", "words", "conllu")
_BLOCK = 1 << 18


def predicted_text(model: str, format: str | None, encoding: str, jobs: int) -> Callable[[str], Iterator[bytes]]:
    """A function of a file: its sentences as CoNLL-U, block by block. Without a format, .conllu decides, else text."""
    from spom.data.conllu import conllu_text
    from spom.models.loading import load_model

    if format is not None and format not in FORMATS:
        raise Unsupported(f"there is no format {format!r} for pipelines; the formats are: {', '.join(FORMATS)}")
    pipeline = load_model(model)
    pipeline.n_jobs = jobs

    def parts(source: str) -> Iterator[bytes]:
        name = source.lower().removesuffix(".gz").removesuffix(".zst")
        kind = format or ("conllu" if name.endswith(".conllu") else "text")
        if kind == "text":
            return (conllu_text(bank) for bank in pipeline.predict_blocks(text_blocks(source, encoding)))
        blocks = word_blocks(source) if kind == "words" else conllu_blocks(source)
        return (conllu_text(pipeline.predict(bank)) for bank in blocks)

    return parts


def text_blocks(source: str, encoding: str = "utf-8", size: int = _BLOCK) -> Iterator[str]:
    """The text of a file in blocks that end with a paragraph where they can, else with a line, a blank, or anywhere."""
    import codecs

    from spom.data.opening import opened

    with opened(source) as (name, file):
        decoder, rest, before = codecs.getincrementaldecoder(encoding)(), "", 0
        while True:
            more = file.read(size)
            try:
                rest += decoder.decode(more, final=not more)
            except UnicodeDecodeError as error:
                at = before + error.start
                what = f"byte {error.object[error.start]:#04x} at {at} is not {encoding}; see --encoding"
                raise DataError(what, name) from None
            before += len(more)
            if not more:
                break
            if len(rest) >= size:
                cut = _cut(rest)
                yield rest[:cut]
                rest = rest[cut:]
        if rest:
            yield rest


def _cut(text: str) -> int:
    """Where a block may end: after its last paragraph, line or blank, if that leaves half of it, else at its end."""
    half = len(text) // 2
    for end in ("\n\n", "\n", ". ", " "):
        found = text.rfind(end, half)
        if found >= 0:
            return found + len(end)
    return len(text)


def word_blocks(source: str) -> Iterator[Any]:
    """Sentences of words, one word per line and a blank line after each sentence, as treebanks."""
    from spom.data.treebank import Treebank

    sentences: list[list[dict[str, str]]] = []
    words: list[dict[str, str]] = []
    rest, empty = "", True
    for block in text_blocks(source):
        lines = (rest + block).split("\n")
        rest = lines.pop()
        for line in lines:
            word = line.strip()
            if word:
                words.append({"form": " ".join(word.split())})
            elif words:
                sentences.append(words)
                words = []
        if sentences:
            yield Treebank.from_sentences(sentences)
            sentences, empty = [], False
    if rest.strip():
        words.append({"form": " ".join(rest.split())})
    if words:
        yield Treebank.from_sentences([words])
    elif empty:
        raise DataError("expected words, one per line, found none", _name(source))


def conllu_blocks(source: str) -> Iterator[Any]:
    """The sentences of a CoNLL-U file, block by block."""
    from spom.data.conllu import iter_conllu

    empty = True
    for bank in iter_conllu(source):
        empty = False
        yield bank
    if empty:
        raise DataError("expected sentences, found none", _name(source))


def _name(source: str) -> str:
    return "standard input" if source == "-" else source
