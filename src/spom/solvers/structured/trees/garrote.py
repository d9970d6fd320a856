"""The non-negative garrote for parsers: what each template is worth on sentences that were not learnt from.

min over beta >= 0 of  strength sum_b beta_b + mean over words of -log softmax over heads of sum_b beta_b c_b(arc),

where c_b is what template b adds to the score of an arc, over its standard deviation. A norm is mostly the noise of
gradients, and a template's own score does not see that another says the same; beta does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.data.interning import Codes
from spom.features.arc_spaces import CODES, VECTOR, Shorts
from spom.features.arcs import ArcCodes
from spom.solvers.structured.trees.model import NONE, ArcModel, run
from spom.solvers.structured.trees.scoring import LAYOUT, WEIGHTS, Singles, prepare, score_arcs

# Of each word the gold arc and those that score best are looked at; the others are never chosen.
RIVALS = 6


@kernel("void(float32[::1], int64[::1], boolean[::1], int64, int64, boolean[::1])")
def rivals(scores: Singles, modifiers: Ints, right: Any, count: int, n: int, out: Any) -> None:
    """Mark the gold arc of each word and its RIVALS best ones."""
    best = np.empty(6, dtype=np.float32)
    for m in range(1, n + 1):
        best[:] = -np.inf
        for a in range(count):
            if modifiers[a] == m and scores[a] > best[5]:
                k = 5
                while k > 0 and best[k - 1] < scores[a]:
                    best[k] = best[k - 1]
                    k -= 1
                best[k] = scores[a]
        for a in range(count):
            if modifiers[a] == m:
                out[a] = right[a] or scores[a] >= best[5]


@kernel(
    f"int64({CODES}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}, {LAYOUT}, {WEIGHTS}, {VECTOR}, "
    f"{VECTOR}, float32[:, ::1], int64[::1], boolean[::1])"
)
def contributions(
    codes: Codes,
    kinds: Ints,
    first: Ints,
    sizes: Ints,
    guides: Ints,
    gold: Ints,
    order: Ints,
    ends: Ints,
    atoms: Ints,
    families: Ints,
    sets: Ints,
    column: int,
    upos: int,
    limits: Shorts,
    weights: Singles,
    of_family: Ints,
    of_slot: Ints,
    out: Singles,
    words: Ints,
    right: Any,
) -> int:
    """What each template adds to the arcs of some sentences, (arcs, templates); returns how many arcs there are.

    `words` numbers the modifiers, `right` says which arcs are gold.
    """
    longest = 0
    for t in range(order.size):
        longest = max(longest, sizes[order[t]])
    N, F, B = longest + 1, families.shape[0], of_family.size
    arcs = np.empty((4, N * N), dtype=np.int64)
    heads, modifiers = np.empty((F, N), dtype=np.int64), np.empty((F, N), dtype=np.int64)
    tags, counts = np.empty((sets.size, N, 2, N), dtype=np.int64), np.empty((sets.size, N, N), dtype=np.int64)
    pairs, parts = np.empty((4, N * N), dtype=np.int64), np.empty((B, N * N), dtype=np.float32)
    scales, total = np.zeros((1, 3), dtype=np.float32), np.empty(N * N, dtype=np.float32)
    gold_arc, kept = np.empty(N * N, dtype=np.bool_), np.empty(N * N, dtype=np.bool_)
    done, word = 0, 0
    for t in range(order.size):
        n, at = sizes[order[t]], first[order[t]]
        if n == 0:
            continue
        guide = guides[at : at + n + 1].copy() if guides.size else np.empty(0, dtype=np.int64)
        count = prepare(
            codes, kinds, at, n, guide, ends, atoms, families, sets, column, upos, limits,
            arcs, heads, modifiers, tags, counts, pairs,
        )  # fmt: skip
        total[:count] = 0.0
        for b in range(B):
            f = of_family[b]
            scales[:] = 0.0
            scales[0, of_slot[b]] = 1.0
            score_arcs(
                families[f : f + 1], sets, arcs, heads[f : f + 1], modifiers[f : f + 1], tags, counts, pairs, count,
                n, weights, scales, True, parts[b],
            )  # fmt: skip
            for a in range(count):
                total[a] += parts[b, a]
        for a in range(count):
            gold_arc[a] = gold[at + arcs[1, a]] == arcs[0, a]
        rivals(total, arcs[1], gold_arc, count, n, kept)
        for a in range(count):
            if kept[a] and done < words.size:
                words[done], right[done] = word + arcs[1, a] - 1, gold_arc[a]
                for b in range(B):
                    out[done, b] = parts[b, a]
                done += 1
        word += n
    return done


@kernel("float64(float32[::1], int64[::1], boolean[::1], int64, float32[::1])")
def head_loss(scores: Singles, words: Ints, right: Any, count: int, out: Singles) -> float:
    """The mean of -log P(gold head), P a softmax over the heads of a word, with its derivative in `out`."""
    top, total = np.full(count, -np.inf), np.zeros(count)
    loss, gold = 0.0, np.zeros(count, dtype=np.int64)
    for a in range(scores.size):
        top[words[a]] = max(top[words[a]], scores[a])
        gold[words[a]] += 1 if right[a] else 0
    for a in range(scores.size):
        total[words[a]] += math.exp(scores[a] - top[words[a]])
    for a in range(scores.size):
        w = words[a]
        # A word whose gold head the filter left out teaches nothing.
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
    """(what each template adds to the arcs of some sentences, the word of each arc, which are gold, words)."""
    places = np.array(model.templates.places, dtype=np.int64).reshape(-1, 2)
    words = int(codes.sizes[sentences].sum())
    room = (RIVALS + 1) * words
    out = np.empty((room, places.shape[0]), dtype=np.float32)
    number, right = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.bool_)
    count = run(
        contributions,
        *(codes.codes, codes.kinds, codes.first, codes.sizes, NONE, gold, sentences, *model.arguments()),
        *(model.weights, places[:, 0].copy(), places[:, 1].copy(), out, number, right),
    )
    return out[:count], number[:count], right[:count], words


def garrote(
    parts: Singles, words: Ints, right: NDArray[np.bool_], count: int, strength: float, start: Floats | None = None
) -> Floats:
    """beta for contributions that are scaled to a standard deviation of one."""
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
    """(beta of each template, the strength), with `wanted` templates or more above zero where that can be."""
    parts, words, right, count = template_contributions(model, codes, gold, sentences)
    spread = parts.std(axis=0)
    parts /= np.maximum(spread, 1e-6)
    derivative = np.empty(parts.shape[0], dtype=np.float32)
    head_loss(np.zeros(parts.shape[0], dtype=np.float32), words, right, count, derivative)
    # At the largest entry of the gradient all are zero; far below it, most are still.
    strength = float(np.max(-(derivative @ parts))) / 500.0
    beta = np.zeros(parts.shape[1])
    for _ in range(4):
        beta = garrote(parts, words, right, count, strength, beta)
        if np.count_nonzero(beta) >= wanted or strength <= 0.0:
            break
        strength *= 0.2
    return beta, max(strength, 0.0)
