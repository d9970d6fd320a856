"""Learning chains one sentence at a time, as an iterator of states, by the engine for the penalty and update."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints, Singles, check_positive, check_radius, check_restored, restore_random, under
from spom.core.registry import make, register
from spom.core.state import Counters, State
from spom.decoders.schemes import Constraints
from spom.errors import DataError, Diverged, Unsupported
from spom.penalties import Zero
from spom.penalties.forms import (
    NO_ELASTIC,
    Elastic,
    chain_joins,
    compiled_prox,
    fixed_strength,
    of_norms,
    runs_on_norms,
    selection_form,
    selection_form_of,
)
from spom.solvers import examples
from spom.solvers.steps import DIAGONAL, PLAIN, AdaGrad, Auto, Constant, InverseSqrt, LinearDecay, Step, Theory, as_step
from spom.solvers.structured.chains.adaptive_engine import AdaptiveEngine, Rates
from spom.solvers.structured.chains.data import (
    Summary,
    as_blocks,
    as_tokens,
    block_weights,
    check_gold,
    check_sentence_weights,
    entries,
)
from spom.solvers.structured.chains.scaled_engine import BlockEngine
from spom.solvers.structured.chains.scaled_rounds import BlockRule
from spom.solvers.structured.chains.selecting_engine import SelectingEngine
from spom.solvers.structured.chains.sentence import Rounds, losses
from spom.solvers.structured.chains.sparse.engine import NO_STRUCTURE, Candidates, PairEngine
from spom.solvers.structured.structures import Loss, agrees, block_norms, chain_kind, loss_code, structure

LOSSES = ("hinge", "perceptron", "log", "softmax-margin")
UPDATES = ("auto", "forward-backward", "dual-averaging", "select")
TRANSITIONS = ("fixed", "learnt", None)
# Chosen on a held-out part of CoNLL-2000; it was not recorded how flat the optimum is.
ADAGRAD = AdaGrad(0.5, delta=0.1)
# Chosen in the same way.
FIRST_STEP = 0.1

Engine = AdaptiveEngine | BlockEngine | SelectingEngine | PairEngine


@dataclass(frozen=True)
class Epoch:
    """A pass over the sentences: its number, the mean loss met, the share of tokens with an update."""

    epoch: int
    loss: float
    touched: float
    step: float
    seconds: float


def forbidden_scores(constraints: Constraints | None, k: int) -> Floats:
    """Return a (k + 2, k) array: -inf for steps, beginnings and ends that are not allowed, else 0."""
    out = np.zeros((k + 2, k))
    if constraints is not None:
        allowed = np.vstack([constraints.transition, constraints.begin[None], constraints.end[None]])
        if allowed.shape != out.shape:
            raise ValueError(f"constraints are for {allowed.shape[1]} labels, there are {k}")
        out[~allowed] = -np.inf
    return out


def broken_tokens(forbidden: Floats, y: Ints, offsets: Ints) -> Ints:
    """Return the tokens whose labels break a rule by a forbidden step to the next token, beginning or end.

    If some labels are unknown, return the first tokens of the sentences whose known labels are not allowed.
    """
    some = np.flatnonzero(np.diff(offsets) > 0)
    first, last, k = offsets[some], offsets[some + 1] - 1, forbidden.shape[1]
    if y.size and y.min() < 0:
        spans = zip(first.tolist(), last.tolist(), strict=True)
        return np.array([a for a, b in spans if not agrees(forbidden, y[a : b + 1])], dtype=np.int64)
    bad = np.zeros(y.size, dtype=bool)
    bad[:-1] = forbidden[y[:-1], y[1:]] < 0
    bad[last] = forbidden[k + 1, y[last]] < 0
    bad[first] |= forbidden[k, y[first]] < 0
    return np.flatnonzero(bad)


@register(
    "solver",
    "online-chain",
    examples=lambda: [OnlineChain(*examples.two_sentences(), epochs=3, random_state=0)],
    cost="O(non-zeros + labels^2) per token",
)
class OnlineChain:
    r"""min over theta of Omega(theta) + (1/N) sum_i L(theta; x_i, y_i) over label sequences, one sentence at a time.

    Theta is a weight for each feature and label, and the block of the chain: a score for each pair of neighbouring
    labels, first label and last label. Iterating yields a `State` after each pass; `theta` is the weights of features
    (features x labels, row by row), then those of the chain ((labels + 2) x labels). Iterating copies the tables at
    each state; `passes` does not.

    Parameters
    ----------
    rows : `spom.features.Rows`, or anything with `indptr`, `indices`, `values` and `offsets`.
    y : the number of the label of each token, of all sentences in sequence; -1 if it is unknown (see
        `spom.solvers.structured.structures`).
    weight : a weight for the loss of each sentence; they are scaled to mean 1.
    labels : the number of labels.
    blocks : anything with `starts`: block m has the features starts[m] .. starts[m + 1] - 1. One block by default.
    loss : `"log"` (a conditional random field), `"hinge"`, `"perceptron"`, `"softmax-margin"`.
    penalty : `L1`, `ElasticNet`, `SquaredL2`, `Zero` on single weights; `SparseMKL`, `GroupLasso`, `LqMKL`,
        `ElasticNetMKL`, without groups, on the norms of blocks. None is no penalty.
    update : `"forward-backward"` (SPOM), `"dual-averaging"`, `"select"` (one pass of group dual averaging switches
        blocks off, then only the remaining ones are learnt; exact zeros, also under penalties of groups of blocks,
        `SparseGroupLasso` and sums, for which it is `"auto"`), or `"auto"`.
    step : `"auto"`, `"adagrad"` (0.5, delta 0.1), `"linear"` (falls to zero over the epochs), `"sqrt"`, `"epoch"`, a
        number, a rule, or a function of the round.
    transitions : the chain's block is `"fixed"` (always on; it pays the squared l2 part of the penalty, if there is
        one), `"learnt"` (a block like the others, penalised like them), or None: labels are independent.
    constraints : the result of `tag_constraints`; gold sequences must satisfy it.
    cost : the cost of a wrong token in the losses with a margin.
    average : the mean of all iterates instead of the last one; `"auto"`: for losses with a margin under penalties of
        blocks whose step does not fall to zero.
    skip : tokens whose gold label has a probability above this get no update (log and softmax-margin).
    radius : project onto the ball of this radius after each round (Algorithm 3 of SPOM), in dual averaging of single
        weights and in the second part of `"select"` after each pass. `spom.theory.structured_radius` gives one that
        contains the optimum.
    epochs, shuffle, random_state : as in other solvers.
    start : a state to resume, with the same bits.
    candidates : `sparse.engine.Candidates`, for many labels: there are weights only for features and labels that were
        seen together, and expectations are over the best-scoring labels of a token. For the log loss and
        softmax-margin under dual averaging of single weights with AdaGrad's rates. None: every weight, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from spom.penalties import L1
    >>> from spom.solvers.iterate import last
    >>> rows = SimpleNamespace(indptr=[0, 1, 2, 3, 4], indices=[0, 1, 0, 1], values=[], offsets=[0, 2, 4])
    >>> state = last(OnlineChain(rows, [0, 1, 0, 1], 2, penalty=L1(0.01), epochs=5, random_state=0))
    >>> state.theta[:4].reshape(2, 2).argmax(axis=1)
    array([0, 1])
    """

    def __init__(
        self,
        rows: Any,
        y: ArrayLike,
        labels: int,
        *,
        blocks: Any = None,
        loss: str = "log",
        penalty: Any = None,
        update: str = "auto",
        step: Any = "auto",
        transitions: str | None = "fixed",
        constraints: Constraints | None = None,
        cost: float = 1.0,
        average: bool | str = "auto",
        epochs: int = 8,
        shuffle: bool = True,
        skip: float = 0.999,
        radius: float = np.inf,
        objective: bool = False,
        random_state: Any = None,
        start: State | None = None,
        weight: ArrayLike | None = None,
        candidates: Candidates | None = None,
    ) -> None:
        self.blocks = as_blocks(blocks, rows)
        self.tokens = as_tokens(rows, self.blocks.total)
        self.labels, self.loss = int(labels), loss
        self.y: Ints = check_gold(y, self.tokens, self.labels, least=-1)
        self.weight = check_sentence_weights(weight, len(self.tokens))
        self._kind = chain_kind(self.y)
        self.penalty = Zero() if penalty is None else make("penalty", penalty) if isinstance(penalty, str) else penalty
        self.update = chain_update(update, self.penalty, len(self.blocks))
        if not isinstance(epochs, (int, np.integer)) or epochs < 0:
            raise ValueError(f"epochs must be an integer >= 0; it is {epochs!r}")
        self.epochs, self.shuffle, self.objective = int(epochs), shuffle, objective
        self.step = chain_step(step, self.penalty, self.update, loss, self.epochs)
        self.skip, self.radius = check_positive(skip, "skip"), check_radius(radius)
        self._loss = Loss(loss_code(loss, LOSSES, "chains"), check_positive(cost, "cost"))
        self.transitions, self.constraints = transitions, constraints
        self.average = self._averages() if average == "auto" else bool(average)
        self.random_state, self.start, self.candidates = random_state, start, candidates
        self.forbidden = forbidden_scores(constraints, self.labels)
        self._check_gold_allowed()
        self.engine: Engine = self._engine()
        self._set_up()

    def _averages(self) -> bool:
        margin = self.loss in ("hinge", "perceptron")
        single = on_coordinates(self.penalty, self.update)
        return margin and not single and type(self.step) in (Constant, InverseSqrt)

    # --- the engine that runs the penalty, the update and the step ---------------------------------------

    def _engine(self) -> Engine:
        """Return the engine at zero."""
        if self.transitions not in TRANSITIONS:
            raise Unsupported(f"transitions must be 'fixed', 'learnt' or None; it is {self.transitions!r}")
        if self.candidates is not None:
            return self._pair_engine(self.candidates)
        count, penalty, on = len(self.blocks), self.penalty, self.transitions is not None
        if self.update == "select":
            form = selection_form(penalty, count)
            metric = block_weights(self.tokens, self.blocks)
            rule = BlockRule(compiled_prox(form.norms, count), count, metric, 0.0, True, on)
            return SelectingEngine(self.blocks, self.forbidden, rule, self._rates(form.elastic), len(self.tokens))
        if on_coordinates(penalty, self.update):
            return AdaptiveEngine(self.blocks, self.forbidden, self._rates(penalty.elastic()))
        learnt = self.transitions == "learnt"
        count += learnt
        prox, l2_chain = compiled_prox(of_norms(penalty, len(self.blocks), learnt), count), fixed_strength(penalty)
        dual = self.update == "dual-averaging"
        rule = BlockRule(prox, count, np.ones(count), 0.0 if learnt else l2_chain, dual, on, self.radius)
        return BlockEngine(self.blocks, self.forbidden, rule, self.average)

    def _rates(self, elastic: Elastic) -> Rates:
        """Return how single weights are updated."""
        if self.average:
            raise Unsupported("dual averaging of single weights has no mean of iterates: it would undo the zeros")
        adaptive, (l1, l2) = isinstance(self.step, AdaGrad), elastic
        delta = check_positive(self.step.delta, "delta", zero=False) if isinstance(self.step, AdaGrad) else 1.0
        chain_l1 = l1 if self.transitions == "learnt" else 0.0
        return Rates(l1, l2, chain_l1, l2, delta, adaptive, self.transitions is not None, self.radius)

    def _pair_engine(self, candidates: Candidates) -> PairEngine:
        """Return the engine for many labels at zero."""
        elastic, step, data = self.penalty.elastic(), self.step, (self.tokens, self.y)
        if self.update != "dual-averaging" or elastic is None or not isinstance(step, AdaGrad):
            raise Unsupported(
                "many labels need dual averaging of single weights by AdaGrad: a penalty such as L1, or none"
            )
        if self._kind == "partial-chain":
            raise Unsupported("with so many labels every token must have one: leave sentences with unknown labels out")
        engine = PairEngine(data, self.blocks, self.forbidden, self._rates(elastic), candidates, self.loss)
        if candidates.confused is not None:
            engine.add_confused(*data, step.eta0, self._loss.cost)
        return engine

    def _check_gold_allowed(self) -> None:
        if self.constraints is None:
            return
        offsets = self.tokens.offsets
        bad = broken_tokens(self.forbidden, self.y, offsets)
        if bad.size:
            i = int(np.searchsorted(offsets, bad[0], side="right")) - 1
            what = f"sentence {i}, token {bad[0] - offsets[i]}: the gold labels break the constraints there"
            if self._kind == "partial-chain":
                what = f"sentence {i}: the known labels break the constraints"
            raise DataError(f"{what}; correct them, or set constraints=None")

    def _set_up(self) -> None:
        self.random = np.random.default_rng(self.random_state)
        self.done, self.rounds, self.seconds, self._last = 0, 0, 0.0, np.nan
        if self.start is not None:
            inner = under(self.start.internal, "engine.")
            fresh = {**self.engine.pack(), "epoch": np.array(0)}
            kept = check_restored({**inner, "epoch": self.start.internal.get("epoch", np.array(0))}, fresh)
            self.done, self.rounds = int(kept.pop("epoch")), self.start.k
            self.engine.unpack(kept)
            self.seconds = self.start.seconds
            restore_random(self.random, self.start.random)

    def feed(self, rows: Any, y: ArrayLike) -> None:
        """Learn from other sentences, with the same features and labels."""
        self.tokens = as_tokens(rows, self.blocks.total)
        self.y, self.weight = check_gold(y, self.tokens, self.labels, least=-1), check_sentence_weights(None, 0)
        self._kind = chain_kind(self.y)
        self._check_gold_allowed()

    def start_at(self, W: Singles, chain: Floats) -> None:
        """Start from these weights instead of zero."""
        self.engine.start_at(W, chain, float(self.step.sizes(self.rounds + 1, 1, max(1, len(self.tokens)))[0]))

    # --- the run ---------------------------------------------------------------------------------------

    def passes(self) -> Iterator[Epoch]:
        """Make passes up to `epochs`, including those before a resume; nothing is copied."""
        while self.done < self.epochs:
            yield self.one_pass()

    def one_pass(self) -> Epoch:
        """Make one pass over the sentences."""
        begin, n = time.perf_counter(), len(self.tokens)
        order = self.random.permutation(n) if self.shuffle else np.arange(n)
        steps = self.step.sizes(self.rounds + 1, n, n)
        done = self.engine.rounds
        kind = NO_STRUCTURE if isinstance(self.engine, PairEngine) else structure(self._kind, self._loss)
        rounds = Rounds(self.tokens, self.y, order, steps, kind, self._loss, self.skip, done, self.weight)
        total, touched = self.engine.run(rounds)
        self.rounds += n
        self.done += 1
        self.seconds += time.perf_counter() - begin
        if not np.isfinite(total):
            raise Diverged(f"the loss became {total} in epoch {self.done}: lower the step")
        self._last = total / n if n else np.nan
        share = touched / max(1, self.tokens.total)
        return Epoch(self.done, self._last, share, float(steps[-1]) if n else np.nan, self.seconds)

    def __iter__(self) -> Iterator[State]:
        self.engine = self._engine()
        self._set_up()
        for epoch in self.passes():
            yield self.state(epoch)

    # --- what it has learnt ----------------------------------------------------------------------------

    def weights(self) -> tuple[Any, Floats]:
        """Return the weights of a tagger, (features, labels padded to whole vectors) and (labels + 2, labels).

        With `candidates` the first is a CSR matrix, (features, labels).
        """
        return self.engine.weights()

    def block_norms(self, W: Singles | None = None) -> Floats:
        """Return the current norm of each block of features."""
        return block_norms(self.weights()[0] if W is None else W, self.blocks.starts)

    def objective_now(self) -> float:
        """Return Omega(theta) + the mean loss of all sentences at the current weights, by a pass without updates."""
        W, chain = self.weights()
        every = losses(self.tokens, self.y, np.arange(len(self.tokens)), (W, chain + self.forbidden), self._loss)[:, 0]
        total = float(every @ self.weight) if self.weight.size else float(every.sum())
        omega = penalty_value(self.penalty, summarised(W, chain, self.blocks.starts), self.transitions)
        return omega + total / max(1, len(self.tokens))

    def state(self, epoch: Epoch | None = None) -> State:
        """Return the run so far, as a copy that can be saved and resumed."""
        W, chain = self.weights()
        own = W.data if self.candidates else W[:, : self.labels].reshape(-1)
        theta = np.concatenate([own.astype(np.float64), chain.reshape(-1)])
        internal: dict[str, Any] = {f"engine.{name}": a.copy() for name, a in self.engine.pack().items()}
        internal["epoch"] = np.array(self.done)
        return State(
            k=self.rounds,
            theta=theta,
            step=np.nan if epoch is None else epoch.step,
            objective=self.objective_now() if self.objective else np.nan,
            loss=self._last,
            block_norms=self.block_norms(W),
            counters=Counters(gradients=self.rounds, proxes=self.rounds, examples=self.rounds),
            seconds=self.seconds,
            internal=internal,
            random=self.random.bit_generator.state,  # type: ignore[arg-type]  # numpy types it as a Mapping
        )


# --- the update and the step -----------------------------------------------------------------------------------


def on_coordinates(penalty: Any, update: str) -> bool:
    """Return whether single weights are updated, each at its own rate."""
    return update == "select" or (update == "dual-averaging" and penalty.elastic() is not None)


def chain_step(step: Any, penalty: Any, update: str, loss: str, epochs: int) -> Step:
    """Return the rule for `step=`: also `"linear"`, and `"auto"` as measured on chunking.

    >>> from spom.penalties import L1, SparseMKL
    >>> chain_step("auto", L1(1e-4), "dual-averaging", "log", epochs=5)
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
            "AdaGrad on chains needs update='dual-averaging' and a penalty of single weights, such as L1 or ElasticNet"
        )
    if found.mode not in (PLAIN, DIAGONAL) or isinstance(found, Theory):
        raise Unsupported(f"{found!r} is not a step for chains: use 'adagrad', 'linear', 'sqrt', 'epoch' or a number")
    return found


def chain_update(update: str, penalty: Any, count: int) -> str:
    """Return the update: for `"auto"`, dual averaging for single weights, SPOM's step for penalties of blocks.

    `"auto"` takes a selection for penalties of both, and of groups of blocks.
    """
    if update not in UPDATES:
        raise Unsupported(f"unknown update {update!r} for chains; available: {', '.join(UPDATES)}")
    single = penalty.elastic() is not None
    if update == "auto" and single:
        return "dual-averaging"
    blocks = runs_on_norms(penalty, count)
    if update == "select" or (update == "auto" and not blocks):
        selection_form(penalty, count)
        return "select"
    if not single and not blocks:
        raise Unsupported(
            f"update={update!r} supports penalties of single weights or of the norms of blocks without groups=; for "
            f"{penalty!r} use update='select'"
        )
    if update == "auto":
        return "forward-backward"
    if update == "forward-backward" and not blocks:
        raise Unsupported(f"{penalty!r} needs update='dual-averaging', where single weights become exactly zero")
    return update


# --- the value of a penalty ----------------------------------------------------------------------------------


def summarised(W: Any, chain: Floats, starts: Ints) -> Summary:
    """Return the norms of blocks, and the number of non-zeros and the sum of absolute values of weights."""
    norms, every = block_norms(W, starts), entries(W, 0, W.shape[0])
    return Summary(norms, int(np.count_nonzero(every)), float(np.abs(every).sum(dtype=np.float64)), chain)


class Terms(NamedTuple):
    """The penalty of a chain: an elastic form and a function of block norms on features, an elastic form on the chain.

    With `together` the chain is the last block of `norms`, and pays the elastic form of the features.
    """

    elastic: Elastic
    norms: Any
    chain: Elastic
    together: bool


def terms_of(penalty: Any, count: int, transitions: str | None) -> Terms:
    """Return the penalty's terms on `count` blocks of features and on the chain."""
    learnt, elastic = transitions == "learnt", penalty.elastic()
    if elastic is not None:
        return Terms(elastic, None, elastic if learnt else Elastic(0.0, elastic.l2), False)
    if getattr(penalty, "groups", None) is None and penalty.on_norms(count) is not None:
        chain = NO_ELASTIC if learnt else Elastic(0.0, fixed_strength(penalty))
        return Terms(NO_ELASTIC, of_norms(penalty, count, learnt), chain, learnt)
    form = selection_form_of(penalty, count, learnt)
    return Terms(form.elastic, form.norms, NO_ELASTIC, chain_joins(penalty, learnt))


def penalty_value(penalty: Any, found: Summary, transitions: str | None) -> float:
    """Omega(theta): of single weights, or of the norms of blocks; the chain pays as `transitions` says."""
    terms, size = terms_of(penalty, found.norms.size, transitions), float(np.abs(found.chain).sum())
    own = float(np.vdot(found.chain, found.chain))
    (l1, l2), chain = terms.elastic, terms.elastic if terms.together else terms.chain
    sizes = (l1 * found.sizes if l1 > 0.0 else 0.0) + chain.l1 * size
    total = sizes + 0.5 * (l2 * float(found.norms @ found.norms) + chain.l2 * own)
    if terms.norms is None:
        return total
    return total + float(terms.norms.value(np.append(found.norms, np.sqrt(own)) if terms.together else found.norms))
