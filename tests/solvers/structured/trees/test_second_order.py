"""Learning on trees of second order against plain Python: string features, all projective trees written down."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from spom.errors import DataError, Unsupported
from spom.features.arcs import ArcTemplates, with_roots
from spom.penalties import GroupLasso
from spom.solvers.iterate import take
from spom.solvers.structured.trees.second_order.model import SecondOrderModel, left_heads
from spom.solvers.structured.trees.second_order.pruning import Beam
from spom.solvers.structured.trees.second_order.solver import SecondOrderSolver
from spom.solvers.structured.trees.second_order.templates import PARTS, PartTemplates, parse_part
from spom.solvers.structured.trees.solver import ArcSolver

from .naive_arcs import NaiveLearner, Sentence, all_trees, random_bank, value, words_of

ARCS = ["h.feats m.feats dir", "h.upos m.upos", "h.upos m.upos between.upos", "h.xpos m.upos gap dir", "m.suffix dist"]
SOME = ("g.upos h.upos m.upos", "g.feats m-1.upos", "s.feats h.lemma m.feats", "s.upos s+1.upos m.upos", "s.lemma")
STEP = 0.0371


def quads(heads: list[int]) -> list[tuple[int | None, int, int | None, int]]:
    """(grandparent, head, inner sibling, modifier) of each word; `heads` has anything at 0."""
    found = []
    for m in range(1, len(heads)):
        h = heads[m]
        inside = [s for s in range(min(h, m) + 1, max(h, m)) if heads[s] == h]
        sibling = None if not inside else (max(inside) if h < m else min(inside))
        found.append((None if h == 0 else heads[h], h, sibling, m))
    return found


def ends(heads: list[int]) -> list[tuple[int, int | None, bool]]:
    """(head, its outermost modifier or None, whether on the right) of each word and side."""
    found: list[tuple[int, int | None, bool]] = []
    for h in range(len(heads)):
        left = [m for m in range(1, h) if heads[m] == h]
        right = [m for m in range(h + 1, len(heads)) if heads[m] == h]
        found += [(h, max(right, default=None), True), (h, min(left, default=None), False)]
    return found


def end_features(sentence: Sentence, end: tuple[int, int | None, bool]) -> list[str]:
    """Return the features of an end, which are those of siblings without a modifier."""
    h, s, right = end
    found = []
    for name in (name for name in SOME if name[0] == "s"):
        texts = []
        for part in name.split():
            side, column = part.split(".")
            word = {"s": s, "h": h, "m": None}[side[0]]
            texts.append(value(sentence, column, None if word is None else word + int(side[1:] or 0)))
        texts.append(near(1 if s is None else abs(h - s)))
        found.append("|".join([name, *texts, "right" if right else "left"]))
    return found


def near(d: int) -> str:
    return "1" if d == 1 else "2" if d == 2 else "3-5" if d <= 5 else "6"


def part_features(sentence: Sentence, quad: tuple[int | None, int, int | None, int]) -> list[str]:
    """Return the features of both parts of a word, as text."""
    g, h, s, m = quad
    found = []
    for name in SOME:
        grand = name[0] == "g"
        words = {"g": g, "s": s, "h": h, "m": m}
        texts = []
        for part in name.split():
            side, column = part.split(".")
            word = words[side[0]]
            texts.append(value(sentence, column, None if word is None else word + int(side[1:] or 0)))
        if grand:
            texts += [
                "beside" if abs(h - m) == 1 else "far",
                "from left" if (-1 if g is None else g) < h else "from right",
            ]
        else:
            texts.append(near(abs(m - (h if s is None else s))))
        found.append("|".join([name, *texts, "right" if h < m else "left"]))
    return found


class Naive(NaiveLearner):
    """The steps of second order; the arcs' theta is what it was before."""

    def features_of(self, sentence: Sentence, heads: list[int]) -> list[list[list[str]]]:
        """Return for each word the features of its arc, its grandparent and its sibling."""
        found = []
        for quad in quads(heads):
            parts = part_features(sentence, quad)
            grand = [f for f in parts if f[0] == "g"]
            found.append([self.all_features(sentence, quad[1], quad[3], heads), grand, parts[len(grand) :]])
        return found

    def tree_score(self, sentence: Sentence, heads: list[int], theta: dict[str, float]) -> float:
        found = [f for word in self.features_of(sentence, heads) for some in word for f in some]
        found += [f for end in ends(heads) for f in end_features(sentence, end)]
        return sum(theta.get(f, 0.0) for f in found)

    def best(
        self, sentence: Sentence, theta: dict[str, float], gold: list[int] | None = None
    ) -> tuple[float, list[int]]:
        """Return the best projective tree, including the cost of wrong heads if gold is given."""
        found = []
        for tree in all_trees(len(sentence) - 1):
            heads = [-1, *tree]
            arcs = [(min(h, m), max(h, m)) for m, h in enumerate(tree, 1)]
            if any(a < c < b < d for a, b in arcs for c, d in arcs):
                continue
            cost = 0 if gold is None else sum(x != y for x, y in zip(heads[1:], gold[1:], strict=True))
            found.append((self.tree_score(sentence, heads, theta) + cost, heads))
        return max(found, key=lambda pair: pair[0])

    def second(self, sentence: Sentence, gold: list[int], step: float) -> None:
        top, heads = self.best(sentence, self.theta, None if self.loss == "perceptron" else gold)
        hinge = top - self.tree_score(sentence, gold, self.theta)
        change: dict[str, float] = defaultdict(float)
        count = 0
        pairs = zip(
            self.features_of(sentence, heads), self.features_of(sentence, gold), quads(heads), quads(gold), strict=True
        )
        for mine, wanted, (g, h, s, _), (g2, h2, s2, _) in pairs:
            for same, old, new in zip((h == h2, (g, h) == (g2, h2), (h, s) == (h2, s2)), mine, wanted, strict=True):
                if not same:
                    for sign, some in ((-1.0, old), (1.0, new)):
                        for f in some:
                            change[f] += sign
                            count += 1
        for old, new in zip(ends(heads), ends(gold), strict=True):
            if old != new:
                for sign, some in ((-1.0, end_features(sentence, old)), (1.0, end_features(sentence, new))):
                    for f in some:
                        change[f] += sign
                        count += 1
        if hinge > 0:
            size = min(step, hinge / max(count, 1)) if self.loss == "mira" else step
            for f, c in change.items():
                self.theta[f] += size * c
        for f, w in self.theta.items():
            self.total[f] += w
        self.rounds += 1


def both(loss: str, seed: int = 3, radius: float = np.inf) -> tuple[SecondOrderSolver, Naive, Any]:
    """Run both for two passes, after a first-order pass with the smooth loss, after which no two trees are tied."""
    bank = random_bank(seed)
    templates = ArcTemplates(ARCS, min_count=1)
    templates.also = ("lemma", "xpos")
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    first = ArcSolver(templates, codes, gold, shuffle=False, loss="log", step=STEP)
    first.limits[:] = 30000
    first.epoch()
    every = np.full((codes.codes.shape[1], 6), -1, dtype=np.int16)
    for s, n in enumerate(codes.sizes.tolist()):
        every[codes.first[s] + 1 : codes.first[s] + n + 1, : n + 1] = np.arange(n + 1)
    settings = {"shuffle": False, "loss": loss, "step": STEP, "radius": radius}
    solver = SecondOrderSolver(templates, codes, gold, kept=every, parts=SOME, **settings)
    # The naive learner has no filter.
    solver.limits[:] = 30000
    solver.weights[: first.weights.size] = first.weights
    naive = Naive(ArcTemplates(ARCS).blocks, "log", STEP)
    trees = [[-1, *bank.heads[a:b].tolist()] for a, b in zip(bank.offsets[:-1], bank.offsets[1:], strict=True)]
    for s, tree in enumerate(trees):
        naive.round(words_of(bank, s), tree, tree, STEP)
    naive.loss, naive.rounds = loss, 0
    naive.total.clear()
    for epoch in range(2):
        solver.epoch()
        for s, tree in enumerate(trees):
            naive.second(words_of(bank, s), tree, STEP if loss == "mira" else STEP / np.sqrt(epoch + 1.0))
        norm = np.sqrt(sum(w * w for w in naive.theta.values()))
        for f in naive.theta:
            naive.theta[f] *= min(1.0, radius / norm)
    return solver, naive, bank


@pytest.mark.parametrize(
    ("loss", "radius"), [("mira", np.inf), ("hinge", np.inf), ("perceptron", np.inf), ("mira", 0.3), ("hinge", 0.3)]
)
def test_every_loss_makes_the_steps_of_plain_python(loss: str, radius: float) -> None:
    solver, naive, bank = both(loss, radius=radius)
    assert np.linalg.norm(solver.weights) <= radius * (1 + 1e-6)
    everything = Beam(1e9, 6)
    for averaged, theta in ((False, naive.theta), (True, naive.mean())):
        model = solver.model(averaged)
        # With a beam that leaves all arcs, the best tree is that of all projective ones.
        heads, _ = model.parse(solver.codes, True, model.arcs, beam=everything)
        for s in range(len(bank)):
            sentence, a, n = words_of(bank, s), int(solver.codes.first[s]), int(solver.codes.sizes[s])
            best, tree = naive.best(sentence, theta)
            found = [-1, *heads[a + 1 : a + n + 1].tolist()]
            assert found == tree
            assert naive.tree_score(sentence, found, theta) == pytest.approx(best)
        weights = np.sort(np.abs(model.weights[solver.layout.size :]))[::-1]
        expected = np.sort(np.abs([w for f, w in theta.items() if f.split("|")[0] in SOME]))[::-1]
        count = np.count_nonzero(expected > 1e-7)
        assert count > 20
        np.testing.assert_allclose(weights[:count], expected[:count], atol=2e-5)
        assert (weights[count:] < 1e-5).all()


def test_a_narrow_beam_leaves_the_best_tree_and_a_wide_one_all_trees() -> None:
    solver, _, _ = both("mira")
    first, codes = solver.model().arcs, solver.codes
    heads, _ = first.parse(codes, True)
    none = left_heads(first, codes, Beam(0.0, 6))
    words = np.setdiff1d(np.arange(heads.size), codes.first)
    assert (none[words] == heads[words, None]).any(axis=1).all()
    one = left_heads(first, codes, Beam(1e9, 1))
    np.testing.assert_array_equal(one[words, 0], heads[words])
    assert (one[words, 1:] == -1).all()
    wide = left_heads(first, codes, Beam(1e9, 6))
    sizes = np.repeat(codes.sizes, codes.sizes)
    # The root has one child, so that some arcs are in no tree of two words; longer sentences have all.
    assert ((wide[words] >= 0).sum(axis=1)[sizes > 2] == sizes[sizes > 2]).all()


def test_a_run_resumes_to_the_same_bits_and_seeds_decide() -> None:
    bank = random_bank(5, sentences=20)
    templates = ArcTemplates(["h.upos m.upos dist", "h.lemma m.xpos"], min_count=1)
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    first = ArcSolver(templates, codes, gold, projective=True)
    first.epoch()
    kept = left_heads(first.model(), codes)

    def fresh(**more: Any) -> SecondOrderSolver:
        return SecondOrderSolver(templates, codes, gold, kept=kept, **{"seed": 1, **more})

    whole = take(fresh(), 4)
    states = list(whole)
    resumed = fresh(start=states[1])
    last = [resumed.epoch() for _ in range(2)][-1]
    np.testing.assert_array_equal(last.theta, states[3].theta)
    np.testing.assert_array_equal(last.internal["sums"], states[3].internal["sums"])
    other = fresh(seed=2)
    for _ in range(4):
        other.epoch()
    assert (other.weights != states[3].theta).any()
    model = resumed.model()
    again = SecondOrderModel(model.templates, model.entries(), model.limits)
    np.testing.assert_array_equal(again.weights, model.weights)


def test_names_and_limits_are_checked() -> None:
    assert all(parse_part(name) for name in PARTS)
    for bad in ("h.upos m.upos", "g.upos s.upos", "x.upos", "g.nothing"):
        with pytest.raises(DataError, match="template"):
            parse_part(bad)
    bank = random_bank(1)
    templates = ArcTemplates(["h.upos m.upos"], min_count=1)
    codes = templates.fit(bank)
    gold = with_roots(bank.heads, codes)
    with pytest.raises(DataError, match="no attribute of a part"):
        _ = PartTemplates(templates, ("g.lemma m.upos",)).size
    with pytest.raises(Unsupported, match="second order"):
        SecondOrderSolver(
            templates, codes, gold, kept=np.full((gold.size, 1), -1, dtype=np.int16), parts=("g.upos",), loss="log"
        )
    with pytest.raises(Unsupported, match="no penalty"):
        SecondOrderSolver(
            templates,
            codes,
            gold,
            kept=np.full((gold.size, 1), -1, dtype=np.int16),
            parts=("g.upos",),
            penalty=GroupLasso(0.1),
        )
