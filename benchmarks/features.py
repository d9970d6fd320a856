"""From the raw file of CoNLL-2000 to features: spom's templates, and strings built in Python for CRFsuite.

The peer reads the same file and builds the 19 features of CRFsuite's chunking tutorial per token as strings, in
hand-written code (faster than the tutorial's own loop over templates, which is timed too). It passes them, for
training, to python-crfsuite's `Trainer.append`, which numbers them, and for tagging as its `ItemSequence`. CPU seconds;
compiled code is loaded before the clock starts.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from benchmarks.common import Table, data_folder, measure

Sentence = list[tuple[str, ...]]


def read(path: Path) -> list[Sentence]:
    """Return the sentences of a file, as a script would read them."""
    with gzip.open(path, "rt") as file:
        parts = file.read().strip().split("\n\n")
    return [[tuple(line.split(" ")) for line in part.split("\n")] for part in parts]


def by_hand(sentence: Sentence) -> list[list[str]]:
    """Return the strings of each token."""
    w = ["_B-2", "_B-1", *(token[0] for token in sentence), "_B+1", "_B+2"]
    p = ["_B-2", "_B-1", *(token[1] for token in sentence), "_B+1", "_B+2"]
    found = []
    for i in range(2, len(w) - 2):
        a, b, c, d, e = p[i - 2 : i + 3]
        found.append(
            [
                f"w[-2]={w[i - 2]}",
                f"w[-1]={w[i - 1]}",
                f"w[0]={w[i]}",
                f"w[1]={w[i + 1]}",
                f"w[2]={w[i + 2]}",
                f"w[-1]|w[0]={w[i - 1]}|{w[i]}",
                f"w[0]|w[1]={w[i]}|{w[i + 1]}",
                f"pos[-2]={a}",
                f"pos[-1]={b}",
                f"pos[0]={c}",
                f"pos[1]={d}",
                f"pos[2]={e}",
                f"pos[-2]|pos[-1]={a}|{b}",
                f"pos[-1]|pos[0]={b}|{c}",
                f"pos[0]|pos[1]={c}|{d}",
                f"pos[1]|pos[2]={d}|{e}",
                f"pos[-2]|pos[-1]|pos[0]={a}|{b}|{c}",
                f"pos[-1]|pos[0]|pos[1]={b}|{c}|{d}",
                f"pos[0]|pos[1]|pos[2]={c}|{d}|{e}",
            ]
        )
    return found


def by_templates(sentence: Sentence) -> list[list[str]]:
    """Return the same strings by a loop over templates and their atoms, as the tutorial's script does."""
    from spom.features.ready import ready

    templates = [(t.name, [(0 if s.column == "w" else 1, o) for s, o in t.atoms]) for t in ready("chunking")]
    found = []
    for t in range(len(sentence)):
        row = []
        for name, atoms in templates:
            values = []
            for column, offset in atoms:
                at = t + offset
                if at < 0:
                    values.append(f"_B{at}")
                else:
                    values.append(sentence[at][column] if at < len(sentence) else f"_B+{at - len(sentence) + 1}")
            row.append(name + "=" + "|".join(values))
        found.append(row)
    return found


def same_features(path: Path) -> None:
    """Check that both ways give the same strings for the same tokens."""
    from spom.data import read_conll
    from spom.features import Templates

    templates = Templates("chunking")
    rows = templates.fit(read_conll(path))
    known: dict[int, str] = {}
    strings = [text for sentence in read(path)[:300] for token in by_hand(sentence) for text in token]
    for id, text in zip(rows.indices.tolist(), strings, strict=False):
        if known.setdefault(id, text) != text or templates.name(id) != text:
            raise AssertionError(f"feature {id} is {templates.name(id)!r} here and {text!r} there")
    assert by_templates(read(path)[7]) == by_hand(read(path)[7])


def main() -> None:
    """Time features of the training file, those of the test file by the learnt ones, then those of dicts and lists."""
    folder = data_folder()
    if folder is None:
        return
    import pycrfsuite

    from spom.data import read_conll
    from spom.features import DictFeatures, Templates

    train, test = (Path(folder) / "conll2000" / name for name in ("train.txt.gz", "test.txt.gz"))
    same_features(test)

    def ours() -> Any:
        templates = Templates("chunking")
        return templates, templates.fit(read_conll(train))

    def theirs(way: Any) -> None:
        trainer = pycrfsuite.Trainer(verbose=False)
        for sentence in read(train):
            trainer.append(way(sentence), [token[2] for token in sentence])

    table = Table("CoNLL-2000, 211,727 tokens, 19 templates: raw gzipped file to features (CPU s)")
    mine = measure(ours, 5)
    hand = measure(lambda: theirs(by_hand), 1, warm=False)
    table.add("train, peer by hand-written strings", mine.seconds, hand.seconds, "under 0.5 s", mine.seconds < 0.5)
    loop = measure(lambda: theirs(by_templates), 1, warm=False)
    table.add("train, peer by the tutorial's loop over templates", mine.seconds, loop.seconds)

    templates = mine.result[0]
    columns = read_conll(test)
    new = measure(lambda: templates.transform(read_conll(test)), 9)
    other = measure(lambda: [pycrfsuite.ItemSequence(by_hand(sentence)) for sentence in read(test)], 2, warm=False)
    table.add("test, by the features of train", new.seconds, other.seconds)
    rate = columns.n_tokens / new.seconds / 1e6
    table.add("test, million tokens/s", rate, target="over 2", reached=rate > 2)
    alone = columns.n_tokens / measure(lambda: templates.transform(columns), 9).seconds / 1e6
    table.add("test, million tokens/s from columns in memory", alone)
    pos = Templates("pos")
    pos.fit(read_conll(train))
    rate = columns.n_tokens / measure(lambda: pos.transform(read_conll(test)), 9).seconds / 1e6
    table.add("test, million tokens/s, the set pos (affixes, shapes)", rate)

    table = Table("the same strings, already made, handed over (CPU s)")
    labels = [[token[2] for token in sentence] for sentence in read(test)]
    lists = [by_hand(sentence) for sentence in read(test)]
    dicts = [[dict(text.split("=", 1) for text in token) for token in sentence] for sentence in lists]
    for what, made in (("lists of strings", lists), ("dicts", dicts)):
        mine = measure(lambda made=made: DictFeatures().fit(made), 3)

        def append(made: Any = made) -> None:
            trainer = pycrfsuite.Trainer(verbose=False)
            for x, y in zip(made, labels, strict=True):
                trainer.append(x, y)

        table.add(f"{what}, 47,377 tokens", mine.seconds, measure(append, 3).seconds)
