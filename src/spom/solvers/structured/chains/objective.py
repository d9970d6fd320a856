"""What a learner of chains minimises, at any weights: the loss of sentences, and the penalty of blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.structured.chains.data import Singles, Summary, Tokens, entries
from spom.solvers.structured.chains.dispatch import fixed_strength, of_norms, selection_form
from spom.solvers.structured.chains.scores import plain_scores
from spom.solvers.structured.chains.sentence import Rounds, longest_of, make_work, sentence_gradient
from spom.solvers.structured.losses import LOG, Loss
from spom.solvers.structured.structures import structure


@kernel("void(Rounds, float32[:, ::1], float64[:, ::1], float64[:, ::1])")
def sentence_losses(rounds: Rounds, table: Singles, chain: Floats, out: Floats) -> None:
    """The loss of each sentence of the order, and the squared norm of its gradient in the scores of its tokens."""
    offsets, k, lanes = rounds.tokens.offsets, chain.shape[1], table.shape[1]
    work = make_work(longest_of(rounds.tokens, rounds.order), k, lanes)
    work.chain[:] = chain
    for r in range(rounds.order.size):
        first, n = offsets[rounds.order[r]], offsets[rounds.order[r] + 1] - offsets[rounds.order[r]]
        out[r, 0] = out[r, 1] = 0.0
        if n > 0:
            plain_scores(rounds.tokens, first, table, work.acc, work.unary[:n])
            out[r, 0], _ = sentence_gradient(rounds, work, rounds.order[r], first, n)
            for t in range(n):
                if work.active[t]:
                    for a in range(k):
                        out[r, 1] += work.grad[t, a] * work.grad[t, a]


def kind_of(y: Ints) -> str:
    """The kind of structure for these gold labels, of which -1 is an unknown one."""
    return "partial-chain" if y.size and y.min() < 0 else "quick-chain"


def losses(tokens: Tokens, y: Ints, order: Ints, weights: tuple[Singles, Floats], loss: Loss) -> Floats:
    """(sentences, 2): the loss, and norm(expected - gold)^2 over tokens: that of a block without repetitions."""
    out = np.empty((order.size, 2))
    rounds = Rounds(tokens, y, order, np.empty(0), structure(kind_of(y), loss), loss, 1.0, 0)
    sentence_losses(rounds, *weights, out)
    return out


def total_loss(tokens: Tokens, y: Ints, W: Singles, chain: Floats, loss: Loss) -> float:
    """The sum of the losses of sentences at weights W (features x padded labels) and `chain` (k + 2, k)."""
    return float(losses(tokens, y, np.arange(len(tokens)), (W, chain), loss)[:, 0].sum())


def gradient_noise(tokens: Tokens, y: Ints, some: Ints, weights: tuple[Singles, Floats]) -> float:
    """The rms norm of a sentence's gradient under the log loss: the scale of what a selection has to tell apart."""
    squares = losses(tokens, y, some, weights, Loss(LOG, 0.0))[:, 1]
    return float(np.sqrt(squares.mean())) if some.size else 1.0


def summarised(W: Any, chain: Floats, starts: Ints) -> Summary:
    """Norms of blocks, non-zeros and sizes of weights."""
    parts = (entries(W, a, b) for a, b in pairwise(starts.tolist()))
    norms, every = np.asarray(np.sqrt([float(np.vdot(part, part)) for part in parts])), entries(W, 0, W.shape[0])
    return Summary(norms, int(np.count_nonzero(every)), float(np.abs(every).sum(dtype=np.float64)), chain)


def penalty_value(penalty: Any, found: Summary, transitions: str | None) -> float:
    """Omega(theta): of single weights, or of the norms of blocks; the chain pays as `transitions` says."""
    norms, chain = found.norms, found.chain
    own = float(np.vdot(chain, chain))
    elastic, learnt = penalty.elastic(), transitions == "learnt"
    if elastic is None and (getattr(penalty, "groups", None) is not None or penalty.on_norms(norms.size) is None):
        # Two parts, on single weights and on blocks; the chain pays neither.
        form = selection_form(penalty, norms.size)
        sizes = form.elastic.l1 * found.sizes if form.elastic.l1 > 0.0 else 0.0
        return float(sizes + 0.5 * form.elastic.l2 * float(norms @ norms)) + float(form.norms.value(norms))
    if elastic is not None:
        chain_l1 = elastic.l1 * float(np.abs(chain).sum()) if learnt else 0.0
        sizes = elastic.l1 * found.sizes if elastic.l1 > 0.0 else 0.0
        return float(sizes + chain_l1 + 0.5 * elastic.l2 * (float(norms @ norms) + own))
    extra = 0.0 if learnt else 0.5 * fixed_strength(penalty) * own
    every = np.append(norms, np.sqrt(own)) if learnt else norms
    return float(of_norms(penalty, norms.size, learnt).value(every)) + extra
