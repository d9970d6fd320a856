"""`prune=`: choose the templates of a tagger, and report what was dropped and why.

`"auto"` drops templates and weights only if held-out sentences show that they are not needed:

1. A tenth of the sentences ranks templates. The others are divided into three runs, and taggers with all templates
   learn from two of them, for each run in turn (not for all runs if there are many sentences).
2. On the tenth, each template m gets a factor beta_m >= 0 for its part of the scores of labels, under an l1 penalty
   that falls step by step (the non-negative garrote, by the likelihood of each label given its neighbours). All factors
   are found together, so one of two templates with the same information is enough, whatever their order. The
   evidence for a template is the largest penalty at which its factor is not zero, over the largest of all.
3. Smaller taggers learn from the same runs. First: the templates of most evidence that hold half of the weights, and
   only the largest two thirds of their weights. Then: the largest half, two thirds and four fifths of the weights of
   all templates. Without learning again: two thirds, four fifths or nine tenths of all weights, those that matter
   most, by size times the root of how often their feature is seen. From the smallest on, the first that is good
   enough (`estimators.pruning`) is taken; otherwise everything is kept.

Under a penalty of templates, single weights are not chosen: the templates of most evidence are compared with all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, sparse

from spom.core.arrays import Floats, Ints, Singles
from spom.errors import Unsupported
from spom.estimators.pruning import FEWEST, Dropping, asked_rate, is_worse, runs, will_do
from spom.estimators.tagger.defaults import metric
from spom.estimators.tagger.inputs import Task, Weights
from spom.features.rows import Blocks
from spom.metrics.phrases import counts_by_sentence
from spom.solvers.structured.chains.adaptive_engine import AdaptiveEngine
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.knockoffs import discover
from spom.solvers.structured.chains.predict import largest, marginals, tag
from spom.solvers.structured.chains.select import Selection, select


@dataclass
class Pruning(Dropping):
    """The dropped templates, the evidence, and the cost of the selection.

    A template is kept if its evidence is above one: the norm of its mean gradient over the threshold, strength times
    its weight (see `solvers.structured.chains.select`). A given number of templates are those with most evidence.
    """

    selection: Selection
    sizes: Ints
    refit_seconds: float = np.nan

    def __str__(self) -> str:
        found = self.selection
        head = (
            f"{len(self.dropped)} of {len(self.names)} templates dropped at strength {found.strength:.4g}, from "
            f"{found.sentences} sentences in {found.seconds:.2f} s; learnt with the rest in {self.refit_seconds:.2f} s"
        )
        rows = [f"  {w:>6.2f}  {e:>8.2f}" for w, e in zip(found.weights, found.evidence, strict=True)]
        return "\n".join(
            [*self._promise("templates"), head, *self._templates(f"  {'weight':>6}  {'evidence':>8}", rows)]
        )

    def _templates(self, heading: str, rows: list[str]) -> list[str]:
        """Return lines with the templates, their features and `rows`, most evidence first."""
        sized = [f"  {size:>9}{row}" for size, row in zip(self.sizes.tolist(), rows, strict=True)]
        return self._table(("template", f"  {'features':>9}{heading}"), sized)


def check_prune(how: Any) -> None:
    """Raise an error if `prune` is not one of its choices."""
    if isinstance(how, dict):
        asked_rate(how)
        return
    number = isinstance(how, (int, float, np.number)) and not isinstance(how, bool) and how > 0
    if how is not None and not (isinstance(how, str) and how == "auto") and not number:
        raise ValueError(f"prune must be 'auto', a number of templates, a strength (a float) or None, not {how!r}")


# --- the choices of `prune=` ----------------------------------------------------------------------------------


def chosen_pruning(tagger: Any, task: Task) -> Pruning | None:
    """Choose the templates of a tagger's task to keep; return None without `prune`."""
    how, blocks = tagger.prune, task.blocks
    if how is None:
        return None
    if task.weight is not None or task.y.min() < 0:
        raise Unsupported("prune= takes sentences whose labels are all known and count the same: set prune=None")
    if how == "auto":
        return pruned_on_held_out(trial_of(tagger, task), tagger._seed())
    if isinstance(how, dict):
        return _discovery(tagger, task)
    if not isinstance(how, (str, float)) and how > len(blocks):
        raise ValueError(f"prune={how} is more than the {len(blocks)} templates there are")
    found = select(
        task.tokens,
        task.y,
        blocks,
        tagger._learning_forbidden(),
        how,
        transitions=tagger.transitions,
        random_state=tagger.random_state if isinstance(tagger.random_state, (int, np.integer)) else 0,
    )
    if found.kept.size == 0:
        raise ValueError(f"prune={how!r} leaves no template: give a smaller strength")
    return Pruning(blocks.names, found, np.diff(blocks.starts))


def _discovery(tagger: Any, task: Task) -> Pruning:
    """Select the templates that stand out against their knockoffs."""
    options: dict[str, Any] = {"transitions": tagger.transitions, "random_state": tagger._seed()}
    forbidden = tagger._learning_forbidden()
    found = discover(task.tokens, task.y, task.blocks, forbidden, asked_rate(tagger.prune), **options)
    found.check_some("templates")
    return Pruning(task.blocks.names, found, np.diff(task.blocks.starts))


def trial_of(tagger: Any, task: Task) -> Trial:
    """Return the data and functions for a comparison on held-out sentences."""

    def learn(tokens: Tokens, y: Ints, support: Singles | None) -> Weights:
        part = replace(task, tokens=tokens, y=y)
        ids = np.arange(task.blocks.total) if support is None else np.flatnonzero(support.any(axis=1))
        solver = tagger._solver(part if support is None else part.only(ids), tagger.epochs_, tagger._seed())
        if support is not None and isinstance(solver.engine, AdaptiveEngine):
            solver.engine.learn_only(support[ids])
        for _ in solver.passes():
            pass
        W, chain = solver.weights()
        whole = np.zeros((task.blocks.total, W.shape[1]), dtype=W.dtype)
        whole[ids] = W
        return whole, chain

    def counts(tokens: Tokens, y: Ints, weights: Weights) -> Ints:
        found = tag(tokens, weights[0], weights[1] + tagger._forbidden)
        if metric(tagger.scoring, tagger.classes_.tolist()) == "f1":
            return counts_by_sentence(y, found, tokens.offsets, [str(label) for label in tagger.classes_.tolist()])
        right = np.append(0, np.cumsum(y == found))
        words = np.diff(tokens.offsets)
        return np.stack([words, words, np.diff(right[tokens.offsets])], axis=1)

    single = isinstance(tagger._solver(task, 1, 0).engine, AdaptiveEngine)
    return Trial(task.tokens, task.y, task.blocks, tagger._learning_forbidden(), learn, counts, single)


# --- prune="auto" ---------------------------------------------------------------------------------------------

# The share of sentences that ranks, and their maximum number.
RANK, RANKED = 0.1, 1000
# The share of the weights whose templates are tried, and the shares of single weights: of those, and of all, where
# True means learning again.
TEMPLATES, OF_SOME = 0.5, 0.67
OF_ALL = ((0.5, True), (0.67, False), (0.67, True), (0.8, False), (0.8, True), (0.9, False))
# The largest share of the weights that a smaller model may have.
SMALLER = 0.92
# Steps of the penalty, starting at the one that sets all templates to zero; each is half of the one before.
STEPS = 8
# Tokens with a gold label more certain than this carry no information about templates.
CERTAIN = 0.99


class Smaller(NamedTuple):
    """A smaller tagger: some templates, a share of their weights, and whether these are learnt again."""

    templates: Ints
    share: float = 1.0
    again: bool = True

    def __str__(self) -> str:
        share = "" if self.share == 1.0 else f" with {100 * self.share:.0f} % of their weights"
        return f"{self.templates.size} templates{share}" + (", learnt again" if self.share < 1.0 and self.again else "")


@dataclass(frozen=True)
class Trial:
    """Data and functions for a comparison: sentences with all features, and how to learn and score with some of them.

    `learn(sentences, labels, support)` returns weights, only those for which `support` is not zero (None: all), and
    `counts(tokens, y, weights)` a row per sentence: phrases or tokens that are wanted, found and right. `single`
    tells whether single weights may be chosen.
    """

    tokens: Tokens
    y: Ints
    blocks: Blocks
    forbidden: Floats
    learn: Callable[[Tokens, Ints, Singles | None], Weights]
    counts: Callable[[Tokens, Ints, Weights], Ints]
    single: bool = True

    def part(self, sentences: Ints) -> tuple[Tokens, Ints]:
        """Return some sentences and their labels."""
        offsets = self.tokens.offsets
        y = [self.y[offsets[i] : offsets[i + 1]] for i in sentences.tolist()]
        return self.tokens.part(sentences), np.concatenate(y) if y else self.y[:0]

    def smaller(self, learnt: tuple[Tokens, Ints], full: Weights, wanted: Smaller) -> Weights:
        """Return the weights of a smaller tagger, from those of the full one."""
        if wanted.templates.size < len(self.blocks):
            support = np.zeros_like(full[0])
            support[self.blocks.ids(wanted.templates)] = 1.0
            full = self.learn(*learnt, support)
        if not wanted.again:
            return without_small(full[0], learnt[0], wanted.share), full[1]
        if wanted.share == 1.0:
            return full
        return self.learn(*learnt, largest(full[0], share_of(full[0], wanted.share)))


def share_of(W: Singles, share: float) -> int:
    """Return this share of the number of non-zero weights, at least one."""
    return max(1, int(share * np.count_nonzero(W)))


def without_small(W: Singles, tokens: Tokens, share: float) -> Singles:
    """Keep the share of the weights that matters most: by size times the root of the feature's frequency."""
    often = np.sqrt(np.bincount(tokens.indices, minlength=W.shape[0])[: W.shape[0]]).astype(np.float32)
    return np.where(largest(W * often[:, None], share_of(W, share)) > 0.0, W, np.float32(0.0))


@dataclass
class HeldOutPruning(Pruning):
    """The result of the comparisons: a line for each of them, and the choice."""

    verdicts: tuple[str, ...] = ()
    chosen: Smaller | None = None

    def __str__(self) -> str:
        found = self.selection
        head = (
            f"{len(self.dropped)} of {len(self.names)} templates dropped by {found.sentences} held-out sentences in "
            f"{found.seconds:.2f} s; learnt with the rest in {self.refit_seconds:.2f} s"
        )
        rows = [f"  {e:>8.4f}" for e in found.evidence]
        return "\n".join([head, *self.verdicts, *self._templates(f"  {'evidence':>8}", rows)])


def pruned_on_held_out(trial: Trial, seed: int) -> HeldOutPruning:
    """Return the templates and the share of weights to keep, with the evidence."""
    begin, blocks, n = time.perf_counter(), trial.blocks, len(trial.tokens)
    chosen, evidence = Smaller(np.arange(len(blocks))), np.zeros(len(blocks))
    verdicts: list[str] = []
    ranked, parts = _split(n, seed)
    if n < FEWEST:
        verdicts.append(f"everything stays: {n} sentences are too few to compare on")
    elif not (full := trial.learn(*trial.part(parts[0][0]), None))[0].any():
        verdicts.append("everything stays: there is no weight that is not zero")
    else:
        judged = [_Part.of(trial, rest, held, full if k == 0 else None) for k, (rest, held) in enumerate(parts)]
        evidence = template_evidence(*trial.part(ranked), full, blocks, trial.forbidden)
        for wanted in _candidates(trial, _strongest(evidence, full[0], blocks, TEMPLATES)):
            taken, verdict = _compared(trial, judged, wanted)
            verdicts.append(verdict)
            if taken:
                chosen = wanted
                break
    held_out = ranked.size + sum(held.size for _, held in parts)
    seconds = time.perf_counter() - begin
    found = Selection(chosen.templates, evidence, np.ones(len(blocks)), 0.0, np.nan, held_out, seconds)
    return HeldOutPruning(blocks.names, found, np.diff(blocks.starts), verdicts=tuple(verdicts), chosen=chosen)


@dataclass(frozen=True)
class _Part:
    """Sentences to learn from, others that judge, the weights of all templates, and their counts."""

    learnt: tuple[Tokens, Ints]
    held: tuple[Tokens, Ints]
    full: Weights
    counts: Ints

    @classmethod
    def of(cls, trial: Trial, rest: Ints, held: Ints, full: Weights | None) -> _Part:
        learnt, judging = trial.part(rest), trial.part(held)
        full = trial.learn(*learnt, None) if full is None else full
        return cls(learnt, judging, full, trial.counts(*judging, full))


def _candidates(trial: Trial, some: Ints) -> list[Smaller]:
    """Return smaller taggers in the order of trial."""
    every = np.arange(len(trial.blocks))
    first = [Smaller(some, OF_SOME if trial.single else 1.0)] if some.size < every.size else []
    return [*first, *(Smaller(every, *how) for how in OF_ALL if trial.single)]


def _split(n: int, seed: int) -> tuple[Ints, list[tuple[Ints, Ints]]]:
    """Return sentences to rank by, and for each part those to learn from and those to judge by."""
    order = np.random.default_rng(seed).permutation(n)
    few = min(RANKED, int(RANK * n))
    return np.sort(order[:few]), runs(np.sort(order[few:]))


def _strongest(evidence: Floats, W: Any, blocks: Blocks, share: float) -> Ints:
    """Return the blocks with most evidence that together hold at most this share of the weights; at least one."""
    sizes = np.array([np.count_nonzero(W[a:b]) for a, b in pairwise(blocks.starts.tolist())])
    kept: list[int] = []
    held = 0
    # Ties go by name, so the order of the given templates does not matter.
    for m in np.lexsort((np.array(blocks.names), -np.round(evidence, 3))).tolist():
        if not kept or (evidence[m] > 0.0 and held + sizes[m] <= share * sizes.sum()):
            kept.append(m)
            held += sizes[m]
    return np.sort(np.array(kept, dtype=np.int64))


def _compared(trial: Trial, parts: list[_Part], wanted: Smaller) -> tuple[bool, str]:
    """Return whether the smaller model is good enough, and the figures; skip the parts after a clearly worse one."""
    full, smaller, weights = [], [], np.zeros(2, dtype=np.int64)
    for part in parts:
        found = trial.smaller(part.learnt, part.full, wanted)
        weights += [np.count_nonzero(part.full[0]), np.count_nonzero(found[0])]
        full.append(part.counts)
        smaller.append(trial.counts(*part.held, found))
        if is_worse(np.concatenate(full), np.concatenate(smaller)):
            break
    safe, figures = will_do(np.concatenate(full), np.concatenate(smaller))
    taken = safe and weights[1] <= SMALLER * weights[0]
    return bool(taken), (
        f"{wanted} against {len(trial.blocks)} on {sum(len(c) for c in full)} sentences: {figures}; weights "
        f"{100 * weights[1] / max(1, weights[0]):.0f} %: {'taken' if taken else 'refused'}"
    )


# --- the garrote ----------------------------------------------------------------------------------------------


def template_evidence(tokens: Tokens, y: Ints, full: Weights, blocks: Blocks, forbidden: Floats) -> Floats:
    """Return the largest penalty, over the largest of all, at which each template's factor is not zero."""
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
    # Within a step, larger factors come first; the multiplier stays below two, the ratio of successive steps.
    return np.asarray(evidence * (1.0 + 0.4 * beta / max(float(beta.max()), 1e-12)))


def _added(tokens: Tokens, chosen: Ints, W: Any, blocks: Blocks) -> Floats:
    """Return (templates, tokens, labels): each template's part of the scores of the labels of some tokens."""
    values = tokens.values if tokens.values.size else np.ones(tokens.indices.size)
    rows = sparse.csr_matrix((values, tokens.indices, tokens.indptr), shape=(tokens.indptr.size - 1, W.shape[0]))
    columns = rows[chosen].tocsc()
    spans = pairwise(blocks.starts.tolist())
    return np.stack([np.asarray(columns[:, a:b] @ W[a:b].astype(np.float64)) for a, b in spans])


def _context(tokens: Tokens, y: Ints, chain: Floats) -> Floats:
    """Return the scores of each token's labels from the gold labels of its neighbours."""
    k, offsets = chain.shape[1], tokens.offsets
    some = np.flatnonzero(np.diff(offsets) > 0)
    before, after = np.append(k, y[:-1]), np.append(y[1:], 0)
    before[offsets[some]] = k
    found = chain[before] + chain[:k, :].T[after]
    last = offsets[some + 1] - 1
    found[last] = chain[before[last]] + chain[k + 1]
    return np.asarray(found)
