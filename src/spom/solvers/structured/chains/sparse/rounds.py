r"""Rounds of dual averaging with AdaGrad's rates on the pairs of features and labels that were seen together.

    theta_j = -eta soft(G_j, l1 t) / (S_j + eta l2 t),   S_j = delta + sqrt(sum of g_sj^2)

as in `adaptive_engine`. Expectations are taken over the labels of each token that score within `reach` of its best
one, at most `width` of them, and the gold label. Before the influence of neighbours, any other label is less likely
than exp(-reach), and gets no gradient.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, Singles
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Ids, Tokens
from spom.solvers.structured.chains.sentence import longest_of
from spom.solvers.structured.chains.sparse.pairs import Pairs, fetch
from spom.solvers.structured.chains.sparse.parts import Parts, add_parts, unshared

# Weights of a feature with all labels are adapted to the growing penalties once in this many rounds.
PERIOD = 64


class Table(NamedTuple):
    """Sums of gradients and rates: of the pairs, and of steps, beginnings and ends ((labels + 2) x labels).

    `forbidden` has -inf for forbidden steps, else 0; it has no rows if there are none. A feature j with
    all labels has its weights in `values` if periods[j] is the current period: see `pair_scores`.
    """

    pairs: Pairs
    sums: Annotated[Singles, "float32[::1]"]
    rates: Annotated[Singles, "float32[::1]"]
    chain_sums: Annotated[Singles, "float32[:, ::1]"]
    chain_rates: Annotated[Singles, "float32[:, ::1]"]
    forbidden: Annotated[Singles, "float32[:, ::1]"]
    values: Annotated[Singles, "float32[::1]"]
    periods: Annotated[Ints, "int64[::1]"]


class Rule(NamedTuple):
    """Parameters of a run: strengths of features and of steps, step, delta, margin, the probability above which a token
    is skipped, candidates, and whether steps are learnt. A wrong label has the margin once, and half of it for each
    part that only it or the right one has."""

    l1: Annotated[np.float32, "float32"]
    l2: Annotated[np.float32, "float32"]
    chain_l1: Annotated[np.float32, "float32"]
    chain_l2: Annotated[np.float32, "float32"]
    eta: Annotated[np.float32, "float32"]
    delta: Annotated[np.float32, "float32"]
    cost: Annotated[float, "float64"]
    skip: Annotated[float, "float64"]
    reach: Annotated[np.float32, "float32"]
    width: Annotated[int, "int64"]
    learn_chain: Annotated[bool, "boolean"]


class Lattice(NamedTuple):
    """The candidates of each token of a sentence, `counts[t]` of them, with their scores and probabilities.

    weight[0] is the weight of the sentence; `active` is memory for the candidates of a token and their parts, `known`
    says which parts are among them.
    """

    labels: Annotated[Ints, "int64[:, ::1]"]
    counts: Annotated[Ints, "int64[::1]"]
    scores: Annotated[Floats, "float64[:, ::1]"]
    nodes: Annotated[Floats, "float64[:, ::1]"]
    back: Annotated[Floats, "float64[:, ::1]"]
    steps: Annotated[Floats, "float64[:, :, ::1]"]
    gold: Annotated[Ints, "int64[::1]"]
    weight: Annotated[Floats, "float64[::1]"]
    active: Annotated[Ints, "int64[::1]"]
    known: Annotated[Any, "boolean[::1]"]


@kernel("void(float32[::1], float32[::1], float32, float32, float32, float32[::1])")
def final_weights(
    sums: Singles, rates: Singles, cut: np.float32, shift: np.float32, eta: np.float32, out: Singles
) -> None:
    """-eta soft(G, cut) / (S + shift)."""
    zero = np.float32(0.0)
    for p in range(out.size):
        g = sums[p]
        out[p] = -eta * (max(g - cut, zero) + min(g + cut, zero)) / (rates[p] + shift)


@kernel("UniTuple(float32, 2)(Rule, int64)")
def penalties(rule: Rule, done: int) -> Any:
    """Return l1 t and eta l2 t for features after `done` rounds."""
    return rule.l1 * np.float32(done), rule.eta * rule.l2 * np.float32(done)


@kernel("void(Tokens, int64, Table, Rule, int64, float32[::1])")
def pair_scores(rows: Tokens, t: int, table: Table, rule: Rule, done: int, out: Singles) -> None:
    """out[label] = sum of its weights with the features of token t, after `done` rounds.

    A feature with all labels has stored weights, which are adapted to the growing penalties once per period.
    """
    out[:] = np.float32(0.0)
    starts, labels, values, zero = table.pairs.starts, table.pairs.labels, table.values, np.float32(0.0)
    period, (cut, shift) = done // PERIOD, penalties(rule, done)
    fetch(rows, t, table.pairs, table.sums)
    for e in range(rows.indptr[t], rows.indptr[t + 1]):
        j = rows.indices[e]
        x = np.float32(rows.values[e]) if rows.values.size else np.float32(1.0)
        first, end = starts[j], starts[j + 1]
        if end - first == table.pairs.parts.total:
            own = values[first:end]
            if table.periods[j] != period:
                table.periods[j], (start, moved) = period, penalties(rule, period * PERIOD)
                final_weights(table.sums[first:end], table.rates[first:end], start, moved, rule.eta, own)
            for b in range(own.size):
                out[b] += x * own[b]
        else:
            for p in range(first, end):
                g = table.sums[p]
                w = (max(g - cut, zero) + min(g + cut, zero)) / (table.rates[p] + shift)
                out[labels[p]] -= x * rule.eta * w
    add_parts(table.pairs.parts, out)


@kernel("int64(float32[::1], int64, float32, int64, int64[::1], float64[::1])")
def candidates(scores: Singles, gold: int, reach: np.float32, width: int, labels: Ints, out: Floats) -> int:
    """Find the labels within `reach` of the best, at most about `width`, and the gold one (-1: none), in order."""
    best = scores[0]
    for a in range(scores.size):
        best = max(best, scores[a])
    low, count = best - reach, 0
    for a in range(scores.size):
        count += scores[a] >= low
    while count > width:
        # Halve the distance until few enough remain; equal scores are cut off after `width` of them.
        reach *= np.float32(0.5)
        low, count = best - reach, 0
        for a in range(scores.size):
            count += scores[a] >= low
        if reach < np.float32(1e-3):
            break
    found = 0
    for a in range(scores.size):
        if a == gold or (scores[a] >= low and found < width):
            labels[found], out[found] = a, scores[a]
            found += 1
    return found


@kernel("float64(Table, Rule, float32, int64, int64)")
def step_weight(table: Table, rule: Rule, rounds: np.float32, a: int, b: int) -> float:
    """Return the weight of a step, a beginning or an end; -inf if it is forbidden."""
    if table.forbidden.shape[0] and table.forbidden[a, b] < 0.0:
        return -np.inf
    zero, g, cut, shift = np.float32(0.0), table.chain_sums[a, b], rule.chain_l1 * rounds, rule.chain_l2 * rounds
    size = max(g - cut, zero) + min(g + cut, zero)
    return float(-rule.eta * size / (table.chain_rates[a, b] + rule.eta * shift))


@kernel("float64(Lattice, int64)")
def expectations(lattice: Lattice, n: int) -> float:
    """Return the log partition; write probabilities of candidates to `nodes`, of steps to steps[t] (from t - 1 to t).

    On entry `steps` has the scores of steps; scores of beginnings and ends are in `scores`.
    """
    total = 0.0
    for t in range(n):
        count, top = lattice.counts[t], -np.inf
        for b in range(count):
            top = max(top, lattice.scores[t, b])
        norm = 0.0
        for b in range(count):
            into = 1.0
            if t > 0:
                into = 0.0
                for a in range(lattice.counts[t - 1]):
                    lattice.steps[t, a, b] = math.exp(lattice.steps[t, a, b])
                    into += lattice.nodes[t - 1, a] * lattice.steps[t, a, b]
            lattice.back[t, b] = math.exp(lattice.scores[t, b] - top)
            lattice.nodes[t, b] = into * lattice.back[t, b]
            norm += lattice.nodes[t, b]
        # The gold path is always allowed: a norm of zero is an underflow.
        norm = max(norm, 1e-300)
        for b in range(count):
            lattice.nodes[t, b] /= norm
            lattice.back[t, b] /= norm
        total += math.log(norm) + top
    # back[t, b] has exp(score) / norm until the backward sums replace it.
    after = np.ones(lattice.nodes.shape[1])
    here = np.empty(lattice.nodes.shape[1])
    for t in range(n - 1, 0, -1):
        for a in range(lattice.counts[t - 1]):
            here[a] = 0.0
            for b in range(lattice.counts[t]):
                lattice.steps[t, a, b] *= lattice.back[t, b] * after[b]
                here[a] += lattice.steps[t, a, b]
                lattice.steps[t, a, b] *= lattice.nodes[t - 1, a]
        for b in range(lattice.counts[t]):
            lattice.nodes[t, b] *= after[b]
        for a in range(lattice.counts[t - 1]):
            after[a] = here[a]
    for b in range(lattice.counts[0]):
        lattice.nodes[0, b] *= after[b]
    return total


@kernel("float64(Tokens, int64, int64[::1], Table, Rule, int64, float32[::1], Lattice)")
def fill_lattice(
    rows: Tokens, first: int, y: Ints, table: Table, rule: Rule, done: int, scores: Singles, lattice: Lattice
) -> float:
    """Fill in candidates and scores of candidates and steps; return the score of the gold labels without a margin."""
    n, k, rounds = y.size, table.chain_sums.shape[1], np.float32(done)
    gold = 0.0
    for t in range(n):
        pair_scores(rows, first + t, table, rule, done, scores)
        labels, values = lattice.labels[t], lattice.scores[t]
        count = candidates(scores[:k], y[t], rule.reach, rule.width, labels, values)
        lattice.counts[t] = count
        for b in range(count):
            if t == 0:
                values[b] += step_weight(table, rule, rounds, k, labels[b])
            if t == n - 1:
                values[b] += step_weight(table, rule, rounds, k + 1, labels[b])
            if labels[b] == y[t]:
                lattice.gold[t] = b
                gold += values[b]
            else:
                values[b] += rule.cost * (1.0 + 0.5 * unshared(table.pairs.parts, labels[b], y[t]))
            if t > 0:
                for a in range(lattice.counts[t - 1]):
                    lattice.steps[t, a, b] = step_weight(table, rule, rounds, lattice.labels[t - 1, a], labels[b])
        if t > 0:
            gold += lattice.steps[t, lattice.gold[t - 1], lattice.gold[t]]
    return gold


@kernel("void(Table, Rule, int64, float32)")
def collect_pair(table: Table, rule: Rule, p: int, g: np.float32) -> None:
    """Add a gradient to a pair."""
    table.sums[p] += g
    s = table.rates[p] - rule.delta
    table.rates[p] = rule.delta + np.float32(math.sqrt(s * s + g * g))


@kernel("int64(Pairs, Lattice, int64, float32[::1])")
def find_slopes(pairs: Pairs, lattice: Lattice, t: int, slope: Singles) -> int:
    """Write the gradients of a token's candidates and parts to `slope`, which was zero; lattice.active lists these."""
    count, parts = 0, pairs.parts.rows
    for b in range(lattice.counts[t]):
        label = lattice.labels[t, b]
        here = np.float32(lattice.weight[0] * (lattice.nodes[t, b] - (1.0 if b == lattice.gold[t] else 0.0)))
        if here == np.float32(0.0):
            continue
        slope[label], lattice.active[count] = here, label
        count += 1
        for i in range(parts.shape[1]):
            part = parts[label, i]
            if part < 0:
                break
            if not lattice.known[part]:
                lattice.active[count], lattice.known[part] = part, True
                count += 1
            slope[part] += here
    return count


@kernel("void(Tokens, int64, Table, Rule, Lattice, int64, int64, float32[::1])")
def collect_token(
    rows: Tokens, first: int, table: Table, rule: Rule, lattice: Lattice, t: int, done: int, slope: Singles
) -> None:
    """Add the gradient of a token to the pairs of its features; `slope` is zero before and after."""
    starts, labels, zero = table.pairs.starts, table.pairs.labels, np.float32(0.0)
    cut, shift = penalties(rule, done // PERIOD * PERIOD)
    count = find_slopes(table.pairs, lattice, t, slope)
    for e in range(rows.indptr[first + t], rows.indptr[first + t + 1]):
        j = rows.indices[e]
        x = np.float32(rows.values[e]) if rows.values.size else np.float32(1.0)
        if starts[j + 1] - starts[j] == slope.size:
            for i in range(count):
                p = starts[j] + lattice.active[i]
                collect_pair(table, rule, p, x * slope[lattice.active[i]])
                g = table.sums[p]
                table.values[p] = -rule.eta * (max(g - cut, zero) + min(g + cut, zero)) / (table.rates[p] + shift)
        else:
            for p in range(starts[j], starts[j + 1]):
                g = x * slope[labels[p]]
                if g != np.float32(0.0):
                    collect_pair(table, rule, p, g)
    for i in range(count):
        slope[lattice.active[i]], lattice.known[lattice.active[i]] = np.float32(0.0), False


@kernel("void(Table, Rule, int64, int64, float64)")
def collect_step(table: Table, rule: Rule, a: int, b: int, slope: float) -> None:
    """Add a gradient to a step, a beginning or an end."""
    g = np.float32(slope)
    table.chain_sums[a, b] += g
    s = table.chain_rates[a, b] - rule.delta
    table.chain_rates[a, b] = rule.delta + np.float32(math.sqrt(s * s + g * g))


@kernel("void(Table, Rule, Lattice, int64, int64)")
def collect_chain(table: Table, rule: Rule, lattice: Lattice, n: int, k: int) -> None:
    """Add the gradients of all steps, of the beginning and of the end of a sentence."""
    weight = lattice.weight[0]
    for t in range(n):
        for b in range(lattice.counts[t]):
            label = lattice.labels[t, b]
            right = b == lattice.gold[t]
            slope = weight * (lattice.nodes[t, b] - (1.0 if right else 0.0))
            if t == 0:
                collect_step(table, rule, k, label, slope)
            if t == n - 1:
                collect_step(table, rule, k + 1, label, slope)
            for a in range(lattice.counts[t - 1] if t > 0 else 0):
                both = right and a == lattice.gold[t - 1]
                g = lattice.steps[t, a, b] - (1.0 if both else 0.0)
                if abs(g) > 1e-4:
                    collect_step(table, rule, lattice.labels[t - 1, a], label, weight * g)


@kernel("Lattice(int64, int64, Parts)")
def make_lattice(longest: int, width: int, parts: Parts) -> Any:
    """Allocate memory for sentences of up to `longest` tokens, each with up to `width` candidates."""
    return Lattice(
        np.empty((longest, width), dtype=np.int64),
        np.empty(longest, dtype=np.int64),
        np.empty((longest, width)),
        np.empty((longest, width)),
        np.empty((longest, width)),
        np.empty((longest, width, width)),
        np.empty(longest, dtype=np.int64),
        np.ones(1),
        np.empty(width * (1 + parts.rows.shape[1]), dtype=np.int64),
        np.zeros(parts.total, dtype=np.bool_),
    )


@kernel("UniTuple(float64, 2)(Tokens, int64[::1], int64[::1], float64[::1], Table, Rule, int64)")
def sparse_rounds(
    rows: Tokens, y: Ints, order: Ints, weight: Floats, table: Table, rule: Rule, done: int
) -> tuple[float, float]:
    """Run one round per sentence in `order`; return the sum of losses and the number of tokens with an update.

    `weight` has a weight per sentence, and is empty if all are 1.
    """
    k, width, longest = table.chain_sums.shape[1], rule.width + 1, max(1, longest_of(rows, order))
    parts = table.pairs.parts
    lattice, slope = make_lattice(longest, width, parts), np.zeros(parts.total, dtype=np.float32)
    scores = np.empty(parts.total + parts.sums.shape[0], dtype=np.float32)
    total, touched = 0.0, 0.0
    for r in range(order.size):
        first, n = rows.offsets[order[r]], rows.offsets[order[r] + 1] - rows.offsets[order[r]]
        if n == 0:
            continue
        if weight.size:
            lattice.weight[0] = weight[order[r]]
        gold = fill_lattice(rows, first, y[first : first + n], table, rule, done + r, scores, lattice)
        total += lattice.weight[0] * max(0.0, expectations(lattice, n) - gold)
        active = 0
        for t in range(n):
            if lattice.nodes[t, lattice.gold[t]] <= rule.skip:
                collect_token(rows, first, table, rule, lattice, t, done + r, slope)
                active += 1
        if active > 0 and rule.learn_chain:
            collect_chain(table, rule, lattice, n, k)
        touched += active
    return total, touched


@kernel("int64(Tokens, int64[::1], Table, Rule, int64, float64, int32[:, ::1])")
def find_confused(rows: Tokens, y: Ints, table: Table, rule: Rule, done: int, least: float, out: Ids) -> int:
    """Write (token, wrong label) with a probability of `least` or more to rows of `out`; return their number."""
    every = np.arange(rows.offsets.size - 1)
    longest, count = max(1, longest_of(rows, every)), 0
    parts = table.pairs.parts
    lattice = make_lattice(longest, rule.width + 1, parts)
    scores = np.empty(parts.total + parts.sums.shape[0], dtype=np.float32)
    for i in every:
        first, n = rows.offsets[i], rows.offsets[i + 1] - rows.offsets[i]
        if n == 0:
            continue
        fill_lattice(rows, first, y[first : first + n], table, rule, done, scores, lattice)
        expectations(lattice, n)
        for t in range(n):
            for b in range(lattice.counts[t]):
                if b != lattice.gold[t] and lattice.nodes[t, b] >= least and count < out.shape[0]:
                    out[count, 0], out[count, 1] = first + t, lattice.labels[t, b]
                    count += 1
    return count
