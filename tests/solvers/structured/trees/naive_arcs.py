"""Arcs in plain Python: features as strings, trees by writing all of them down, weights in dictionaries."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np

from spom.data import Treebank

Sentence = list[dict[str, str]]
FIELDS = ("form", "lemma", "upos", "xpos", "feats")


def random_bank(seed: int, sentences: int = 8, longest: int = 5) -> Treebank:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(sentences):
        n = int(rng.integers(1, longest + 1))
        # Any order of the words, each hanging on one before it or, the first, on the root.
        order = rng.permutation(n) + 1
        heads = {int(order[0]): 0}
        for k in range(1, n):
            heads[int(order[k])] = int(order[rng.integers(k)])
        words = []
        for w in range(1, n + 1):
            form = str(rng.choice(["Dogs", "bark", "a", "the", "ran"]))
            words.append(
                {
                    "form": form,
                    "lemma": form.lower(),
                    "upos": str(rng.choice(["NOUN", "VERB", "PUNCT", "CCONJ"])),
                    "xpos": str(rng.choice(["NN", "VB"])),
                    # One of its own for each word, so that no two trees of a sentence look the same.
                    "feats": f"{len(made)}.{w}",
                    "head": heads[w],
                    "deprel": str(rng.choice(["root", "obj", "det"])),
                }
            )
        made.append(words)
    return Treebank.from_sentences(made)


def words_of(bank: Treebank, s: int) -> Sentence:
    rows = bank[s]
    return [{}] + [dict(zip(FIELDS, row[1:6], strict=True)) for row in rows]


def value(sentence: Sentence, column: str, w: int | None) -> str:
    if w is None or not 0 <= w < len(sentence):
        return "<none>"
    if w == 0:
        return "<root>"
    form = sentence[w]["form"]
    made = {"lower": form.lower(), "prefix": form[:3], "suffix": form[-3:]}
    return made[column] if column in made else sentence[w][column]


def place(w: int, hop: str, guide: list[int]) -> int | None:
    """`guide` has the head of each word, with anything at 0."""
    if hop in ("", "-1", "-2", "+1", "+2"):
        return w + int(hop or 0)
    if hop in ("^", "^^"):
        if w == 0:
            return None
        head = guide[w]
        if hop == "^" or head == 0:
            return head
        return guide[head]
    children = [m for m in range(1, len(guide)) if guide[m] == w]
    if hop == "<":
        left = [m for m in children if m < w]
        return min(left) if left else None
    right = [m for m in children if m > w]
    return max(right) if right else None


def bin_of(d: int) -> str:
    for k, top in enumerate((1, 2, 3, 6, 11)):
        if d <= top:
            return str(k)
    return "5"


def pair(sentence: Sentence, part: str, h: int, m: int, guide: list[int]) -> str:
    inside = range(min(h, m) + 1, max(h, m))
    if part == "gap":
        tags = [sentence[w]["upos"] for w in inside]
        verbs = sum(t in ("VERB", "AUX") for t in tags)
        return f"{min(verbs, 3)} {min(tags.count('PUNCT'), 2)} {min(tags.count('CCONJ'), 1)}"
    if part == "same":
        return "arc" if guide[m] == h else ("reverse" if h and guide[h] == m else "no")
    step = 1 if m > h else -1
    around = (
        range(m - step, h, -step) if part == "sibling.upos" else range(m + step, 0 if step < 0 else len(guide), step)
    )
    for w in around:
        if guide[w] == h:
            return value(sentence, "upos", w)
    return "<none>"


def features(sentence: Sentence, template: str, h: int, m: int, guide: list[int]) -> list[str]:
    parts = template.split()
    ending = parts.pop() if parts[-1] in ("dir", "dist") else ""
    texts, sets = [], [""]
    for part in parts:
        if part.startswith("between."):
            inside = range(min(h, m) + 1, max(h, m))
            sets = sorted({value(sentence, part[8:], w) for w in inside})
        elif part[0] in "hm" and "." in part:
            side, column = part.split(".")
            texts.append(value(sentence, column, place(h if side[0] == "h" else m, side[1:], guide)))
        else:
            texts.append(pair(sentence, part, h, m, guide))
    if ending:
        texts.append("right" if h < m else "left")
    if ending == "dist":
        texts.append(bin_of(abs(h - m)))
    return [f"{template}|{'|'.join(texts)}|{one}" for one in sets]


def all_trees(n: int) -> list[tuple[int, ...]]:
    found = []
    for heads in itertools.product(range(n + 1), repeat=n):
        if sum(h == 0 for h in heads) != 1:
            continue
        good = True
        for w in range(1, n + 1):
            seen, at = 0, w
            while at and seen <= n:
                at, seen = heads[at - 1], seen + 1
            good = good and at == 0
        if good:
            found.append(heads)
    return found


class NaiveLearner:
    """One sentence after another, with theta written out and its sum over rounds too."""

    def __init__(
        self, templates: list[str], loss: str, step: float, penalty: Any = None, radius: float = np.inf
    ) -> None:
        self.templates, self.loss, self.step, self.penalty, self.radius = templates, loss, step, penalty, radius
        self.theta: dict[str, float] = defaultdict(float)
        self.total: dict[str, float] = defaultdict(float)
        self.rounds = 0

    def all_features(self, sentence: Sentence, h: int, m: int, guide: list[int]) -> list[str]:
        return [f for t in self.templates for f in features(sentence, t, h, m, guide)]

    def scores(self, sentence: Sentence, guide: list[int], theta: dict[str, float]) -> np.ndarray:
        n = len(sentence) - 1
        matrix = np.full((n + 1, n + 1), -np.inf)
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h != m:
                    matrix[h, m] = sum(theta.get(f, 0.0) for f in self.all_features(sentence, h, m, guide))
        return matrix

    def change(
        self, sentence: Sentence, gold: list[int], guide: list[int], step: float
    ) -> tuple[dict[str, float], float]:
        """Return minus the gradient of one sentence, and the step to take along it."""
        n = len(sentence) - 1
        scores = self.scores(sentence, guide, self.theta)
        trees = all_trees(n)
        change: dict[str, float] = defaultdict(float)
        if self.loss == "log":
            values = np.array([sum(scores[h, m] for m, h in enumerate(tree, 1)) for tree in trees])
            shares = np.exp(values - values.max())
            shares /= shares.sum()
            expected = np.zeros_like(scores)
            for tree, share in zip(trees, shares, strict=True):
                for m, h in enumerate(tree, 1):
                    expected[h, m] += share
            for h in range(n + 1):
                for m in range(1, n + 1):
                    coefficient = (gold[m] == h) - expected[h, m]
                    if h != m and abs(coefficient) > 1e-3:
                        for f in self.all_features(sentence, h, m, guide):
                            change[f] += coefficient
            size = step
        else:
            cost = self.loss != "perceptron"
            values = [sum(scores[h, m] + cost * (gold[m] != h) for m, h in enumerate(tree, 1)) for tree in trees]
            best = trees[int(np.argmax(values))]
            hinge = max(values) - sum(scores[gold[m], m] for m in range(1, n + 1))
            count = 0
            if hinge > 0 or self.loss == "perceptron":
                for m, h in enumerate(best, 1):
                    if h != gold[m]:
                        for sign, head in ((1.0, gold[m]), (-1.0, h)):
                            for f in self.all_features(sentence, head, m, guide):
                                change[f] += sign
                                count += 1
            size = min(step, hinge / count) if self.loss == "mira" and count else step
        return change, size

    def round(self, sentence: Sentence, gold: list[int], guide: list[int], step: float) -> None:
        change, size = self.change(sentence, gold, guide, step)
        for f, c in change.items():
            self.theta[f] += size * c
        if self.penalty is not None:
            self.shrink(step)
        size = math.sqrt(sum(w * w for w in self.theta.values()))
        if size > self.radius:
            self.theta = defaultdict(float, {f: w * self.radius / size for f, w in self.theta.items()})
        for f, w in self.theta.items():
            self.total[f] += w
        self.rounds += 1

    def shrink(self, step: float) -> None:
        norms = np.zeros(len(self.templates))
        for f, w in self.theta.items():
            norms[self.templates.index(f.split("|")[0])] += w * w
        norms = np.sqrt(norms)
        after = self.penalty.prox(norms, step)
        ratio = np.divide(after, norms, out=np.zeros_like(norms), where=norms > 0)
        for f in self.theta:
            self.theta[f] *= ratio[self.templates.index(f.split("|")[0])]

    def mean(self) -> dict[str, float]:
        return {f: w / self.rounds for f, w in self.total.items()}


class NaiveSparse(NaiveLearner):
    """Dual averaging under l1 norm1 + l2/2 norm2^2: each theta is found anew from all that was added up before."""

    def __init__(
        self, templates: list[str], loss: str, step: float, l1: float, l2: float, radius: float = np.inf
    ) -> None:
        super().__init__(templates, loss, step, radius=radius)
        self.l1, self.l2, self.inside = l1, l2, 1.0
        self.steps: list[float] = []
        self.duals: list[dict[str, float]] = []

    def round(self, sentence: Sentence, gold: list[int], guide: list[int], step: float) -> None:
        change, size = self.change(sentence, gold, guide, step)
        after = dict(self.duals[-1]) if self.duals else {}
        for f, c in change.items():
            after[f] = after.get(f, 0.0) + size * c
        passive = self.loss == "mira" and not change
        taken = 0.0 if passive else size if self.loss == "mira" else step
        self.duals.append(after)
        self.steps.append(taken + (self.steps[-1] if self.steps else 0.0))
        self.theta = defaultdict(float, self.weights(after, self.steps[-1], self.inside))

    def end_pass(self) -> None:
        plain = self.weights(self.duals[-1], self.steps[-1], 1.0)
        self.inside = self.into_ball(plain)
        self.theta = defaultdict(float, {f: w * self.inside for f, w in plain.items()})

    def into_ball(self, theta: dict[str, float]) -> float:
        size = math.sqrt(sum(w * w for w in theta.values()))
        return self.radius / size if size > self.radius else 1.0

    def weights(self, dual: dict[str, float], steps: float, factor: float) -> dict[str, float]:
        """argmin over w of -dual w + steps (l1 abs(w) + l2/2 w^2) + w^2/2, times the factor."""
        found = {}
        for f, u in dual.items():
            if abs(u) > self.l1 * steps:
                found[f] = factor * math.copysign(abs(u) - self.l1 * steps, u) / (1.0 + self.l2 * steps)
        return found

    def mean(self) -> dict[str, float]:
        total: dict[str, float] = defaultdict(float)
        for dual in self.duals:
            for f, u in dual.items():
                total[f] += u
        count = len(self.duals)
        found = self.weights({f: u / count for f, u in total.items()}, sum(self.steps) / count, 1.0)
        factor = self.into_ball(found)
        return {f: w * factor for f, w in found.items()}


def log_sum(values: np.ndarray) -> float:
    top = float(np.max(values))
    return top + math.log(float(np.exp(values - top).sum()))
