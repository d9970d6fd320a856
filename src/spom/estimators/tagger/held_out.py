"""`prune="auto"`: templates go only where held-out sentences say that they can.

1. A tagger with all templates learns from 70 % of the sentences.
2. On a tenth, each template m gets a factor beta_m >= 0 for what it adds to the scores of labels, under an l1 penalty
   that falls step by step (the non-negative garrote, by the likelihood of each label given its neighbours). All factors
   are found together, so that two templates that say the same stand in for each other, whatever their order. The
   evidence for a template is the largest penalty at which its factor is not zero, over the largest of all.
3. The templates with most evidence that hold half of the weights (then seven tenths) learn from the same 70 %. On the
   remaining fifth, sentence by sentence, the loss of the smaller tagger is compared with that of the larger one: it is
   taken where, at a risk of one in ten, the mean loss grows by less than 5 %, its score there is not lower by more than
   .001, and it has at least 15 % fewer weights. Otherwise every template stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import optimize, sparse

from spom.core.arrays import Floats, Ints
from spom.estimators.tagger.pruning import Pruning
from spom.features.rows import Blocks
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.objective import losses
from spom.solvers.structured.chains.predict import marginals
from spom.solvers.structured.chains.select import Selection
from spom.solvers.structured.losses import LOG, Loss

# Shares of sentences that rank and that compare, and how many at most; the rest is learnt from.
RANK, COMPARE, MOST = 0.1, 0.2, 2000
# With fewer sentences a comparison says nothing.
FEWEST = 60
# Shares of the weights that are tried, in this order.
SHARES = (0.5, 0.7)
# The risk of one in ten as a normal quantile, what the loss may grow by, and the score fall by. A growth of .02 took
# six of 21 comparisons on the taggings of the benchmark, .05 two more; one of the six lost .02 on development sentences
# of another genre (wnut17), which no held-out part can tell, the others gained or lost less than .001.
QUANTILE, GROWTH, FALL = 1.2816, 0.05, 0.001
# How much smaller a model must be to be worth it.
SMALLER = 0.85
# Steps of the penalty, from the one that switches all templates off, each half of the one before.
STEPS = 8
# Tokens with a gold label more certain than this say nothing about templates.
CERTAIN = 0.99

Weights = tuple[Any, Floats]


@dataclass(frozen=True)
class Trial:
    """What the comparison needs: sentences under all features, and how to learn and to score with some of them.

    `learn(sentences, features)` gives weights, `score(tokens, y, weights)` F1 or accuracy.
    """

    tokens: Tokens
    y: Ints
    blocks: Blocks
    forbidden: Floats
    learn: Callable[[Tokens, Ints, Ints | None], Weights]
    score: Callable[[Tokens, Ints, Weights], float]

    def part(self, sentences: Ints) -> tuple[Tokens, Ints]:
        """Some sentences and their labels."""
        offsets = self.tokens.offsets
        y = [self.y[offsets[i] : offsets[i + 1]] for i in sentences.tolist()]
        return self.tokens.part(sentences), np.concatenate(y) if y else self.y[:0]


@dataclass
class HeldOutPruning(Pruning):
    """What was compared with what; `verdicts` has a line for each comparison."""

    verdicts: tuple[str, ...] = ()

    def __str__(self) -> str:
        found = self.selection
        width, left = max((len(name) for name in self.names), default=8), set(found.kept.tolist())
        lines = [
            f"{len(self.dropped)} of {len(self.names)} templates dropped by {found.sentences} held-out sentences in "
            f"{found.seconds:.2f} s; learnt with the rest in {self.refit_seconds:.2f} s",
            *self.verdicts,
            f"{'template':<{width}}  {'features':>9}  {'evidence':>8}",
        ]
        for m in np.argsort(-found.evidence, kind="stable"):
            row = f"{self.names[m]:<{width}}  {self.sizes[m]:>9}  {found.evidence[m]:>8.4f}"
            lines.append(row + ("" if int(m) in left else "  dropped"))
        return "\n".join(lines)


def pruned_on_held_out(trial: Trial, seed: int) -> HeldOutPruning:
    """The templates to keep, with the evidence."""
    begin, blocks, n = time.perf_counter(), trial.blocks, len(trial.tokens)
    kept, evidence = np.arange(len(blocks)), np.zeros(len(blocks))
    verdicts: list[str] = []
    ranked, compared, rest = _split(n, seed)
    if n < FEWEST or len(blocks) < 2:
        verdicts.append(f"every template stays: {n} sentences are too few to compare on")
    else:
        learnt, held = trial.part(rest), trial.part(compared)
        full = trial.learn(*learnt, None)
        evidence = template_evidence(*trial.part(ranked), full, blocks, trial.forbidden)
        before = np.empty(0, dtype=np.int64)
        for share in SHARES:
            some = _strongest(evidence, full[0], blocks, share)
            if np.array_equal(some, before):
                continue
            before = some
            smaller = trial.learn(*learnt, some)
            taken, verdict = _compared(trial, held, (full, smaller), some)
            verdicts.append(verdict)
            if taken:
                kept = some
                break
    held_out = ranked.size + compared.size
    found = Selection(kept, evidence, np.ones(len(blocks)), 0.0, np.nan, held_out, time.perf_counter() - begin)
    return HeldOutPruning(blocks.names, np.diff(blocks.starts), found, verdicts=tuple(verdicts))


def _split(n: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Sentences to rank by, to compare on, and to learn from."""
    order = np.random.default_rng(seed).permutation(n)
    first = min(MOST // 2, int(RANK * n))
    second = first + min(MOST, int(COMPARE * n))
    return np.sort(order[:first]), np.sort(order[first:second]), np.sort(order[second:])


def _strongest(evidence: Floats, W: Any, blocks: Blocks, share: float) -> Ints:
    """The blocks with most evidence that together hold at most this share of the weights; at least one."""
    sizes = np.array([np.count_nonzero(W[a:b]) for a, b in pairwise(blocks.starts.tolist())])
    kept: list[int] = []
    held = 0
    # Ties go by name, so that the order in which templates are given does not matter.
    for m in np.lexsort((np.array(blocks.names), -np.round(evidence, 3))).tolist():
        if not kept or (evidence[m] > 0.0 and held + sizes[m] <= share * sizes.sum()):
            kept.append(m)
            held += sizes[m]
    return np.sort(np.array(kept, dtype=np.int64))


def _compared(trial: Trial, held: tuple[Tokens, Ints], models: tuple[Weights, Weights], some: Ints) -> tuple[bool, str]:
    """Whether the smaller model will do, and the figures."""
    tokens, y = held
    every, log = np.arange(len(tokens)), Loss(LOG, 0.0)
    per_sentence = [losses(tokens, y, every, (W, chain + trial.forbidden), log)[:, 0] for W, chain in models]
    scores = [trial.score(tokens, y, weights) for weights in models]
    counts = [int(np.count_nonzero(W)) for W, _ in models]
    change = per_sentence[1] - per_sentence[0]
    mean = max(float(per_sentence[0].mean()), 1e-12)
    worst = float(change.mean() + QUANTILE * change.std() / np.sqrt(max(1, change.size))) / mean
    taken = worst <= GROWTH and scores[1] >= scores[0] - FALL and counts[1] <= SMALLER * counts[0]
    figures = (
        f"loss {100 * float(change.mean()) / mean:+.1f} %, at most {100 * worst:+.1f} % at a risk of .1; score "
        f"{scores[0]:.4f} to {scores[1]:.4f}; weights {counts[0]} to {counts[1]}"
    )
    verdict = "taken" if taken else "refused"
    return taken, f"{some.size} templates against {len(trial.blocks)} on {every.size} sentences: {figures}: {verdict}"


# --- the garrote ----------------------------------------------------------------------------------------------


def template_evidence(tokens: Tokens, y: Ints, full: Weights, blocks: Blocks, forbidden: Floats) -> Floats:
    """The largest penalty, over the largest of all, at which each template's factor is not zero."""
    W, chain = full
    k = chain.shape[1]
    certain = marginals(tokens, W, np.asarray(chain + forbidden))[np.arange(y.size), y]
    chosen = np.flatnonzero(certain < CERTAIN)
    if chosen.size == 0:
        return np.zeros(len(blocks))
    added = _added(tokens, chosen, W[:, :k], blocks)
    context = _context(tokens, y, np.maximum(chain + forbidden, -30.0))[chosen]
    gold = y[chosen]
    added = added - added[:, np.arange(gold.size), gold][:, :, None]
    context = context - context[np.arange(gold.size), gold][:, None]

    def loss(beta: Floats, penalty: float) -> tuple[float, Floats]:
        scores = context + np.tensordot(beta, added, axes=1)
        top = scores.max(axis=1, keepdims=True)
        p = np.exp(scores - top)
        total = p.sum(axis=1, keepdims=True)
        gradient = np.einsum("mty,ty->m", added, p / total) / gold.size
        return float((np.log(total) + top).mean() + penalty * beta.sum()), gradient + penalty

    beta, evidence = np.zeros(len(blocks)), np.zeros(len(blocks))
    largest = float(max(-loss(beta, 0.0)[1].min(), 1e-12))
    for step in range(1, STEPS + 1):
        penalty = largest * 0.5**step
        bounds = optimize.Bounds(0.0, np.inf)
        found = optimize.minimize(loss, beta, (penalty,), "L-BFGS-B", True, bounds=bounds, options={"maxiter": 60})
        beta = np.asarray(found.x)
        evidence = np.where((evidence == 0.0) & (beta > 1e-3), 0.5**step, evidence)
    # Within a step, those with the larger factor come first; factors are below two times the largest.
    return np.asarray(evidence * (1.0 + 0.4 * beta / max(float(beta.max()), 1e-12)))


def _added(tokens: Tokens, chosen: Ints, W: Any, blocks: Blocks) -> Floats:
    """(templates, tokens, labels): what each template adds to the scores of the labels of some tokens."""
    values = tokens.values if tokens.values.size else np.ones(tokens.indices.size)
    rows = sparse.csr_matrix((values, tokens.indices, tokens.indptr), shape=(tokens.indptr.size - 1, W.shape[0]))
    columns = rows[chosen].tocsc()
    spans = pairwise(blocks.starts.tolist())
    return np.stack([np.asarray(columns[:, a:b] @ W[a:b].astype(np.float64)) for a, b in spans])


def _context(tokens: Tokens, y: Ints, chain: Floats) -> Floats:
    """The scores of each token's labels from the gold labels beside it."""
    k, offsets = chain.shape[1], tokens.offsets
    some = np.flatnonzero(np.diff(offsets) > 0)
    before, after = np.append(k, y[:-1]), np.append(y[1:], 0)
    before[offsets[some]] = k
    found = chain[before] + chain[:k, :].T[after]
    last = offsets[some + 1] - 1
    found[last] = chain[before[last]] + chain[k + 1]
    return np.asarray(found)
