"""CRFsuite on the same data: features as Python strings, training, tagging, and the time of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spom.data import read_conll

Sentences = list[list[tuple[str, ...]]]


@dataclass
class Peer:
    """CRFsuite's results, and the CPU seconds of each part."""

    score: float
    features_seconds: float
    train_seconds: float
    weights: int
    tagger: Any
    test: Any

    @property
    def seconds(self) -> float:
        """CPU seconds from the raw file to the model."""
        return self.features_seconds + self.train_seconds


def chunking_features(sentence: Any) -> list[list[str]]:
    """Return the templates of CRFsuite's chunking tutorial, as strings."""
    n = len(sentence)
    w = ["__B2__", "__B1__", *(token[0] for token in sentence), "__E1__", "__E2__"]
    p = ["__B2__", "__B1__", *(token[1] for token in sentence), "__E1__", "__E2__"]
    found = []
    for t in range(2, n + 2):
        found.append(
            [
                *(f"w[{k}]={w[t + k]}" for k in (-2, -1, 0, 1, 2)),
                f"w[-1]|w[0]={w[t - 1]}|{w[t]}",
                f"w[0]|w[1]={w[t]}|{w[t + 1]}",
                *(f"pos[{k}]={p[t + k]}" for k in (-2, -1, 0, 1, 2)),
                *(f"pos[{k}]|pos[{k + 1}]={p[t + k]}|{p[t + k + 1]}" for k in (-2, -1, 0, 1)),
                *(f"pos[{k}]|[{k + 1}]|[{k + 2}]={p[t + k]}|{p[t + k + 1]}|{p[t + k + 2]}" for k in (-2, -1, 0)),
            ]
        )
    return found


def shape(word: str) -> str:
    """Map capital letters to X, small ones to x, digits to 0, and keep the rest; runs are cut to two."""
    out = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "0" if c.isdigit() else c
        if not (len(out) > 1 and out[-1] == out[-2] == kind):
            out += kind
    return out


def pos_features(sentence: Any) -> list[list[str]]:
    """Return word, lower case and its affixes to four, shape, neighbours to two, word bigrams."""
    w = ["__B2__", "__B1__", *(token[0] for token in sentence), "__E1__", "__E2__"]
    found = []
    for t in range(2, len(sentence) + 2):
        word, low = w[t], w[t].lower()
        row = [*(f"w[{k}]={w[t + k]}" for k in (-2, -1, 0, 1, 2)), f"lower={low}", f"shape={shape(word)}"]
        row += [f"prefix{k}={low[:k]}" for k in range(1, 5)] + [f"suffix{k}={low[-k:]}" for k in range(1, 5)]
        found.append([*row, f"w[-1]|w[0]={w[t - 1]}|{word}", f"w[0]|w[1]={word}|{w[t + 1]}"])
    return found


def plain_conll(path: Path) -> tuple[Sentences, list[list[str]]]:
    """Return sentences and labels as the tutorial reads them: lines split at blanks."""
    columns = read_conll(path)
    sentences = [list(sentence) for sentence in columns]
    return sentences, [[token[-1] for token in sentence] for sentence in sentences]


def run(
    train: tuple[Sentences, list[list[str]]],
    test: Sentences,
    features: Any,
    algorithm: str,
    params: dict[str, Any],
    path: str,
    score: Any,
) -> Peer:
    """Train CRFsuite and score its labels of `test`; CPU seconds from plain Python tokens."""
    import pycrfsuite

    begin = time.process_time()
    rows = [features(sentence) for sentence in train[0]]
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for x, y in zip(rows, train[1], strict=True):
        trainer.append(x, y)
    middle = time.process_time()
    trainer.set_params(params)
    trainer.train(path)
    end = time.process_time()
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    ready = [pycrfsuite.ItemSequence(features(sentence)) for sentence in test]
    labels = [tagger.tag(x) for x in ready]
    info = tagger.info()
    weights = len(info.state_features) + len(info.transitions)
    return Peer(score(labels), middle - begin, end - middle, weights, tagger, ready)
