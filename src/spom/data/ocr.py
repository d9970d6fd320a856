"""Handwritten words, a small image a letter (Kassel; Taskar et al. 2003)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spom.data.dataset import Dataset
from spom.data.fetching import read_bytes
from spom.errors import DataError

PIXELS = 128


def load_ocr(folder: Path) -> Dataset:
    """Words as sequences of letters: `X[i]` has a 16x8 binary image in each row (float32), `y[i]` the letters.

    `folds` has the fold (0 to 9) of each word; X and y are object arrays, so that `data.X[data.folds == 0]` are
    the words of one fold.
    """
    path = folder / "letter.data.gz"
    lines = read_bytes(path).rstrip(b"\n").split(b"\n")
    heads, tails = [], []
    for number, line in enumerate(lines, 1):
        fields = line.split(b"\t", 6)
        if len(fields) != 7 or len(fields[6].rstrip()) != 2 * PIXELS - 1:
            raise DataError(
                f"expected id, letter, next_id, word_id, position, fold and {PIXELS} pixels", str(path), number
            )
        heads.append(fields)
        tails.append(fields[6].rstrip())
    pixels = np.frombuffer(b"\t".join(tails) + b"\t", dtype=np.uint8).reshape(len(lines), 2 * PIXELS)[:, ::2]
    images = (pixels - ord("0")).astype(np.float32)
    letters = np.array([fields[1].decode() for fields in heads])
    # A word ends where there is no next letter.
    ends = np.flatnonzero([fields[2] == b"-1" for fields in heads]) + 1
    starts = np.concatenate([[0], ends[:-1]])
    X, y = np.empty(ends.size, dtype=object), np.empty(ends.size, dtype=object)
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        X[i], y[i] = images[start:end], letters[start:end]
    return Dataset(
        "ocr",
        X=X,
        y=y,
        folds=np.array([int(heads[start][5]) for start in starts], dtype=np.int64),
        feature_names=np.array([f"pixel{r}_{c}" for r in range(16) for c in range(8)], dtype=object),
        classes=np.unique(letters),
    )
