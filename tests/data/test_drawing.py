"""Trees as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from spom.data import Treebank
from spom.data.drawing import levels, tree_svg

SPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("seed", range(5))
def test_no_two_arcs_of_a_level_overlap(seed: int) -> None:
    draw = np.random.default_rng(seed)
    heads = [0, *(int(draw.integers(1, i)) for i in range(2, 15))]
    found = levels(heads)
    spans = [(min(h, i), max(h, i), found[i - 1]) for i, h in enumerate(heads, 1) if h]
    assert found[0] == 0
    assert all(level > 0 for _, _, level in spans)
    for k, (a, b, level) in enumerate(spans):
        for c, d, other in spans[:k]:
            assert level != other or b <= c or d <= a


def test_words_relations_and_arrows_are_drawn() -> None:
    words = ["<b>", "&", "ok", "."]
    root = ElementTree.fromstring(tree_svg(words, ["X"] * 4, [2, 0, 2, -1], ["a", "root", "c", ""]))
    texts = [node.text or "" for node in root.iter(f"{SPACE}text")]
    assert [text for text in texts if text in words] == words
    assert {"a", "root", "c"} <= set(texts)
    # A word without a head has no arc; each other one has an arc and its tip.
    assert len(list(root.iter(f"{SPACE}path"))) == 6
    wide, high = float(root.get("width") or 0), float(root.get("height") or 0)
    for node in root.iter(f"{SPACE}text"):
        assert 0 < float(node.get("x") or -1) < wide
        assert 0 < float(node.get("y") or -1) < high


def test_a_notebook_shows_the_first_trees() -> None:
    bank = Treebank.from_sentences([[{"form": "Dogs", "head": 2}, {"form": "bark", "head": 0}]] * 7)
    shown = bank._repr_html_()
    assert shown.count("<svg") == 5
    assert "2 more sentences" in shown
    assert Treebank.from_sentences([])._repr_html_() == "<div></div>"
