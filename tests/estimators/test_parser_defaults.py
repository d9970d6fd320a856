"""What a parser chooses where nothing is given."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from spom import DependencyParser, load_model
from spom.data import Treebank
from spom.estimators.parser.defaults import chosen_penalty, chosen_projective, crosses, crossing_share
from spom.penalties import L1, GroupLasso, SparseGroupLasso, SparseMKL, TreeGroupLasso

FLAT = [("dogs", "NOUN", 2), ("bark", "VERB", 0), ("now", "ADV", 2), ("too", "ADV", 2)]
CROSSED = [("one", "NUM", 3), ("big", "ADJ", 4), ("sees", "VERB", 0), ("it", "PRON", 3)]


def bank(*sentences: list[tuple[str, str, int]]) -> Treebank:
    return Treebank.from_sentences(
        [
            [{"form": w, "upos": t, "head": h, "deprel": "root" if h == 0 else "dep"} for w, t, h in sentence]
            for sentence in sentences
        ]
    )


@pytest.mark.parametrize("seed", range(30))
def test_crossing_arcs_pair_by_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads = [int(rng.choice([h for h in range(7) if h != w])) for w in range(1, 7)]
    arcs = [sorted(arc) for arc in enumerate(heads, 1)]
    expected = any(a[0] < b[0] < a[1] < b[1] or b[0] < a[0] < b[1] < a[1] for a, b in combinations(arcs, 2))
    assert crosses(heads) is expected


def test_the_treebank_decides(tmp_path: Any) -> None:
    flat, crossed = bank(*[FLAT] * 9, CROSSED), bank(*[FLAT] * 5, *[CROSSED] * 5)
    assert crossing_share(flat) == 0.1
    assert chosen_projective("auto", lambda: crossing_share(flat)) == (
        True,
        "projective trees: 10.0 % have crossing arcs",
    )
    assert chosen_projective("auto", lambda: crossing_share(crossed))[0] is False
    assert chosen_projective(True, lambda: crossing_share(crossed))[0] is True
    with pytest.raises(ValueError, match="projective must be True, False or 'auto'; it is 'yes'"):
        DependencyParser(projective="yes", verbose=0).fit(flat)
    parser = DependencyParser(min_count=1, verbose=0).fit(crossed)
    assert parser.projective_ is False
    assert "50.0 % have crossing arcs" in parser.settings_
    np.testing.assert_array_equal(parser.predict(bank(CROSSED).without_trees()).heads, [3, 4, 0, 3])
    parser.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert (loaded.projective_, loaded.settings_) == (False, parser.settings_)
    # One more pass keeps the choice, whatever these sentences have.
    assert parser.partial_fit(flat).projective_ is False
    assert DependencyParser(min_count=1, verbose=0).partial_fit(flat).projective_ is True


@pytest.mark.parametrize(("name", "penalty"), [
    ("l1", L1(0.0025)),
    ("sparse-group-lasso", SparseGroupLasso(0.152, l1_ratio=0.0164)),
    ("tree-group-lasso", TreeGroupLasso(0.15)),
    ("group-lasso", GroupLasso(0.15)),
    ("sparse-mkl", SparseMKL(0.0175)),
])  # fmt: skip
def test_a_name_gets_the_strength_of_its_kind(name: str, penalty: Any) -> None:
    assert repr(chosen_penalty(name, 400)) == repr(penalty)
