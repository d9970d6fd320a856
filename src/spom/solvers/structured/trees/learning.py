"""Compiled: rounds of learning. One round is one sentence: scores, expected minus gold arcs, a step, a proximal step.

Weights are theta = scale * w for each template, so a proximal step on block norms only changes the scales.
Averages are lazy: the sum of theta over rounds is S w - u, where S sums the scale and every change d of w adds S d to
u. Before a scale is moved into its weights, u takes the sum so far (u - S w), and S restarts at zero.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, Singles, read_only
from spom.core.jit import kernel
from spom.features.arc_spaces import (
    AT,
    BASE,
    BY_PAIR,
    BY_SET,
    HEAD_OF,
    LENGTHS,
    LIMITS,
    MASK,
    MODIFIER_OF,
    PAIR,
    SET,
    START,
    TABLE,
    VECTOR,
    WIDE,
    Corpus,
    Sentence,
    Shorts,
    longest_sentence,
    sentence_of,
)
from spom.features.arcs import ArcCodes, Layout
from spom.penalties import Zero
from spom.penalties.forms import Prox, compiled_prox
from spom.solvers.structured.structures import MIRA, PERCEPTRON, Loss, Parts, Structure, is_sum, residual, structure
from spom.solvers.structured.trees.scoring import score_arcs, to_matrix
from spom.solvers.structured.trees.space import (
    WEIGHTS,
    Space,
    corpus_of,
    index_of,
    make_space,
    prepare,
)

# Rows of `blocks[kind, family, slot]`: scale, sum of scales, squared norm of theta, and 1 for a template of the set.
# Row 3 is not used: checkpoints have it.
SCALE, SUM, NORM, ACTIVE = 0, 1, 2, 4
# An arc whose expectation is this close to the gold value is not changed.
SMALL = 1e-3
# A scale below this is moved into its weights: single precision would lose them.
LEAST = 1e-6


class Learnt(NamedTuple):
    """The weights w (and a view of them for scoring), the sums u, and the numbers of the blocks."""

    weights: Annotated[Singles, "float32[::1]"]
    fixed: Annotated[Singles, WEIGHTS]
    sums: Annotated[Singles, "float32[::1]"]
    blocks: Annotated[Floats, "float64[:, :, ::1]"]

    @classmethod
    def of(cls, active: NDArray[np.bool_], weights: Singles, sums: Singles) -> Learnt:
        """Return weights with scales of 1; `active` tells which slots of each family are templates."""
        blocks = np.zeros((5, *active.shape))
        blocks[SCALE], blocks[ACTIVE] = 1.0, active
        return cls(weights, read_only(weights), sums, blocks)


class Task(NamedTuple):
    """Sentences, their gold heads, and the limits of scored arcs."""

    corpus: Corpus
    gold: Annotated[Ints, VECTOR]
    limits: Annotated[Shorts, LIMITS]

    @classmethod
    def of(cls, codes: ArcCodes, gold: Ints, limits: Shorts, guides: Ints | None = None) -> Task:
        """Return a task as kernels take it."""
        return cls(corpus_of(codes, guides), read_only(gold), read_only(limits))


class TreeRule(NamedTuple):
    """The trees, the loss, and the prox on the norms of the templates at `places`, applied if `penalised`.

    Each round ends with the projection onto the ball of `radius` (Algorithm 3 of SPOM).
    """

    structure: Structure
    loss: Loss
    prox: Prox
    places: Annotated[Ints, TABLE]
    penalised: Annotated[bool, "boolean"]
    radius: Annotated[float, "float64"]

    @classmethod
    def of(cls, places: Ints, loss: Loss, projective: bool, norms: Any = None, radius: float = np.inf) -> TreeRule:
        """Return the rule for a loss, with a penalty of the templates' norms or None."""
        trees = structure("projective-tree" if projective else "tree", loss)
        prox = compiled_prox(Zero() if norms is None else norms, len(places))
        return cls(trees, loss, prox, read_only(places), norms is not None, radius)


@kernel("void(Layout, Space, int64, float64, Learnt)")
def change_arc(layout: Layout, space: Space, a: int, change: float, to: Learnt) -> None:
    """Add `change` to theta at all features of arc a."""
    families, sets, arcs, pairs = layout.families, layout.sets, space.arcs, space.pairs
    heads, modifiers, tags, counts = space.heads, space.modifiers, space.tags, space.counts
    weights, sums, blocks = to.weights, to.sums, to.blocks
    h, m = arcs[HEAD_OF, a], arcs[MODIFIER_OF, a]
    for f in range(families.shape[0]):
        mask, which, pair = families[f, MASK], families[f, SET], families[f, PAIR]
        row = heads[f, h] + modifiers[f, m]
        if pair >= 0:
            row += pairs[pair, a] * families[f, BY_PAIR]
        k, many = 0, 1
        if which >= 0:
            k = index_of(sets, which)
            many = counts[k, h, m]
        side = 0 if h < m else 1
        for t in range(many):
            at = row + tags[k, h, side, t] * families[f, BY_SET] if which >= 0 else row
            i = families[f, START] + (at & mask) * families[f, WIDE]
            for slot in range(3):
                if families[f, AT + slot] < 0:
                    continue
                j = i + families[f, AT + slot] + (0 if slot == 0 else arcs[1 + slot, a])
                scale = blocks[SCALE, f, slot]
                old, step = np.float64(weights[j]) * scale, change / scale
                blocks[NORM, f, slot] += change * (2.0 * old + change)
                weights[j] += np.float32(step)
                sums[j] += np.float32(step * blocks[SUM, f, slot])


@kernel("int64(Layout, Space, int64)")
def features_of(layout: Layout, space: Space, a: int) -> int:
    """Return the number of features of arc a: one per template, and one per tag for templates of words between."""
    found, families, arcs = 0, layout.families, space.arcs
    for f in range(families.shape[0]):
        slots = 0
        for slot in range(3):
            slots += families[f, AT + slot] >= 0
        if families[f, SET] >= 0:
            slots *= space.counts[index_of(layout.sets, families[f, SET]), arcs[HEAD_OF, a], arcs[MODIFIER_OF, a]]
        found += slots
    return int(found)


@kernel("void(Layout, int64, int64, Learnt)")
def fold(layout: Layout, f: int, slot: int, to: Learnt) -> None:
    """Move a template's scale into its weights and its running sum into `sums`, and recompute its norm."""
    families, weights, sums, blocks = layout.families, to.weights, to.sums, to.blocks
    scale, sum_, norm = blocks[SCALE, f, slot], blocks[SUM, f, slot], 0.0
    end = families[f + 1, BASE] if f + 1 < families.shape[0] else layout.rows
    for row in range(end - families[f, BASE]):
        begin = families[f, START] + row * families[f, WIDE] + families[f, AT + slot]
        for j in range(begin, begin + LENGTHS[slot]):
            w = np.float64(weights[j])
            if w != 0.0:
                sums[j] -= np.float32(sum_ * w)
                weights[j] = np.float32(scale * w)
                norm += (scale * w) ** 2
    blocks[SCALE, f, slot], blocks[SUM, f, slot], blocks[NORM, f, slot] = 1.0, 0.0, norm


@kernel("void(Layout, float64, TreeRule, Learnt)")
def proximal_step(layout: Layout, step: float, rule: TreeRule, to: Learnt) -> None:
    """Apply the prox of the penalty to the block norms, and scale each template to its new norm."""
    blocks, places, count = to.blocks, rule.places, rule.places.shape[0]
    norms, after = np.empty(count), np.empty(count)
    for b in range(count):
        norms[b] = math.sqrt(max(blocks[NORM, places[b, 0], places[b, 1]], 0.0))
    rule.prox.function(norms, step, rule.prox.reals, rule.prox.ints, after)
    for b in range(count):
        f, slot = places[b, 0], places[b, 1]
        if norms[b] == 0.0 or after[b] == norms[b]:
            continue
        ratio = after[b] / norms[b]
        blocks[SCALE, f, slot] *= ratio
        blocks[NORM, f, slot] *= ratio * ratio
        if blocks[SCALE, f, slot] < LEAST:
            fold(layout, f, slot, to)


@kernel("void(Layout, TreeRule, Learnt)")
def into_ball(layout: Layout, rule: TreeRule, to: Learnt) -> None:
    """theta <- min(1, radius / norm(theta)) theta: the norm follows from those of the templates."""
    blocks, places, square = to.blocks, rule.places, 0.0
    for b in range(places.shape[0]):
        square += max(blocks[NORM, places[b, 0], places[b, 1]], 0.0)
    if square <= rule.radius * rule.radius:
        return
    ratio = rule.radius / math.sqrt(square)
    for b in range(places.shape[0]):
        f, slot = places[b, 0], places[b, 1]
        blocks[SCALE, f, slot] *= ratio
        blocks[NORM, f, slot] *= ratio * ratio
        if blocks[SCALE, f, slot] < LEAST:
            fold(layout, f, slot, to)


@kernel("int64(Sentence, Layout, Task, Space, Learnt, Parts)")
def score_sentence(sentence: Sentence, layout: Layout, task: Task, space: Space, to: Learnt, out: Parts) -> int:
    """Compute the scores of all arcs as a matrix; return the number of arcs."""
    blocks, F = to.blocks, layout.families.shape[0]
    count = prepare(sentence, layout, task.limits, space)
    scores, scales = np.empty(count, dtype=np.float32), np.empty((F, 3), dtype=np.float32)
    for f in range(F):
        for slot in range(3):
            scales[f, slot] = blocks[SCALE, f, slot] * blocks[ACTIVE, f, slot]
    score_arcs(layout, space, count, sentence.n, to.fixed, scales, scores)
    to_matrix(space.arcs, count, scores, out.unary)
    return count


@kernel("Tuple((float64, int64))(Sentence, Layout, Task, TreeRule, Space, Learnt, Parts, Parts)", inline="always")
def sentence_residual(
    sentence: Sentence,
    layout: Layout,
    task: Task,
    rule: TreeRule,
    space: Space,
    to: Learnt,
    scores: Parts,
    change: Parts,
) -> tuple[float, int]:
    """Return the loss of a sentence that has words and its number of arcs; `change` gets the derivative."""
    count = score_sentence(sentence, layout, task, space, to, scores)
    gold = task.gold[sentence.first : sentence.first + sentence.n + 1].copy()
    return residual(rule.structure, rule.loss, scores, gold, scores.shared.reshape(-1), change), count


@kernel("float64(Layout, Space, int64, float64, float64, Loss, Parts)")
def step_size(layout: Layout, space: Space, count: int, most: float, value: float, loss: Loss, change: Parts) -> float:
    """Return `most`, for MIRA at most loss / norm(gradient)^2; 0 if nothing is to be learnt."""
    if is_sum(loss.code):
        return most
    features = 0
    for a in range(count):
        if change.unary[space.arcs[HEAD_OF, a], space.arcs[MODIFIER_OF, a]] != 0.0:
            features += features_of(layout, space, a)
    # A perceptron also moves at ties: at zero weights all scores are tied.
    if features == 0 or not (value > 0.0 or loss.code == PERCEPTRON):
        return 0.0
    return min(most, value / features) if loss.code == MIRA else most


@kernel("void(Layout, Space, int64, float64, Parts, Learnt)")
def change_arcs(layout: Layout, space: Space, count: int, step: float, change: Parts, to: Learnt) -> None:
    """theta -= step * (expected - gold), one arc at a time."""
    for a in range(count):
        d = change.unary[space.arcs[HEAD_OF, a], space.arcs[MODIFIER_OF, a]]
        if abs(d) > SMALL:
            change_arc(layout, space, a, -step * d, to)


@kernel("float64(Task, int64[::1], float64[::1], Layout, TreeRule, Learnt)")
def learn(task: Task, order: Ints, steps: Floats, layout: Layout, rule: TreeRule, to: Learnt) -> float:
    """Run one round per sentence of `order`, with its step (for MIRA the largest step); return the sum of losses."""
    F = layout.families.shape[0]
    space = make_space(longest_sentence(task.corpus, order), F, layout.sets.size)
    total, nothing = 0.0, np.empty((0, 0))
    for t in range(order.size):
        sentence = sentence_of(task.corpus, order[t])
        if sentence.n == 0:
            continue
        shape = (sentence.n + 1, sentence.n + 1)
        scores, change = Parts(np.empty(shape), nothing), Parts(np.empty(shape), nothing)
        value, count = sentence_residual(sentence, layout, task, rule, space, to, scores, change)
        step = step_size(layout, space, count, steps[t], value, rule.loss, change)
        if step > 0.0:
            total += value
            change_arcs(layout, space, count, step, change, to)
        if rule.penalised:
            proximal_step(layout, steps[t], rule, to)
        if rule.radius < np.inf:
            into_ball(layout, rule, to)
        for f in range(F):
            for slot in range(3):
                to.blocks[SUM, f, slot] += to.blocks[SCALE, f, slot]
    return total
