"""Tags of words: UPOS, XPOS and features as one label each, in a chain with many labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, Singles, under
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.data.columns import Columns, gather
from spom.data.treebank import Treebank
from spom.estimators.pipeline.pruning import Judged, Kept, kept_templates, rows_of, without_template
from spom.estimators.pipeline.upos import added, upos_of, with_steps
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
# The number of letters is a feature where labels share attributes. UPOS and features, means of twelve treebanks
# (development files or held-out fifths): +1.05 and +.03 from 20 sentences, +.66 and +.23 from 60, +.45 and +.20 from
# 200, +.28 and +.26 from 400; of six from 1,000, +.17 and +.37.
LENGTH = ("w.length[0]",)
# The margin and AdaGrad's step. Mean of nine dev sets (Turkish, Czech twice, Finnish, Irish, Greek, German, Arabic,
# Spanish), all of the label right: .8445 with margin 2, .8446 with 1; from 20 sentences .497 and .488.
COST, STEP = 2.0, 0.2
# The strength times the number of sentences, without and with shared attributes. With them the label is right for .8126
# with .1, .8178 with .2, .8210 with .4 (four of these sets), less with .8; without, .2 and .3 are alike on five.
STRENGTH = (0.2, 0.4)
# Passes; with shared attributes there are 12 over fewer than 1,000 sentences, and weights are means of those after each
# pass of the second half. UPOS and features, by joint labels alone, means of ten treebanks: +1.65 and +.71 from 20
# sentences, +.45 and +.30 from 60, +.34 and +.63 from 200; with 6 passes +.87 and +.48, +.42 and +.33, +.26 and +.36.
# From 1,000 sentences (six treebanks) and from all (six) means over 3 of 6 passes add .10 and .03, and .21 and .21. The
# mean of four learners with other seeds is about as good. Where labels share no attributes, such means are of no use:
# LAS falls by .3 on Afrikaans and Vietnamese.
PASSES, SHORT = (6, 12), 1000
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


def chosen(columns: Columns, gold: Coded, shared: bool, seed: int) -> tuple[str, ...]:
    """Return the templates, with long affixes if they are better by two standard errors on held-out sentences.

    Half the passes on at most 60,000 words are enough for the choice. With too few words for it, labels that share
    attributes have long affixes: UPOS and features +.02 and +.08 from 20 sentences, +.26 and +.06 from 60, +.22 and
    +.22 from 200 (means of twelve treebanks); LAS is the same.
    """
    offsets = columns.offsets
    whole = int(offsets[-1])
    learnt = int(np.searchsorted(offsets, min(_LEARNT, 0.8 * whole)))
    held = int(np.searchsorted(offsets, min(whole, offsets[learnt] + _HELD)))
    common = TEMPLATES + LENGTH if shared else TEMPLATES
    if whole < _FEWEST or held == learnt:
        return common + LONG if shared else common
    part, test = columns[:learnt], columns[learnt:held]
    a, b = int(offsets[learnt]), int(offsets[held])
    own, right = Coded(gold.codes[:a], gold.names), gold.codes[a:b]

    def score(names: tuple[str, ...]) -> Floats:
        templates, tokens = fitted(names, part, own)
        weights = _joint(tokens, own, shared, templates.n_features, 2, seed)
        return agreement(weights.tag(as_tokens(templates.transform(test))), right, gold.names)

    gain = score(common + LONG) - score(common)
    return common + LONG if gain.mean() > 2.0 * gain.std() / np.sqrt(gain.size) else common


def agreement(found: Ints, right: Ints, names: list[tuple[str, ...]]) -> Floats:
    """Return how much of the label of each word is right: the mean over UPOS, XPOS and features."""
    scores = np.zeros(found.size)
    for k in range(len(COLUMNS)):
        number: dict[str, int] = {}
        codes = np.array([number.setdefault(name[k], len(number)) for name in names])
        scores += (codes[found] == codes[right]) / len(COLUMNS)
    return scores


def needed(names: tuple[str, ...], columns: Columns, gold: Coded, shared: bool, seed: int) -> Kept:
    """Return the templates that tags need; half the passes are enough to compare."""

    def learn(some: tuple[str, ...], rest: Ints, held: Ints) -> Judged:
        words, _ = gather(columns.offsets, rest)
        part, right = Coded(gold.codes[words], gold.names), gold.codes[gather(columns.offsets, held)[0]]
        templates, tokens = fitted(some, columns[rest], part)
        test = as_tokens(templates.transform(columns[held]))
        weights = _joint(tokens, part, shared, templates.n_features, 2, seed)

        def counts(rows: Tokens) -> Ints:
            share = agreement(weights.tag(rows), right, gold.names)
            return rows_of(np.rint(len(COLUMNS) * share).astype(np.int64), rows.offsets, len(COLUMNS))

        left = partial(without_template, test, templates.blocks)
        return Judged(counts(test), weights.values.size, lambda name: counts(left(name)))

    return kept_templates("tags", names, len(columns), learn)


@dataclass(frozen=True)
class TagStage:
    """Features of words, their weights, and the labels; with pruning, `kept` tells why these templates were kept.

    If labels share attributes, `steps` has the scores of steps of UPOS alone, (UPOS + 2, UPOS).
    """

    templates: Templates
    weights: SparseWeights
    names: list[tuple[str, ...]]
    kept: Kept | None = None
    shared: bool = False
    steps: Singles | None = None

    @classmethod
    def fit(
        cls, columns: Columns, gold: Coded, folds: int = 0, seed: int = 0, prune: bool = False
    ) -> tuple[TagStage, Ints]:
        """Return (the stage, labels of its training words: jackknifed by `folds` models, or gold if `folds` is 0)."""
        shared = gold.codes.size < FEW * len(gold.names)
        names, kept = chosen(columns, gold, shared, seed), None
        if prune:
            kept = needed(names, columns, gold, shared, seed)
            names = kept.kept
        templates, tokens = fitted(names, columns, gold)
        crossed = _crossed(tokens, gold, shared, templates.n_features, folds, seed)
        weights, steps = _learnt(tokens, gold, shared, templates.n_features, 1, seed)
        used = weights.used()
        return cls(templates.compact(used), weights.only(used), gold.names, kept, shared, steps), crossed

    @cached_property
    def whole(self) -> SparseWeights:
        """The weights with the scores of steps of UPOS alone."""
        return with_steps(self.weights, self.steps, self.names)

    def codes(self, columns: Columns) -> Ints:
        """Return the label of each word."""
        return self.whole.tag(as_tokens(self.templates.transform(columns)))

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        found = {f"features.{n}": a for n, a in self.templates.arrays().items()} | weight_arrays(self.weights)
        found |= {} if self.steps is None else {"steps": self.steps}
        return found | {"shared": np.array([self.shared])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], names: list[tuple[str, ...]]) -> TagStage:
        """Read and check the arrays that `arrays()` returns."""
        templates = Templates.from_arrays(under(arrays, "features."))
        # Files of versions 4 and 5 lack it.
        shared = "shared" in arrays and bool(check_shape(take(arrays, "shared", "b"), (1,), "shared")[0])
        weights = weights_from(arrays, templates.n_features, len(names), label_parts(names, shared))
        # Files of version 6 and earlier have no steps.
        steps, count = None, len({name[0] for name in names})
        if "steps" in arrays:
            steps = check_shape(take(arrays, "steps", "f", 2), (count + 2, count), "steps").astype(np.float32)
        return cls(templates, weights, names, None, shared, steps)


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
    upos = len(names) + upos_of(names)
    every = sorted({value for row in values for value in row})
    number = {value: int(upos.max()) + 1 + k for k, value in enumerate(every)}
    rows = np.full((len(names), 1 + max(map(len, values), default=-1)), -1, dtype=np.int32)
    for row, first, own in zip(rows, upos, values, strict=True):
        row[: 1 + len(own)] = [first, *(number[value] for value in own)]
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


def _passes(sentences: int, shared: bool, share: int) -> tuple[int, int]:
    """Return the number of passes, one in `share` of all, and of how many of them the mean is taken."""
    count = -(-PASSES[shared and sentences < SHORT] // share)
    return count, count // 2 if shared else 1


def _weights(
    tokens: Tokens, codes: Ints, parts: Ids, features: int, passes: tuple[int, int], seed: int
) -> SparseWeights:
    strength = STRENGTH[parts.shape[1] > 1] / max(1, len(tokens))
    solver = SparseChain(
        tokens, codes, len(parts), features=features, parts=parts, l1=strength,
        loss="softmax-margin", cost=COST, step=AdaGrad(STEP, delta=0.1), epochs=passes[0], random_state=seed,
    )  # fmt: skip
    return solver.learnt(passes[1])


def _joint(tokens: Tokens, gold: Coded, shared: bool, features: int, share: int, seed: int) -> SparseWeights:
    """Learn weights of joint labels in one of `share` passes."""
    parts = label_parts(gold.names, shared)
    return _weights(tokens, gold.codes, parts, features, _passes(len(tokens), shared, share), seed)


def _learnt(
    tokens: Tokens, gold: Coded, shared: bool, features: int, share: int, seed: int
) -> tuple[SparseWeights, Singles | None]:
    """Return weights and, if labels share attributes, scores of steps of UPOS alone, whose other weights are added."""
    weights = _joint(tokens, gold, shared, features, share, seed)
    if not shared:
        return weights, None
    upos = upos_of(gold.names)
    none = np.zeros((int(upos.max()) + 1, 0), dtype=np.int32)
    return added(weights, _weights(tokens, upos[gold.codes], none, features, _passes(len(tokens), True, share), seed))


def _crossed(tokens: Tokens, gold: Coded, shared: bool, features: int, folds: int, seed: int) -> Ints:
    """Return the labels of each part by a model of the others with a third of the passes.

    On EWT and Greek .934 and .958 of UPOS are right then, with half the passes .934 and .959, with three parts .931 and
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
        weights, steps = _learnt(rest, Coded(kept, gold.names), shared, features, 3, seed)
        found.append(with_steps(weights, steps, gold.names).tag(own))
    return np.concatenate(found)


def parted(tokens: Tokens, a: int, b: int) -> tuple[Tokens, Tokens]:
    """Return (all sentences but a to b - 1, those); contiguous parts are not copied."""
    (t, u), join, none = tokens.offsets[[a, b]].tolist(), np.concatenate, tokens.values
    e, f = tokens.indptr[[t, u]].tolist()
    indptr, indices, offsets = tokens.indptr, tokens.indices, tokens.offsets
    rest = join([indptr[: t + 1], indptr[u + 1 :] - (f - e)]), join([indices[:e], indices[f:]]), none
    own = indptr[t : u + 1] - e, indices[e:f], none, offsets[a : b + 1] - t
    return Tokens(*rest, join([offsets[: a + 1], offsets[b + 1 :] - (u - t)])), Tokens(*own)
