"""Tags of words: UPOS, XPOS and features as one label each, in a chain with many labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, under
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.data.columns import Columns, gather
from spom.data.treebank import Treebank
from spom.estimators.pipeline.pruning import Judged, Kept, kept_templates, rows_of, without_template
from spom.features.templates import Templates
from spom.solvers.steps import AdaGrad
from spom.solvers.structured.chains.data import Ids, Tokens, as_tokens
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import Pairs
from spom.solvers.structured.chains.sparse.parts import Parts
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
# With fewer words per label than this, labels share the values of attributes. On nine such treebanks' held-out words .5
# to 4 more of the features are right than before; on EWT (391 words per label) .1, for 1.7 times the time.
FEW = 200
# The margin and AdaGrad's step. Mean of nine dev sets (Turkish, Czech twice, Finnish, Irish, Greek, German, Arabic,
# Spanish), all of the label right: .8445 with margin 2, .8446 with 1; from 20 sentences .497 and .488.
COST, STEP = 2.0, 0.2
# The strength times the number of sentences, without and with shared attributes. With them the label is right for .8126
# with .1, .8178 with .2, .8210 with .4 (four of these sets), less with .8; without, .2 and .3 are alike on five.
STRENGTH = (0.2, 0.4)
EPOCHS = 6
# A word that occurs this often belongs to the class of words with its tags, each of which has this share or more.
_OFTEN, _SHARE = 3, 0.05
# The numbers of words to learn from and to hold out for the choice of templates; below the last, no choice.
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


def fitted(templates: tuple[str, ...], columns: Columns, gold: Coded) -> tuple[Templates, Tokens]:
    """Return the templates, and the features of these words."""
    found = Templates(templates, clusters=word_classes(columns, gold))
    return found, as_tokens(found.fit(columns))


def chosen(columns: Columns, gold: Coded, parts: Ids, seed: int) -> tuple[str, ...]:
    """Return the templates, with long affixes if they are better by two standard errors on held-out sentences.

    Half the epochs on at most 60,000 words are enough for the choice.
    """
    offsets = columns.offsets
    whole = int(offsets[-1])
    learnt = int(np.searchsorted(offsets, min(_LEARNT, 0.8 * whole)))
    held = int(np.searchsorted(offsets, min(whole, offsets[learnt] + _HELD)))
    if whole < _FEWEST or held == learnt:
        return TEMPLATES
    part, test = columns[:learnt], columns[learnt:held]
    a, b = int(offsets[learnt]), int(offsets[held])
    own, right = Coded(gold.codes[:a], gold.names), gold.codes[a:b]

    def score(names: tuple[str, ...]) -> Floats:
        templates, tokens = fitted(names, part, own)
        weights = _learnt(tokens, own, parts, templates.n_features, (EPOCHS + 1) // 2, seed)
        return agreement(weights.tag(as_tokens(templates.transform(test))), right, gold.names)

    gain = score(TEMPLATES + LONG) - score(TEMPLATES)
    return TEMPLATES + LONG if gain.mean() > 2.0 * gain.std() / np.sqrt(gain.size) else TEMPLATES


def agreement(found: Ints, right: Ints, names: list[tuple[str, ...]]) -> Floats:
    """Return how much of the label of each word is right: the mean over UPOS, XPOS and features."""
    scores = np.zeros(found.size)
    for k in range(len(COLUMNS)):
        number: dict[str, int] = {}
        codes = np.array([number.setdefault(name[k], len(number)) for name in names])
        scores += (codes[found] == codes[right]) / len(COLUMNS)
    return scores


def needed(names: tuple[str, ...], columns: Columns, gold: Coded, parts: Ids, seed: int) -> Kept:
    """Return the templates that tags need; half the epochs are enough to compare."""

    def learn(some: tuple[str, ...], rest: Ints, held: Ints) -> Judged:
        words, _ = gather(columns.offsets, rest)
        part, right = Coded(gold.codes[words], gold.names), gold.codes[gather(columns.offsets, held)[0]]
        templates, tokens = fitted(some, columns[rest], part)
        test = as_tokens(templates.transform(columns[held]))
        weights = _learnt(tokens, part, parts, templates.n_features, (EPOCHS + 1) // 2, seed)

        def counts(rows: Tokens) -> Ints:
            share = agreement(weights.tag(rows), right, gold.names)
            return rows_of(np.rint(len(COLUMNS) * share).astype(np.int64), rows.offsets, len(COLUMNS))

        left = partial(without_template, test, templates.blocks)
        return Judged(counts(test), weights.values.size, lambda name: counts(left(name)))

    return kept_templates("tags", names, len(columns), learn)


@dataclass(frozen=True)
class TagStage:
    """Features of words, their weights, and the labels; with pruning, `kept` tells why these templates were kept."""

    templates: Templates
    weights: SparseWeights
    names: list[tuple[str, ...]]
    kept: Kept | None = None
    shared: bool = False

    @classmethod
    def fit(
        cls, columns: Columns, gold: Coded, folds: int = 0, seed: int = 0, prune: bool = False
    ) -> tuple[TagStage, Ints]:
        """Return (the stage, labels of its training words: jackknifed by `folds` models, or gold if `folds` is 0)."""
        shared = gold.codes.size < FEW * len(gold.names)
        parts = label_parts(gold.names, shared)
        names, kept = chosen(columns, gold, parts, seed), None
        if prune:
            kept = needed(names, columns, gold, parts, seed)
            names = kept.kept
        templates, tokens = fitted(names, columns, gold)
        crossed = _crossed(tokens, gold, parts, templates.n_features, folds, seed)
        weights = _learnt(tokens, gold, parts, templates.n_features, EPOCHS, seed)
        used = weights.used()
        return cls(templates.compact(used), weights.only(used), gold.names, kept, shared), crossed

    def codes(self, columns: Columns) -> Ints:
        """Return the label of each word."""
        return self.weights.tag(as_tokens(self.templates.transform(columns)))

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        found = {f"features.{n}": a for n, a in self.templates.arrays().items()} | weight_arrays(self.weights)
        return found | {"shared": np.array([self.shared])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], names: list[tuple[str, ...]]) -> TagStage:
        """Read and check the arrays that `arrays()` returns."""
        templates = Templates.from_arrays(under(arrays, "features."))
        # Files of versions 4 and 5 lack it.
        shared = "shared" in arrays and bool(check_shape(take(arrays, "shared", "b"), (1,), "shared")[0])
        weights = weights_from(arrays, templates.n_features, len(names), label_parts(names, shared))
        return cls(templates, weights, names, shared=shared)


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


def label_parts(names: list[tuple[str, ...]], shared: bool) -> Ids:
    """Return the parts of each label: its UPOS and, if `shared`, the value of each attribute of its features.

    Without UPOS as a part, UPOS is .015 worse on Turkish (1,029 labels) and the same on Afrikaans.
    """
    values = [sorted({*name[2].split("|")} - {"_"}) if shared else [] for name in names]
    # Files rely on this order: UPOS as they appear, then attributes in order.
    upos = {name: len(names) + k for k, name in enumerate(dict.fromkeys(name[0] for name in names))}
    every = sorted({value for row in values for value in row})
    number = {value: len(names) + len(upos) + k for k, value in enumerate(every)}
    rows = np.full((len(names), 1 + max(map(len, values), default=-1)), -1, dtype=np.int32)
    for row, name, own in zip(rows, names, values, strict=True):
        row[: 1 + len(own)] = [upos[name[0]], *(number[value] for value in own)]
    return rows


def weights_from(arrays: dict[str, Any], features: int, labels: int, rows: Ids | None = None) -> SparseWeights:
    """Read and check the arrays that `weight_arrays` returns: compiled code does not check them."""
    values = take(arrays, "values", "f").astype(np.float32)
    starts = check_shape(take(arrays, "starts", "i"), (features + 1,), "starts").astype(np.int64)
    starts = check_offsets(starts, values.size, "starts")
    parts = Parts.of(rows, labels)
    seen = check_shape(check_indices(take(arrays, "labels", "i"), parts.total, "labels"), values.shape, "labels")
    chain = np.zeros((labels + 2, labels), dtype=np.float32)
    places = check_indices(take(arrays, "chain.places", "i"), chain.size, "chain")
    chain.reshape(-1)[places] = check_shape(take(arrays, "chain.values", "f"), places.shape, "chain")
    return SparseWeights(Pairs(starts, seen.astype(np.int32), parts), values, chain)


def _learnt(tokens: Tokens, gold: Coded, parts: Ids, features: int, epochs: int, seed: int) -> SparseWeights:
    strength = STRENGTH[parts.shape[1] > 1] / max(1, len(tokens))
    solver = SparseChain(
        tokens, gold.codes, len(gold.names), features=features, parts=parts, l1=strength,
        loss="softmax-margin", cost=COST, step=AdaGrad(STEP, delta=0.1), epochs=epochs, random_state=seed,
    )  # fmt: skip
    for _ in solver.passes():
        pass
    return solver.weights()


def _crossed(tokens: Tokens, gold: Coded, parts: Ids, features: int, folds: int, seed: int) -> Ints:
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
        model = _learnt(rest, Coded(kept, gold.names), parts, features, EPOCHS // 3, seed)
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
