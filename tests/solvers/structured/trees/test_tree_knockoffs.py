"""Knockoffs of templates of arcs: they keep what they must, and the promised rate is held on planted noise."""

from __future__ import annotations

import numpy as np
import pytest

from spom import DependencyParser
from spom.data import Treebank
from spom.errors import Unsupported
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import GroupLasso
from spom.solvers.structured.trees.knockoffs import discover_arcs, some_sentences, with_knockoffs

USEFUL = [
    *("h.upos", "h.upos m.upos", "h.upos m.upos dist", "h-1.upos h.upos", "h.upos h+1.upos", "h.upos m-1.upos m.upos"),
    *("m.upos dir", "m-1.upos m.upos dir", "m.upos m+1.upos dir", "h.upos m.upos m+1.upos", "h.upos m.upos gap"),
    "h.upos m.upos between.upos",
]
# None reads one column at different places of both sides: where both are the same word, equal values would say so.
NOISE = [
    *("h.xpos", "h.lemma", "h.feats dist", "m.xpos dir", "m.lemma dir", "h.xpos m.xpos", "h.lemma m.lemma"),
    *("h.feats m.feats", "h-1.xpos m.lemma", "h.lemma m+1.feats", "h.feats m-1.xpos dir", "h.xpos m.xpos dist"),
    *("h+1.xpos m-1.lemma", "h.xpos m.lemma", "h.lemma m.feats"),
]


TAGS = ["A", "B", "C", "D"]


def bank(count: int, seed: int = 0) -> Treebank:
    """Draw words that depend on words with tags, and previous tags, that match theirs; other columns are noise."""
    rng, sentences = np.random.default_rng(seed), []
    affinity = 2.0 * np.random.default_rng(0).standard_normal((4, 4))
    for _ in range(count):
        n = int(rng.integers(3, 9))
        tags = rng.integers(0, 4, n + 1)
        heads = np.zeros(n + 1, dtype=int)
        order = 1 + rng.permutation(n)
        for k in range(1, n):
            above = order[:k]
            score = affinity[tags[above], tags[order[k]]] + affinity[tags[above - 1], tags[order[k] - 1]]
            chance = np.exp(score - score.max())
            heads[order[k]] = rng.choice(above, p=chance / chance.sum())
        words = []
        for w in range(1, n + 1):
            own = {name: f"{name}{rng.integers(0, 6)}" for name in ("form", "lemma", "xpos", "feats")}
            words.append({**own, "upos": TAGS[tags[w]], "head": int(heads[w]), "deprel": "dep"})
        sentences.append(words)
    return Treebank.from_sentences(sentences)


def test_a_knockoff_reads_the_same_values_at_other_words() -> None:
    trees = bank(30)
    templates = ArcTemplates(["h-1.xpos h.upos m.lemma", "h.upos m.upos between.xpos"], min_count=1)
    codes, layout = templates.fit(trees), templates.layout()
    both, more = with_knockoffs(templates, layout, codes, np.random.default_rng(1))
    assert both.families.shape[0] == 2 * layout.families.shape[0]
    np.testing.assert_array_equal(more.codes[: codes.codes.shape[0]], codes.codes)
    words, roots = np.setdiff1d(np.arange(codes.kinds.size), codes.first), codes.first
    side = both.families[2, 0]
    (c, first, last), atoms = layout.atoms[layout.ends[layout.families[0, 0]]], both.atoms
    own = [atoms[k].tolist() for k in range(both.ends[side], both.ends[side + 1])]
    assert [hop for _, hop, _ in own] == [0, 0]
    assert first == -1
    # The word before, and the word itself, moved together.
    upos = templates.columns.index("upos")
    pairs = np.stack([codes.codes[c, words - 1], codes.codes[upos, words]])
    moved = more.codes[[column for column, _, _ in own]][:, words]
    assert sorted(map(tuple, pairs.T.tolist())) == sorted(map(tuple, moved.T.tolist()))
    assert (moved != pairs).any()
    # Before a root there is no word.
    assert (more.codes[own[0][0], roots] == last - 1).all()
    between = both.families[3, 3]
    assert between != layout.families[1, 3]
    assert between in both.columns


def test_some_sentences_are_those_of_the_bank() -> None:
    trees = bank(12)
    templates = ArcTemplates(["h.xpos m.lemma"], min_count=1)
    codes = templates.fit(trees)
    gold = with_roots(trees.heads, codes)
    few, heads = some_sentences(codes, gold, np.array([7, 2]))
    for at, s in ((0, 7), (1, 2)):
        n = codes.sizes[s] + 1
        a, b = few.first[at], codes.first[s]
        np.testing.assert_array_equal(few.codes[:, a : a + n], codes.codes[:, b : b + n])
        np.testing.assert_array_equal(heads[a : a + n], gold[b : b + n])


def test_the_promised_rate_is_held_and_useful_families_are_found() -> None:
    shares, found = [], []
    for seed in range(25):
        trees = bank(150, seed)
        templates = ArcTemplates(USEFUL + NOISE, min_count=1)
        codes = templates.fit(trees)
        gold = with_roots(trees.heads, codes)
        chosen = discover_arcs(templates, codes, gold, GroupLasso(0.3), 0.2, projective=False, seed=seed)
        names = {chosen.families[m] for m in chosen.found.tolist()}
        false = sum("upos" not in name for name in names)
        shares.append(false / max(1, len(names)))
        found.append(len(names) - false)
    # The mean of 25 shares has a standard error of about .02.
    assert np.mean(shares) <= 0.2 + 0.05
    assert np.mean(found) >= 6


def test_a_parser_takes_a_rate_and_reports_it() -> None:
    params = {"labels": False, "min_count": 1, "verbose": 0, "epochs": 2}
    parser = DependencyParser(USEFUL + NOISE, prune={"false_discovery_rate": 0.2}, **params).fit(bank(150))
    report = parser.pruning_
    assert report is not None
    assert report.selection is not None
    assert report.table().startswith("false discovery rate at most 0.2; about ")
    assert parser.blocks_ == [report.names[m] for m in report.selection.kept]
    assert {"h.upos m.upos", "h.upos m.upos dist"} <= set(parser.blocks_)
    assert report.kept.sum() == len(parser.blocks_) < len(report.names)
    with pytest.raises(ValueError, match=r"2 families of templates are too few .* at least 10 would have to"):
        DependencyParser(USEFUL[:3], prune={"false_discovery_rate": 0.1}, **params).fit(bank(30))
    with pytest.raises(ValueError, match="prune as a dict"):
        DependencyParser(prune={"false_discovery_rate": 3.0}, **params).fit(bank(30))
    with pytest.raises(Unsupported, match="set penalty=None"):
        DependencyParser(prune={"false_discovery_rate": 0.1}, penalty=GroupLasso(0.1), **params).fit(bank(30))


def test_a_family_that_names_no_word_stays() -> None:
    params = {"labels": False, "min_count": 1, "verbose": 0, "epochs": 1}
    names = [*USEFUL, *NOISE, "gap dist"]
    parser = DependencyParser(names, prune={"false_discovery_rate": 0.3}, **params).fit(bank(150))
    assert "gap dist" in parser.blocks_
    assert "kept: it names no word" in parser.pruning_.table()
