"""Every tagging problem and treebank under `$SPOM_DATA`: a training, a development and a test part.

If a set has no development part, or only one besides the test part, every fifth training sentence is the development
part; it is used for training too once the choice is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spom.data import read_conll, read_conllu

Sentences = list[list[str]]

NER = ("wnut17", "ncbi_disease", "bc5cdr", "germeval2014", "mit_movie_trivia", "german_ler")


def folder() -> Path:
    """Return the folder of the data."""
    return Path(os.environ["SPOM_DATA"])


def treebanks() -> list[str]:
    """Return the names of all treebanks, small ones first."""
    found = sorted((folder() / "ud").iterdir(), key=lambda place: sum(p.stat().st_size for p in place.iterdir()))
    return [place.name for place in found] + ["ewt"]


def files(name: str) -> dict[str, Path]:
    """Return the files of a set by part; `train` is the development file if there is no other."""
    places = (folder() / inside / name for inside in ("", "ud", "ner"))
    place = next(place for place in places if place.exists())
    found = {part: path for path in sorted(place.iterdir()) for part in ("train", "dev", "test") if part in path.name}
    if "train" not in found:
        found["train"] = found.pop("dev")
    return found


@dataclass(frozen=True)
class Tagging:
    """A problem: `kind` is `"entities"`, `"chunks"` or `"upos"`; a part is (sentences of tuples of fields, labels)."""

    name: str
    kind: str
    train: tuple[Any, Sentences]
    dev: tuple[Any, Sentences] | None
    test: tuple[Any, Sentences]

    def split(self) -> tuple[tuple[Any, Sentences], tuple[Any, Sentences]]:
        """Return (training part, development part)."""
        if self.dev is not None:
            return self.train, self.dev
        X, y = self.train
        held = [i for i in range(len(y)) if i % 5 == 4]
        rest = [i for i in range(len(y)) if i % 5 != 4]
        return ([X[i] for i in rest], [y[i] for i in rest]), ([X[i] for i in held], [y[i] for i in held])


def tagging(name: str) -> Tagging:
    """Return a problem by its name: a set of entities, `conll2000`, or a treebank (parts of speech)."""
    found = files(name)
    kind = "entities" if name in NER else "chunks" if name == "conll2000" else "upos"
    parts = {part: _columns(path, kind) for part, path in found.items()}
    return Tagging(name, kind, parts["train"], parts.get("dev"), parts["test"])


def _columns(path: Path, kind: str) -> tuple[Any, Sentences]:
    if kind == "upos":
        columns = read_conllu(path).columns
        return [[(w,) for w in words] for words in columns.strings("form")], columns.strings("upos")
    sentences = [list(sentence) for sentence in read_conll(path)]
    # The second column of a file of entities, if any, has the embedded entities, which are labels too.
    wide = 1 if kind == "entities" else 2
    return [[token[:wide] for token in s] for s in sentences], [[token[-1] for token in s] for s in sentences]


def taggings() -> Iterator[str]:
    """Yield the names of all problems, the cheapest ones for peers first."""
    small = [name for name in treebanks() if name not in ("ewt", "pt_bosque")]
    yield from ("wnut17", "ncbi_disease", "bc5cdr", "germeval2014", *small, "mit_movie_trivia", "conll2000")
    yield from ("ewt", "german_ler", "pt_bosque")
