"""Template files of CRF++, expanded as its documentation says, against ours."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spom.data import Columns
from spom.errors import DataError
from spom.features import Templates

FILE = """# Unigram
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]

U05:%x[-1,0]/%x[0,0]
U18:%x[0,1]/%x[1,1]/%x[2,0]
U:%x[-1,1]
U:%x[1,1]
U99:

# Bigram
B
"""


def expanded(sentences):
    """Return each token's strings, with macros replaced by fields, or by _B-1, _B-2, _B+1, ... beyond the ends."""
    found = []
    for sentence in sentences:
        for t in range(len(sentence)):

            def field(match, t=t, sentence=sentence):
                p = t + int(match[1])
                if p < 0:
                    return f"_B{p}"
                return sentence[p][int(match[2])] if p < len(sentence) else f"_B+{p - len(sentence) + 1}"

            lines = [line for line in FILE.splitlines() if line.startswith("U")]
            found.append([re.sub(r"%x\[([-0-9]+),(\d+)\]", field, line) for line in lines])
    return found


token = st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["X", "Y"]))


@given(st.lists(st.lists(token, max_size=5), min_size=1, max_size=4))
def test_a_file_of_crfpp_gives_its_features(tmp_path_factory, sentences):
    path = tmp_path_factory.getbasetemp() / "template"
    path.write_text(FILE)
    templates = Templates(path)
    assert templates.transitions is True
    rows = templates.fit(Columns.from_lists(sentences, ["word", "tag"]))
    slow = [text for row in expanded(sentences) for text in row]
    pairs = set(zip(slow, rows.indices.tolist(), strict=True))
    # One to one: the same string is the same id, and the other way round.
    assert len(pairs) == len({text for text, _ in pairs}) == len({id for _, id in pairs}) == templates.n_features
    again = Templates.from_arrays(templates.arrays())
    assert again.transitions is True
    assert again.transform(Columns.from_lists(sentences)).indices.tolist() == rows.indices.tolist()
    np.testing.assert_array_equal(again.blocks.starts, templates.blocks.starts)


def test_names_of_blocks_are_those_of_the_file(tmp_path):
    path = tmp_path / "template"
    path.write_text("U00:%x[0,0]\nU01:tag=%x[0,1]\nU01:%x[-1,0]\nU01:%x[0,1]\n")
    templates = Templates(path)
    templates.fit(Columns.from_lists([[("a", "b")]]))
    assert templates.blocks.names == ("U00", "U01.tag", "U01", "U01~2")
    assert templates.transitions is False
    path.write_text("# ours\nw[0]\nnear: w[-1]\n")
    assert [template.name for template in Templates(str(path)).templates] == ["w[0]", "near"]
    assert Templates(str(path)).transitions is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U00:%x[0,0]\nB01:%x[0,0]\n", "line 2: label bigrams that depend on tokens are not supported"),
        ("U00:%x[0,0]\nX00:%x[0,0]\n", "line 2: expected a template that begins with U or B"),
        ("U00:%x[0,0]\nU01:%x[0]\n", r"line 2: expected macros %x\[row,column\]"),
        ("# nothing\n", "expected templates, found none"),
        ("w[0]\nw[0\n", "line 2: template"),
    ],
)
def test_what_cannot_be_read_names_the_line(tmp_path, text, message):
    path = tmp_path / "template"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        Templates(path)


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "template"
    path.write_text("U00:%x[0,3]\n")
    with pytest.raises(DataError, match="a template reads 3, but there is no column 3; there are 2: w, pos"):
        Templates(path).fit(Columns.from_lists([[("a", "b")]]))
