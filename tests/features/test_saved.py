"""Arrays of a model file that are damaged are refused, or serve without harm: never a wild read, never a hang."""

from __future__ import annotations

import numpy as np
import pytest

from spom.data import Columns
from spom.errors import ModelFileError, SpomError
from spom.features import DictFeatures, MatrixFeatures, Templates

SENTENCES = [[("The", "DT"), ("cat", "NN")], [("the", "DT"), ("dogs", "NNS"), ("bark", "VBP")]]
COLUMNS = Columns.from_lists(SENTENCES)
DICTS = [[{"word": word, "length": float(len(word))} for word, _ in sentence] for sentence in SENTENCES]


def templates(table=None):
    made = Templates(["w[0]", "w.lower.cluster1[0]", "w[-1]|pos[1]"], table=table, clusters={"the": "01", "cat": "1"})
    rows = made.fit(COLUMNS)
    return made.compact(np.unique(rows.indices)) if table else made


def dicts():
    made = DictFeatures()
    made.fit(DICTS)
    return made


def matrices():
    made = MatrixFeatures(groups=[0, 1, 0])
    made.fit([np.eye(3)])
    return made


MAKERS = {
    "exact": (templates, COLUMNS),
    "hashed": (lambda: templates(99), COLUMNS),
    "dicts": (dicts, DICTS),
    "matrices": (matrices, [np.eye(3)]),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_number_that_is_damaged_is_refused_or_harmless(kind):
    make, X = MAKERS[kind]
    made = make()
    whole = made.arrays()
    before, refused = made.transform(X), 0
    for name, array in whole.items():
        if array.dtype.kind not in "iu" or name == "spec":
            continue
        for at in range(min(array.size, 12)):
            for value in (-1, 2**31 - 1, 10**6, 0, 1):
                broken = array.copy()
                if value < 0 and array.dtype.kind == "u":
                    continue
                broken.reshape(-1)[at] = value % 256 if array.dtype == np.uint8 else value
                try:
                    opened = type(made).from_arrays({**whole, name: broken})
                except ModelFileError:
                    refused += 1
                    continue
                rows = opened.transform(X)
                assert rows.offsets.tolist() == before.offsets.tolist()
                assert rows.indices.min(initial=0) >= 0
                assert rows.indices.max(initial=-1) < max(1, opened.n_features)
        for cut in (array[:0], array[:-1], np.concatenate([array, array]), array.astype(np.float64)):
            try:
                type(made).from_arrays({**whole, name: cut}).transform(X)
            except SpomError:
                refused += 1
    assert refused > 0


@pytest.mark.parametrize("kind", MAKERS)
def test_a_description_that_is_damaged_or_newer_is_refused(kind):
    make, _ = MAKERS[kind]
    made = make()
    whole = made.arrays()
    text = whole["spec"].tobytes()
    for bad in (b"", b"{", b"[]", b"{}", text[:-5], text.replace(b'"version": 1', b'"version": 2')):
        with pytest.raises(ModelFileError):
            type(made).from_arrays({**whole, "spec": np.frombuffer(bad, dtype=np.uint8)})
    for name in whole:
        if name == "kept":
            continue
        with pytest.raises(ModelFileError):
            type(made).from_arrays({key: value for key, value in whole.items() if key != name})


def test_a_reach_that_is_too_small_is_refused():
    whole = templates().arrays()
    text = whole["spec"].tobytes().replace(b'"reach": 1', b'"reach": 0')
    with pytest.raises(ModelFileError, match="reach further"):
        Templates.from_arrays({**whole, "spec": np.frombuffer(text, dtype=np.uint8)})
