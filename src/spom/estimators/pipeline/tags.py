"""Tags of words: UPOS, XPOS and features as one label each, in a chain with many labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, under
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.data.columns import Columns, gather
from spom.data.treebank import Treebank
from spom.estimators.pipeline.pruning import Judged, Kept, kept_templates, rows_of, without_template
from spom.features.templates import Templates
from spom.solvers.structured.chains.data import Tokens, as_tokens
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import Pairs, part_count
from spom.solvers.structured.chains.sparse.solver import SparseChain

COLUMNS = ("upos", "xpos", "feats")
# Chosen on EWT's dev set among four sets: "pos" alone has .946 there (UPOS), this one .951.
TEMPLATES = (
    "w[0]",
    *(f"w.lower[{k}]" for k in (-2, -1, 0, 1, 2)),
    *(f"w.lower.prefix{k}[0]" for k in range(1, 5)),
    *(f"w.lower.suffix{k}[0]" for k in range(1, 6)),
    *("w.shape[0]", "w.case[0]", "w.digit[0]", "w.shape[-1]", "w.shape[1]"),
    *(f"w.lower.suffix{k}[{o}]" for k in (2, 3) for o in (-1, 1)),
    *("w.lower[-1]|w.lower[0]", "w.lower[0]|w.lower[1]"),
    # On the dev sets of EWT, Greek, Turkish, Afrikaans and Irish these two add .10, .04, .24, .29 and .19 to all tags.
    *("w.lower[-1]|w.lower[1]", "w.lower[-2]|w.lower[-1]"),
    *("w.lower.suffix3[-1]|w.lower.suffix3[0]", "w.lower.suffix3[0]|w.lower.suffix3[1]"),
    *("w.shape[0]|w.lower.suffix3[0]", "w.shape[-1]|w.shape[0]", "w.shape[0]|w.shape[1]"),
    *("w.cluster[-1]", "w.cluster[1]"),
)
# Long affixes: +.007 UPOS and feats on Turkish, -.001 on EWT (dev sets). The treebank decides: see `chosen`. On
# held-out words of Turkish they gain five standard errors, on those of EWT, Greek, Irish and Afrikaans -.2 to 1.5.
LONG = tuple(f"w.lower.{side}[0]" for side in ("suffix6", "suffix7", "prefix5", "prefix6"))
# Margins of a wrong label: 4 is better by .001 to .002 on EWT, 1 by .003 (feats) on Greek. The treebank decides too.
COSTS = (1.0, 4.0)
# The margin with too few words for a choice. Mean UPOS on the dev sets of Afrikaans, Greek, Irish, Turkish, Vietnamese
# and Czech CLTT: .684 from 20 sentences (.667 with 4, .658 with 1), .774 from 60 (.773, .766), .849 from 200 (.849,
# .844).
FEW_COST = 10.0
# The strength in that case, over the number of sentences. Mean on the dev sets of eight treebanks (Afrikaans, Greek,
# Irish, Turkish, Czech twice, English, Finnish) from 20 and 50 sentences: UPOS .719, features .595; with STRENGTH .717,
# .579.
FEW_STRENGTH = 0.1
# From 5e-6 to 2e-5 the tags of EWT's dev set differ by .001.
STRENGTH = 1e-5
EPOCHS = 6
# A word that occurs this often belongs to the class of words with its tags, each of which has this share or more.
_OFTEN, _SHARE = 3, 0.05
# The numbers of words to learn from and to hold out for the choice of templates and margin; below the last, no choice.
_LEARNT, _HELD, _FEWEST = 60_000, 15_000, 5_000


@dataclass(frozen=True)
class Coded:
    """The label of each word as a number; `names` are (UPOS, XPOS, features), the most frequent first."""

    codes: Ints
    names: list[tuple[str, ...]]


def tags_of(bank: Treebank) -> Coded:
    """Return the joint labels of a treebank."""
    parts = [bank.columns.distinct(name) for name in COLUMNS]
    radix = [len(strings) for _, strings in parts]
    keys = np.zeros(bank.n_words, dtype=np.int64)
    for (codes, _), size in zip(parts, radix, strict=True):
        keys = keys * size + codes
    distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    names = []
    for key in distinct[order].tolist():
        fields = []
        for (_, strings), size in zip(reversed(parts), reversed(radix), strict=True):
            key, c = divmod(key, size)
            fields.append(str(strings[c]))
        names.append(tuple(reversed(fields)))
    return Coded(rank[inverse], names)


def word_classes(columns: Columns, gold: Coded) -> dict[str, str]:
    """Return the UPOS that a frequent word was seen with, by word in lower case, as features of its neighbours.

    A rare word has none, as its class would tell its tag, nor has one that begins with a capital letter.
    """
    codes, strings = columns.distinct("form")
    seen: dict[str, Counter[str]] = {}
    pairs, counts = np.unique(codes.astype(np.int64) * len(gold.names) + gold.codes, return_counts=True)
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        word, tag = divmod(pair, len(gold.names))
        seen.setdefault(str(strings[word]).lower(), Counter())[gold.names[tag][0]] += count
    found = {}
    for word, tags in seen.items():
        total = tags.total()
        if total >= _OFTEN:
            found[word] = "/".join(sorted(tag for tag, count in tags.items() if count >= _SHARE * total))
    return found


@dataclass(frozen=True)
class Choice:
    """Templates, margin and strength of a tagger."""

    templates: tuple[str, ...] = TEMPLATES
    cost: float = COSTS[0]
    strength: float = STRENGTH

    def fitted(self, columns: Columns, gold: Coded) -> tuple[Templates, Tokens]:
        """Return the templates, and the features of these words."""
        templates = Templates(self.templates, clusters=word_classes(columns, gold))
        return templates, as_tokens(templates.fit(columns))


# Templates, the features of words to learn from, and those of held-out words.
Fitted = tuple[tuple[Templates, Tokens], Tokens]


def chosen(columns: Columns, gold: Coded, seed: int) -> Choice:
    """Choose whether to use long affixes, then the margin, by the score on held-out sentences.

    Half the epochs on at most 60,000 words are enough for the choice.
    """
    offsets, best = columns.offsets, Choice()
    whole = int(offsets[-1])
    learnt = int(np.searchsorted(offsets, min(_LEARNT, 0.8 * whole)))
    held = int(np.searchsorted(offsets, min(whole, offsets[learnt] + _HELD)))
    if whole < _FEWEST or held == learnt:
        return Choice(cost=FEW_COST, strength=FEW_STRENGTH / max(1, len(columns)))
    part, test = columns[:learnt], columns[learnt:held]
    a, b = int(offsets[learnt]), int(offsets[held])
    own, right = Coded(gold.codes[:a], gold.names), gold.codes[a:b]

    def score(choice: Choice, fitted: Fitted) -> Floats:
        (templates, tokens), held_out = fitted
        weights = _learnt(tokens, own, templates.n_features, (EPOCHS + 1) // 2, seed, choice)
        return agreement(weights.tag(held_out), right, gold.names)

    def fitted(choice: Choice) -> Fitted:
        found = choice.fitted(part, own)
        return found, as_tokens(found[0].transform(test))

    rows = fitted(best)
    top, other = score(best, rows), Choice(TEMPLATES + LONG)
    more = fitted(other)
    found = score(other, more)
    gain = found - top
    # More templates must be better by two standard errors; a margin costs nothing.
    if gain.mean() > 2.0 * gain.std() / np.sqrt(gain.size):
        best, top, rows = other, found, more
    other = Choice(best.templates, COSTS[1])
    return other if score(other, rows).mean() > top.mean() else best


def agreement(found: Ints, right: Ints, names: list[tuple[str, ...]]) -> Floats:
    """Return how much of the label of each word is right: the mean over UPOS, XPOS and features."""
    scores = np.zeros(found.size)
    for k in range(len(COLUMNS)):
        number: dict[str, int] = {}
        codes = np.array([number.setdefault(name[k], len(number)) for name in names])
        scores += (codes[found] == codes[right]) / len(COLUMNS)
    return scores


def needed(columns: Columns, gold: Coded, choice: Choice, seed: int) -> Kept:
    """Return the templates that tags need; half the epochs are enough to compare."""

    def learn(names: tuple[str, ...], rest: Ints, held: Ints) -> Judged:
        own, (words, _) = replace(choice, templates=names), gather(columns.offsets, rest)
        part, right = Coded(gold.codes[words], gold.names), gold.codes[gather(columns.offsets, held)[0]]
        templates, tokens = own.fitted(columns[rest], part)
        test = as_tokens(templates.transform(columns[held]))
        weights = _learnt(tokens, part, templates.n_features, (EPOCHS + 1) // 2, seed, own)

        def counts(rows: Tokens) -> Ints:
            share = agreement(weights.tag(rows), right, gold.names)
            return rows_of(np.rint(len(COLUMNS) * share).astype(np.int64), rows.offsets, len(COLUMNS))

        left = partial(without_template, test, templates.blocks)
        return Judged(counts(test), weights.values.size, lambda name: counts(left(name)))

    return kept_templates("tags", choice.templates, len(columns), learn)


@dataclass(frozen=True)
class TagStage:
    """Features of words, their weights, and the labels; with pruning, `kept` tells why these templates were kept."""

    templates: Templates
    weights: SparseWeights
    names: list[tuple[str, ...]]
    kept: Kept | None = None

    @classmethod
    def fit(
        cls, columns: Columns, gold: Coded, folds: int = 0, seed: int = 0, prune: bool = False
    ) -> tuple[TagStage, Ints]:
        """Return (the stage, labels of its training words: jackknifed by `folds` models, or gold if `folds` is 0)."""
        choice, kept = chosen(columns, gold, seed), None
        if prune:
            kept = needed(columns, gold, choice, seed)
            choice = replace(choice, templates=kept.kept)
        templates, tokens = choice.fitted(columns, gold)
        crossed = _crossed(tokens, gold, templates.n_features, folds, seed, choice)
        weights = _learnt(tokens, gold, templates.n_features, EPOCHS, seed, choice)
        used = weights.used()
        return cls(templates.compact(used), weights.only(used), gold.names, kept), crossed

    def codes(self, columns: Columns) -> Ints:
        """Return the label of each word."""
        return self.weights.tag(as_tokens(self.templates.transform(columns)))

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        return {f"features.{n}": a for n, a in self.templates.arrays().items()} | weight_arrays(self.weights)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], names: list[tuple[str, ...]]) -> TagStage:
        """Read and check the arrays that `arrays()` returns."""
        templates = Templates.from_arrays(under(arrays, "features."))
        return cls(templates, weights_from(arrays, templates.n_features, len(names), label_parts(names)), names)


def weight_arrays(weights: SparseWeights) -> dict[str, Any]:
    """Return weights as arrays; of the chain only the non-zero scores."""
    places = np.flatnonzero(weights.chain)
    return {
        "starts": weights.pairs.starts,
        "labels": weights.pairs.labels,
        "values": weights.values,
        "chain.places": places,
        "chain.values": weights.chain.reshape(-1)[places],
    }


def label_parts(names: list[tuple[str, ...]]) -> NDArray[np.int32]:
    """Return the part that labels share: their UPOS.

    Without it UPOS is .015 worse on Turkish (1,029 labels) and the same on Afrikaans. Sharing
    the values of single attributes too was no better on Turkish, worse on Afrikaans, and twice as slow.
    """
    number: dict[str, int] = {}
    rows = [[len(names) + number.setdefault(name[0], len(number))] for name in names]
    return np.array(rows, dtype=np.int32).reshape(len(names), 1)


def weights_from(
    arrays: dict[str, Any], features: int, labels: int, parts: NDArray[np.int32] | None = None
) -> SparseWeights:
    """Read and check the arrays that `weight_arrays` returns: compiled code does not check them."""
    values = take(arrays, "values", "f").astype(np.float32)
    starts = check_shape(take(arrays, "starts", "i"), (features + 1,), "starts").astype(np.int64)
    starts = check_offsets(starts, values.size, "starts")
    parts = np.zeros((labels, 0), dtype=np.int32) if parts is None else parts
    seen = check_shape(check_indices(take(arrays, "labels", "i"), part_count(parts), "labels"), values.shape, "labels")
    chain = np.zeros((labels + 2, labels), dtype=np.float32)
    places = check_indices(take(arrays, "chain.places", "i"), chain.size, "chain")
    chain.reshape(-1)[places] = check_shape(take(arrays, "chain.values", "f"), places.shape, "chain")
    return SparseWeights(Pairs(starts, seen.astype(np.int32), parts), values, chain)


def _learnt(tokens: Tokens, gold: Coded, features: int, epochs: int, seed: int, choice: Choice) -> SparseWeights:
    solver = SparseChain(
        tokens, gold.codes, len(gold.names), features=features, parts=label_parts(gold.names), l1=choice.strength,
        loss="softmax-margin", cost=choice.cost, epochs=epochs, random_state=seed,
    )  # fmt: skip
    for _ in solver.passes():
        pass
    return solver.weights()


def _crossed(tokens: Tokens, gold: Coded, features: int, folds: int, seed: int, choice: Choice) -> Ints:
    """Return the labels of each part by a model of the others with a third of the epochs.

    On EWT and Greek .934 and .958 of UPOS are right then, with half the epochs .934 and .959, with three parts .931 and
    .958; on their dev sets the tagger has .927 and .958 (EWT: 3,500 sentences).
    """
    count = len(tokens)
    folds = min(folds, count)
    if folds < 2:
        return gold.codes
    found = []
    for a, b in pairwise(np.linspace(0, count, folds + 1).astype(np.int64).tolist()):
        rest, own = parted(tokens, a, b)
        kept = np.concatenate([gold.codes[: tokens.offsets[a]], gold.codes[tokens.offsets[b] :]])
        model = _learnt(rest, Coded(kept, gold.names), features, EPOCHS // 3, seed, choice)
        found.append(model.tag(own))
    return np.concatenate(found)


def parted(tokens: Tokens, a: int, b: int) -> tuple[Tokens, Tokens]:
    """Return (all sentences but a to b - 1, those); contiguous parts are not copied."""
    (t, u), join, none = tokens.offsets[[a, b]].tolist(), np.concatenate, tokens.values
    e, f = tokens.indptr[[t, u]].tolist()
    indptr, indices, offsets = tokens.indptr, tokens.indices, tokens.offsets
    rest = join([indptr[: t + 1], indptr[u + 1 :] - (f - e)]), join([indices[:e], indices[f:]]), none
    own = indptr[t : u + 1] - e, indices[e:f], none, offsets[a : b + 1] - t
    return Tokens(*rest, join([offsets[: a + 1], offsets[b + 1 :] - (u - t)])), Tokens(*own)
