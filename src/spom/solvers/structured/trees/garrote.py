"""The non-negative garrote for parsers: the worth of each template on held-out sentences.

min over beta >= 0 of  strength sum_b beta_b + mean over words of -log softmax over heads of sum_b beta_b c_b(arc),

where c_b is the contribution of template b to the score of an arc, divided by its standard deviation. A norm is mostly
the noise of gradients, and a template's own score ignores that another template may say the same; beta does not.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles, read_only
from spom.core.jit import kernel
from spom.features.arc_spaces import HEAD_OF, MODIFIER_OF, longest_sentence, sentence_of
from spom.features.arcs import ArcCodes
from spom.solvers.structured.trees.learning import Task
from spom.solvers.structured.trees.model import ArcModel
from spom.solvers.structured.trees.scoring import score_arcs
from spom.solvers.structured.trees.space import WEIGHTS, Layout, Space, layout_of, make_space, places_of, prepare

# For each word, only the gold arc and the best-scoring ones are used; the others are never chosen.
RIVALS = 6


class Rivals(NamedTuple):
    """Arcs that compete for a word: each template's contribution, the number of the word, whether they are gold."""

    parts: Annotated[Singles, "float32[:, ::1]"]
    words: Annotated[Ints, "int64[::1]"]
    right: Annotated[NDArray[np.bool_], "boolean[::1]"]


@kernel("void(float32[::1], int64[::1], boolean[::1], int64, int64, boolean[::1])")
def rivals(scores: Singles, modifiers: Ints, right: Any, count: int, n: int, out: Any) -> None:
    """Mark the gold arc of each word and its RIVALS best ones."""
    best, last = np.empty(RIVALS, dtype=np.float32), RIVALS - 1
    for m in range(1, n + 1):
        best[:] = -np.inf
        for a in range(count):
            if modifiers[a] == m and scores[a] > best[last]:
                k = last
                while k > 0 and best[k - 1] < scores[a]:
                    best[k] = best[k - 1]
                    k -= 1
                best[k] = scores[a]
        for a in range(count):
            if modifiers[a] == m:
                out[a] = right[a] or scores[a] >= best[last]


@kernel(f"void(Layout, Space, int64, int64, {WEIGHTS}, int64[:, ::1], float32[:, ::1])")
def score_templates(
    layout: Layout, space: Space, count: int, n: int, weights: Singles, places: Ints, out: Singles
) -> None:
    """out[b, a] = the contribution of template b, at places[b] (family, slot), to arc a."""
    scales = np.zeros((1, 3), dtype=np.float32)
    for b in range(places.shape[0]):
        f = places[b, 0]
        scales[:] = 0.0
        scales[0, places[b, 1]] = 1.0
        one = Layout(layout.ends, layout.atoms, layout.families[f : f + 1], layout.sets, layout.upos, layout.rows)
        part = Space(
            space.arcs, space.heads[f : f + 1], space.modifiers[f : f + 1], space.tags, space.counts, space.pairs
        )
        score_arcs(one, part, count, n, weights, scales, out[b])


@kernel(f"int64(Task, int64[::1], Layout, {WEIGHTS}, int64[:, ::1], Rivals)")
def contributions(task: Task, order: Ints, layout: Layout, weights: Singles, places: Ints, out: Rivals) -> int:
    """Compute each template's contributions to the arcs of some sentences; return the number of arcs."""
    longest, B = longest_sentence(task.corpus, order), places.shape[0]
    space, N = make_space(longest, layout.families.shape[0], layout.sets.size), longest + 1
    parts, total = np.empty((B, N * N), dtype=np.float32), np.empty(N * N, dtype=np.float32)
    gold_arc, kept = np.empty(N * N, dtype=np.bool_), np.empty(N * N, dtype=np.bool_)
    done, word, arcs = 0, 0, space.arcs
    for s in order:
        sentence = sentence_of(task.corpus, s)
        if sentence.n == 0:
            continue
        count = prepare(sentence, layout, task.limits, space)
        score_templates(layout, space, count, sentence.n, weights, places, parts)
        total[:count] = 0.0
        for b in range(B):
            for a in range(count):
                total[a] += parts[b, a]
        for a in range(count):
            gold_arc[a] = task.gold[sentence.first + arcs[MODIFIER_OF, a]] == arcs[HEAD_OF, a]
        rivals(total, arcs[MODIFIER_OF], gold_arc, count, sentence.n, kept)
        for a in range(count):
            if kept[a] and done < out.words.size:
                out.words[done], out.right[done] = word + arcs[MODIFIER_OF, a] - 1, gold_arc[a]
                for b in range(B):
                    out.parts[done, b] = parts[b, a]
                done += 1
        word += sentence.n
    return done


@kernel("float64(float32[::1], int64[::1], boolean[::1], int64, float32[::1])")
def head_loss(scores: Singles, words: Ints, right: Any, count: int, out: Singles) -> float:
    """Return the mean of -log P(gold head), P a softmax over the heads of a word; write its derivative to `out`."""
    top, total = np.full(count, -np.inf), np.zeros(count)
    loss, gold = 0.0, np.zeros(count, dtype=np.int64)
    for a in range(scores.size):
        top[words[a]] = max(top[words[a]], scores[a])
        gold[words[a]] += 1 if right[a] else 0
    for a in range(scores.size):
        total[words[a]] += math.exp(scores[a] - top[words[a]])
    for a in range(scores.size):
        w = words[a]
        # A word whose gold head was filtered out has no loss.
        if gold[w] == 0:
            out[a] = 0.0
            continue
        share = math.exp(scores[a] - top[w]) / total[w]
        out[a] = (share - (1.0 if right[a] else 0.0)) / count
        if right[a]:
            loss -= math.log(max(share, 1e-300)) / count
    return loss


def template_contributions(
    model: ArcModel, codes: ArcCodes, gold: Ints, sentences: Ints
) -> tuple[Singles, Ints, NDArray[np.bool_], int]:
    """Return (templates' contributions to arcs of some sentences, word of each arc, mask of gold arcs, word count)."""
    places = places_of(model.templates)
    words = int(codes.sizes[sentences].sum())
    most = (RIVALS + 1) * words
    out = Rivals(
        np.empty((most, places.shape[0]), dtype=np.float32),
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.bool_),
    )
    layout = layout_of(model.templates, model.layout)
    task = Task.of(codes, gold, model.limits)
    count = contributions(task, sentences, layout, read_only(model.weights), places, out)
    return out.parts[:count], out.words[:count], out.right[:count], words


def garrote(
    parts: Singles, words: Ints, right: NDArray[np.bool_], count: int, strength: float, start: Floats | None = None
) -> Floats:
    """Return beta for contributions that are scaled to standard deviation 1."""
    from scipy.optimize import minimize

    derivative = np.empty(parts.shape[0], dtype=np.float32)

    def value(beta: Floats) -> tuple[float, Floats]:
        scores = parts @ beta.astype(np.float32)
        loss = head_loss(scores, words, right, count, derivative)
        return loss + strength * float(beta.sum()), (derivative @ parts).astype(np.float64) + strength

    beta = np.zeros(parts.shape[1]) if start is None else start
    bounds = [(0.0, None)] * parts.shape[1]
    found = minimize(value, beta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
    result: Floats = found.x
    return result


def best_templates(model: ArcModel, codes: ArcCodes, gold: Ints, sentences: Ints, wanted: int) -> tuple[Floats, float]:
    """Return (beta of each template, the strength), with at least `wanted` templates above zero if possible."""
    parts, words, right, count = template_contributions(model, codes, gold, sentences)
    spread = parts.std(axis=0)
    parts /= np.maximum(spread, 1e-6)
    derivative = np.empty(parts.shape[0], dtype=np.float32)
    head_loss(np.zeros(parts.shape[0], dtype=np.float32), words, right, count, derivative)
    # At the largest entry of the gradient, all beta are zero; far below it, most still are.
    strength = float(np.max(-(derivative @ parts))) / 500.0
    beta = np.zeros(parts.shape[1])
    for _ in range(4):
        beta = garrote(parts, words, right, count, strength, beta)
        if np.count_nonzero(beta) >= wanted or strength <= 0.0:
            break
        strength *= 0.2
    return beta, max(strength, 0.0)
