"""Ties, tables with hashed rows and many families: what small random treebanks do not show of second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom.data import Treebank
from spom.features.arc_spaces import BY_HEAD, HEAD, MASK, SALT, addends, mixed, sentence_of
from spom.features.arcs import ArcTemplates, with_roots
from spom.solvers.structured.trees.second_order.model import left_heads
from spom.solvers.structured.trees.second_order.parts import part_addends
from spom.solvers.structured.trees.second_order.pruning import Beam
from spom.solvers.structured.trees.second_order.solver import SecondOrderSolver
from spom.solvers.structured.trees.second_order.templates import MASK as PART_MASK
from spom.solvers.structured.trees.second_order.templates import NONE, SIDE, STRIDE, PartTemplates
from spom.solvers.structured.trees.second_order.templates import SALT as PART_SALT
from spom.solvers.structured.trees.solver import ArcSolver
from spom.solvers.structured.trees.space import corpus_of

from .naive_arcs import random_bank

WORD = (1 << 64) - 1


def splitmix(code: int, salt: int) -> int:
    """Apply the finaliser of splitmix64; model files depend on it."""
    x = code + salt * 0x9E3779B97F4A7C15 & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def many_words() -> Treebank:
    """Return sentences with so many different words that conjunctions of them are hashed."""
    made = []
    for s in range(12):
        words = [{"form": f"f{s}.{w}", "lemma": f"l{s}.{w}", "upos": "ABC"[w % 3], "head": w} for w in range(4)]
        made.append(words)
    return Treebank.from_sentences(made)


def test_hashes_of_codes_are_those_of_splitmix() -> None:
    for code in (0, 1, 12345, 1 << 40, WORD):
        for salt in (0, 1, 7, 1 << 33):
            assert int(mixed(np.uint64(code), np.uint64(salt))) == splitmix(code, salt)


def test_words_add_hashes_to_the_rows_of_large_families() -> None:
    bank = many_words()
    templates = ArcTemplates(["h.form h.lemma m.form m.lemma", "h.upos m.upos", "h.form m.form", "m.lemma"], 12, 1)
    codes = templates.fit(bank)
    families = templates.layout().families
    assert (families[:, SALT] > 0).any()
    assert (families[:, SALT] == 0).any()
    draw, n = np.random.default_rng(0), 4
    sides = draw.integers(0, 40, (2 * families.shape[0], n + 1))
    out = np.full((2, families.shape[0], n + 2), 7)
    addends(families, sides, n, out[0], out[1])
    for f, family in enumerate(families.tolist()):
        for side in range(2):
            which = family[HEAD + side]
            for w in range(n + 1):
                code = int(sides[which, w]) if which >= 0 else 0
                hashed = splitmix(code, family[SALT] + side) & family[MASK]
                expected = 0 if which < 0 else hashed if family[SALT] else code * family[BY_HEAD + side]
                assert out[side, f, w] == expected
    assert (out[:, :, n + 1] == 7).all()
    assert codes.sizes.tolist() == [4] * 12


def test_words_add_hashes_to_the_rows_of_large_templates_of_parts() -> None:
    bank = many_words()
    templates = ArcTemplates(["h.form m.form", "h.lemma m.upos"], min_count=1)
    codes = templates.fit(bank)
    names = ("g.form h.form m.form", "s.upos h.upos m.upos", "g.lemma m+1.lemma h.lemma", "s.form m.form")
    table = PartTemplates(templates, names).compiled
    assert (table.table[:, PART_SALT] > 0).sum() >= 2
    corpus, s = corpus_of(codes), 5
    found = part_addends(sentence_of(corpus, s), table)
    first, n = int(codes.first[s]), int(codes.sizes[s])
    for f, name in enumerate(names):
        row = table.table[f].tolist()
        roles: dict[str, list[tuple[str, int]]] = {"third": [], "h": [], "m": []}
        for part in name.split():
            side, column = part.split(".")
            roles["third" if side[0] in "gs" else side[0]].append((column, int(side[1:] or 0)))
        for k, atoms in enumerate(roles.values()):
            for w in range(n + 2):
                if row[SIDE + k] < 0:
                    assert found[f, k, w] == 0
                    continue
                code = 0
                for column, hop in atoms:
                    radix, values = templates.radix(column), codes.codes[templates.columns.index(column)]
                    code = code * radix + (int(values[first + w + hop]) if 0 <= w + hop <= n else radix - 1)
                code = code if w <= n else row[NONE + k]
                hashed = splitmix(code, row[PART_SALT] + k) & row[PART_MASK]
                assert found[f, k, w] == (hashed if row[PART_SALT] else code * row[STRIDE + k])


def one_epoch(bank: Any, loss: str, cost: float) -> np.ndarray:
    templates = ArcTemplates(["h.feats m.feats"], min_count=1)
    codes = templates.fit(bank)
    every = np.tile(np.arange(6, dtype=np.int16), (codes.codes.shape[1], 1))
    for s, n in enumerate(codes.sizes.tolist()):
        rows = every[codes.first[s] : codes.first[s] + n + 1]
        rows[rows > n] = -1
    solver = SecondOrderSolver(
        templates, codes, with_roots(bank.heads, codes), kept=every, parts=("g.feats m.feats", "s.feats m.feats"),
        shuffle=False, loss=loss, step=0.5, cost=cost,
    )  # fmt: skip
    solver.epoch()
    return np.asarray(solver.weights)


def test_a_perceptron_moves_at_ties_and_other_losses_do_not() -> None:
    words = [{"form": "a", "feats": f"{w}", "head": h} for w, h in enumerate([2, 3, 0])]
    bank = Treebank.from_sentences([words])
    assert not one_epoch(bank, "hinge", 0.0).any()
    assert not one_epoch(bank, "mira", 0.0).any()
    moved = one_epoch(bank, "perceptron", 1.0)
    assert moved.any()
    assert set(np.unique(np.abs(moved))) <= {0.0, 0.5, 1.0}
    assert one_epoch(bank, "hinge", 1.0).any()


@pytest.mark.parametrize("names", ["compact", ["h.upos m.upos"]])
def test_what_a_beam_leaves_has_the_best_tree_whatever_the_number_of_families(names: Any) -> None:
    bank = random_bank(2, sentences=6)
    templates = ArcTemplates(names, min_count=1)
    codes = templates.fit(bank)
    solver = ArcSolver(templates, codes, with_roots(bank.heads, codes), projective=True, shuffle=False)
    solver.limits[:] = 30000
    solver.epoch()
    model = solver.model()
    heads, _ = model.parse(codes, True)
    kept = left_heads(model, codes, Beam(0.0, 3))
    wide = left_heads(model, codes, Beam(1e9, 3))
    for a, n in zip(codes.first.tolist(), codes.sizes.tolist(), strict=True):
        for m in range(a + 1, a + n + 1):
            left = kept[m][kept[m] >= 0].tolist()
            assert heads[m] in left
            assert left == sorted(set(left))
            assert (wide[m] >= 0).sum() == min(3, n if n != 2 else (wide[m] >= 0).sum())
