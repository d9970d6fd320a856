"""Penalties of chains: which engine runs one with an update and a step (or an error that says so), and its value."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints, check_positive
from spom.errors import Unsupported
from spom.features.rows import Blocks
from spom.penalties.forms import Elastic, Split, compiled_prox
from spom.solvers.steps import AdaGrad, Auto, Constant, LinearDecay, Step, as_step
from spom.solvers.structured.chains.adaptive_engine import AdaptiveEngine, Rates
from spom.solvers.structured.chains.data import Summary, Tokens, entries
from spom.solvers.structured.chains.scaled_engine import BlockEngine
from spom.solvers.structured.chains.scaled_rounds import BlockRule
from spom.solvers.structured.chains.selecting_engine import SelectingEngine
from spom.solvers.structured.chains.sparse.engine import Candidates, PairEngine
from spom.solvers.structured.structures import Loss

Engine = AdaptiveEngine | BlockEngine | SelectingEngine | PairEngine

UPDATES = ("auto", "forward-backward", "dual-averaging", "select")
TRANSITIONS = ("fixed", "learnt", None)
# Chosen on a held-out part of CoNLL-2000; how flat the optimum is was not recorded.
ADAGRAD = AdaGrad(0.5, delta=0.1)
# The same.
FIRST_STEP = 0.1


class Combination(NamedTuple):
    """What a run is asked for: the penalty, how it is applied, by which steps, and what becomes of the chain."""

    penalty: Any
    update: str
    step: Step
    transitions: str | None
    average: bool
    # Of a selection: the metric of the blocks, and how many rounds it lasts.
    metric: Floats | None = None
    selecting: int = 0
    radius: float = np.inf


def on_coordinates(penalty: Any, update: str) -> bool:
    """Whether single weights are updated, each at a rate of its own."""
    return update == "select" or (update == "dual-averaging" and penalty.elastic() is not None)


def chain_step(step: Any, penalty: Any, update: str, loss: str, epochs: int) -> Step:
    """The rule that `step=` stands for: also `"linear"`, and `"auto"` by what was measured on chunking.

    >>> from spom.penalties import L1, SparseMKL
    >>> chain_step("auto", L1(1e-4), "dual-averaging", "crf", epochs=5)
    AdaGrad(eta0=0.5, delta=0.1)
    >>> chain_step("auto", SparseMKL(1.0), "forward-backward", "hinge", epochs=5)
    LinearDecay(epochs=5)
    """
    single = on_coordinates(penalty, update)
    if isinstance(step, str) and step == "linear":
        step = LinearDecay()
    found: Step = ADAGRAD if isinstance(step, str) and step == "adagrad" else as_step(step)
    if isinstance(found, Auto):
        if single or update == "dual-averaging":
            found = ADAGRAD if single else Constant(FIRST_STEP)
        else:
            found = Constant(1.0) if loss == "perceptron" else LinearDecay(FIRST_STEP)
    if isinstance(found, LinearDecay) and found.epochs is None:
        found = LinearDecay(found.eta0, epochs)
    if isinstance(found, AdaGrad) and not single:
        raise Unsupported(
            "AdaGrad on chains takes update='dual-averaging' and a penalty of single weights, such as L1 or ElasticNet"
        )
    if found.mode not in (0, 1) or type(found).__name__ == "Theory":
        raise Unsupported(f"{found!r} is no step for chains: take 'adagrad', 'linear', 'sqrt', 'epoch' or a number")
    return found


def chain_update(update: str, penalty: Any, count: int) -> str:
    """`"auto"`: dual averaging where single weights are to be zero, SPOM's own step for penalties of `count` blocks.

    Penalties of both, and of groups of blocks, take a selection.
    """
    if update not in UPDATES:
        raise Unsupported(f"there is no update {update!r} for chains; the updates are: {', '.join(UPDATES)}")
    grouped = getattr(penalty, "groups", None) is not None
    single, blocks = penalty.elastic() is not None, not grouped and _norms(penalty, count) is not None
    if update == "select" or (update == "auto" and not single and not blocks):
        selection_form(penalty, count)
        return "select"
    if not single and not blocks:
        raise Unsupported(
            f"update={update!r} takes penalties of single weights or of the norms of blocks without groups=; for "
            f"{penalty!r} take update='select'"
        )
    if update == "auto":
        return "dual-averaging" if single else "forward-backward"
    if update == "forward-backward" and not blocks:
        raise Unsupported(f"{penalty!r} needs update='dual-averaging', where single weights become exactly zero")
    return update


def make_engine(blocks: Blocks, forbidden: Floats, asked: Combination) -> Engine:
    """The engine at zero."""
    if asked.transitions not in TRANSITIONS:
        raise Unsupported(f"transitions must be 'fixed', 'learnt' or None; it is {asked.transitions!r}")
    penalty, learnt, on = asked.penalty, asked.transitions == "learnt", asked.transitions is not None
    count, form = len(blocks), selection_form(penalty, len(blocks)) if asked.update == "select" else None
    elastic = form.elastic if form else penalty.elastic() if asked.update == "dual-averaging" else None
    if elastic is not None:
        if asked.average:
            raise Unsupported("dual averaging of single weights has no mean of iterates: it would undo the zeros")
        adaptive, delta = isinstance(asked.step, AdaGrad), 1.0
        if isinstance(asked.step, AdaGrad):
            delta = check_positive(asked.step.delta, "delta", zero=False)
        l1, l2 = elastic
        rates = Rates(l1, l2, l1 if learnt else 0.0, l2, delta, adaptive, on, asked.radius)
        if form is None:
            return AdaptiveEngine(blocks, forbidden, rates)
        metric = np.ones(count) if asked.metric is None else asked.metric
        rule = BlockRule(compiled_prox(form.norms, count), count, metric, 0.0, True, on)
        return SelectingEngine(blocks, forbidden, rule, rates, asked.selecting)
    rule = BlockRule(
        compiled_prox(of_norms(penalty, count, learnt), count + learnt),
        count + learnt,
        np.ones(count + learnt),
        0.0 if learnt else fixed_strength(penalty),
        asked.update == "dual-averaging",
        on,
        asked.radius,
    )
    return BlockEngine(blocks, forbidden, rule, asked.average)


def make_pair_engine(
    data: tuple[Tokens, Ints],
    blocks: Blocks,
    forbidden: Floats,
    asked: Combination,
    candidates: Candidates,
    loss: tuple[str, Loss],
) -> PairEngine:
    """The engine for many labels at zero."""
    step, elastic = asked.step, asked.penalty.elastic()
    if asked.update != "dual-averaging" or elastic is None or not isinstance(step, AdaGrad):
        raise Unsupported("many labels take dual averaging of single weights by AdaGrad: a penalty such as L1, or none")
    if np.isfinite(asked.radius):
        raise Unsupported("many labels are learnt without a projection: leave radius= out")
    if data[1].size and data[1].min() < 0:
        raise Unsupported("with so many labels every token must have one: leave sentences with unknown labels out")
    l1, l2 = elastic
    delta, on = check_positive(step.delta, "delta", zero=False), asked.transitions is not None
    rates = Rates(l1, l2, l1 if asked.transitions == "learnt" else 0.0, l2, delta, True, on)
    engine = PairEngine(data, blocks, forbidden, rates, candidates, loss[0])
    if candidates.confused is not None:
        engine.add_confused(*data, step.eta0, loss[1].cost)
    return engine


def selection_form(penalty: Any, count: int) -> Split:
    """The penalty as a part on single weights and a part on the norms of `count` blocks, or on groups of blocks."""
    every = getattr(penalty, "terms", [penalty])
    given = [term for term in every if getattr(term, "groups", None) is not None]
    forms = [term.elastic() for term in every if not any(term is one for one in given)]
    if len(given) == 1 and None not in forms:
        # First single weights, then groups of blocks: the order of Lemma 2.
        norms = given[0].on_rows(count)
        elastic = Elastic(sum(form.l1 for form in forms), sum(form.l2 for form in forms))
        found: Split | None = None if norms is None else Split(elastic, norms)
    else:
        found = penalty.split(count)
    if found is None:
        raise Unsupported(
            f"update='select' takes a penalty of block norms, of groups of blocks, or a sum of one such and of single "
            f"weights whose order of proxes is exact (Lemma 2 of SPOM); not {penalty!r}"
        )
    # A squared l2 norm beside the norms acts on the weights that are left.
    terms = getattr(found.norms, "terms", [found.norms])
    plain = [term.elastic() for term in terms]
    others = [term for term, form in zip(terms, plain, strict=True) if form is None]
    if len(others) != 1:
        return found
    l2 = found.elastic.l2 + sum(form.l2 for form in plain if form is not None)
    return Split(Elastic(found.elastic.l1, l2), others[0])


def fixed_strength(penalty: Any) -> float:
    """The strength s of s/2 norm2(theta_0)^2, what a chain whose weight is fixed at one pays (section 4.1 of SPOM).

    It is the penalty of one block alone, where that is a square; others leave the chain free, and so do l1 parts.
    """
    elastic, one = penalty.elastic(), _norms(_reweighted(penalty, None), 1)
    if elastic is not None:
        return float(elastic.l2)
    if one is None:
        return 0.0
    at_one, at_two = float(one.value([1.0])), float(one.value([2.0]))
    return 2.0 * at_one if abs(at_two - 4.0 * at_one) <= 1e-12 * at_two else 0.0


def of_norms(penalty: Any, count: int, learnt: bool) -> Any:
    """The penalty as a function of the norms of `count` blocks, and of the chain's where it is learnt.

    Weights of blocks are one for each; a learnt chain has the weight one where none was given for it.
    """
    weights = getattr(penalty, "weights", None)
    if weights is None:
        return penalty.on_norms(count + learnt)
    d = np.asarray(weights, dtype=np.float64)
    if d.shape == (count,) and learnt:
        d = np.append(d, 1.0)
    if d.shape != (count + learnt,):
        raise ValueError(f"weights has shape {d.shape}; there must be one for each of the {count} blocks")
    return _reweighted(penalty, d).on_norms(count + learnt)


def _reweighted(penalty: Any, weights: Any) -> Any:
    """The penalty with other weights of blocks, where it has any."""
    if getattr(penalty, "weights", None) is None:
        return penalty
    return type(penalty)(**{**penalty.get_params(deep=False), "weights": weights})


def _norms(penalty: Any, count: int) -> Any:
    """The form on block norms; weights are looked at when the engine is made."""
    return _reweighted(penalty, None).on_norms(count)


# --- the value of a penalty ------------------------------------------------------------------------------


def block_norms(W: Any, starts: Ints) -> Floats:
    """norm2 of the rows of each block."""
    parts = (entries(W, a, b) for a, b in pairwise(starts.tolist()))
    return np.asarray(np.sqrt([float(np.dot(part, part)) for part in parts]))


def summarised(W: Any, chain: Floats, starts: Ints) -> Summary:
    """Norms of blocks, non-zeros and sizes of weights."""
    norms, every = block_norms(W, starts), entries(W, 0, W.shape[0])
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
