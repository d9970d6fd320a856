"""`prune="auto"`: templates go only where held-out sentences say that they can.

1. A tagger with all templates learns from 70 % of the sentences.
2. On a tenth, each template m gets a factor beta_m >= 0 for what it adds to the scores of labels, under an l1 penalty
   that falls step by step (the non-negative garrote, by the likelihood of each label given its neighbours). All factors
   are found together, so that two templates that say the same stand in for each other, whatever their order. The
   evidence for a template is the largest penalty at which its factor is not zero, over the largest of all.
3. Smaller taggers learn from the same 70 %: with the templates of most evidence that hold half of the weights and twice
   the strength of the l1 penalty; then with all templates and that strength. On the remaining fifth, sentence by
   sentence, the loss of the smaller tagger is compared with that of the full one: the first is taken where, at a
   risk of one in ten, the mean loss grows by less than 5 %, the score is not lower by more than .001, and there are at
   least 15 % fewer weights. Otherwise everything stays. A penalty that is given as an object keeps its strength: only
   templates are compared then.
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
# The share of the weights whose templates are tried, and the factor for the strength. On development parts of five
# taggings, from columns and from dicts, this rule left 33 to 100 % of the weights (mean 67) and changed the score by
# -.001 to +.013; with a factor of 3 it left 60 % and lost .005 on one.
SHARE, STRONGER = 0.5, 2.0
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

    `learn(sentences, labels, templates, factor)` gives weights, where the factor is that of the penalty's strength, and
    `score(tokens, y, weights)` F1 or accuracy. `stronger` says whether the strength may change.
    """

    tokens: Tokens
    y: Ints
    blocks: Blocks
    forbidden: Floats
    learn: Callable[[Tokens, Ints, Ints | None, float], Weights]
    score: Callable[[Tokens, Ints, Weights], float]
    stronger: bool = True

    def part(self, sentences: Ints) -> tuple[Tokens, Ints]:
        """Some sentences and their labels."""
        offsets = self.tokens.offsets
        y = [self.y[offsets[i] : offsets[i + 1]] for i in sentences.tolist()]
        return self.tokens.part(sentences), np.concatenate(y) if y else self.y[:0]


@dataclass
class HeldOutPruning(Pruning):
    """What was compared with what; `verdicts` has a line for each comparison, `factor` is that of the strength."""

    verdicts: tuple[str, ...] = ()
    factor: float = 1.0

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
    """The templates to keep and the factor for the strength, with the evidence."""
    begin, blocks, n = time.perf_counter(), trial.blocks, len(trial.tokens)
    kept, factor, evidence = np.arange(len(blocks)), 1.0, np.zeros(len(blocks))
    verdicts: list[str] = []
    ranked, compared, rest = _split(n, seed)
    if n < FEWEST:
        verdicts.append(f"every template stays: {n} sentences are too few to compare on")
    else:
        learnt, held = trial.part(rest), trial.part(compared)
        full = trial.learn(*learnt, None, 1.0)
        evidence = template_evidence(*trial.part(ranked), full, blocks, trial.forbidden)
        for some, times in _candidates(trial, _strongest(evidence, full[0], blocks, SHARE)):
            smaller = trial.learn(*learnt, None if some.size == len(blocks) else some, times)
            taken, verdict = _compared(trial, held, (full, smaller), (some, times))
            verdicts.append(verdict)
            if taken:
                kept, factor = some, times
                break
    held_out = ranked.size + compared.size
    found = Selection(kept, evidence, np.ones(len(blocks)), 0.0, np.nan, held_out, time.perf_counter() - begin)
    return HeldOutPruning(blocks.names, np.diff(blocks.starts), found, verdicts=tuple(verdicts), factor=factor)


def _candidates(trial: Trial, some: Ints) -> list[tuple[Ints, float]]:
    """(templates, factor) in the order in which they are tried, the smallest first."""
    every = np.arange(len(trial.blocks))
    if trial.stronger:
        return [(some, STRONGER), (every, STRONGER)] if some.size < every.size else [(every, STRONGER)]
    return [(some, 1.0)] if some.size < every.size else []


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


def _compared(
    trial: Trial, held: tuple[Tokens, Ints], models: tuple[Weights, Weights], how: tuple[Ints, float]
) -> tuple[bool, str]:
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
    what = f"{how[0].size} templates" + ("" if how[1] == 1.0 else f" at {how[1]:g} times the strength")
    return taken, f"{what} against {len(trial.blocks)} on {every.size} sentences: {figures}: {verdict}"


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
