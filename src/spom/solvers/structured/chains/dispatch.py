"""Which engine runs a combination of penalty, update and step; a combination without one is an error that says so."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, check_positive
from spom.errors import Unsupported
from spom.penalties import (
    L1,
    L2,
    ElasticNet,
    ElasticNetMKL,
    GroupLasso,
    LqMKL,
    SparseMKL,
    SquaredL2,
    Zero,
)
from spom.solvers.steps import AdaGrad, Auto, Constant, LinearDecay, Step, as_step
from spom.solvers.structured.chains.adaptive import AdaptiveEngine
from spom.solvers.structured.chains.data import Blocks
from spom.solvers.structured.chains.scaled import BlockEngine

Engine = AdaptiveEngine | BlockEngine

GROUPS = (SparseMKL, GroupLasso, LqMKL, ElasticNetMKL)
COORDINATES = (L1, ElasticNet, SquaredL2, Zero)
# Penalties that are functions of the block norms, whatever the blocks are.
NORMS = (*GROUPS, L2, SquaredL2, Zero)
UPDATES = ("auto", "forward-backward", "dual-averaging")
TRANSITIONS = ("fixed", "learnt", None)


def chain_step(step: Any, penalty: Any, update: str, loss: str, epochs: int) -> Step:
    """The rule that `step=` stands for: also `"linear"`, and `"auto"` by what was measured on chunking.

    >>> from spom.penalties import L1, SparseMKL
    >>> chain_step("auto", L1(1e-4), "dual-averaging", "crf", epochs=5)
    AdaGrad(eta0=0.5, delta=0.1)
    >>> chain_step("auto", SparseMKL(1.0), "forward-backward", "hinge", epochs=5)
    LinearDecay(epochs=5)
    """
    if isinstance(step, str) and step == "linear":
        step = LinearDecay()
    found: Step = AdaGrad(0.5, delta=0.1) if isinstance(step, str) and step == "adagrad" else as_step(step)
    if isinstance(found, Auto):
        if update == "dual-averaging":
            found = AdaGrad(0.5, delta=0.1) if isinstance(penalty, COORDINATES) else Constant(0.1)
        elif loss == "perceptron":
            found = Constant(1.0)
        else:
            found = LinearDecay(0.1)
    if isinstance(found, LinearDecay) and found.epochs is None:
        found = LinearDecay(found.eta0, epochs)
    if isinstance(found, AdaGrad) and (update != "dual-averaging" or not isinstance(penalty, COORDINATES)):
        names = ", ".join(kind.__name__ for kind in COORDINATES)
        raise Unsupported(f"AdaGrad on chains takes update='dual-averaging' and a penalty of coordinates: {names}")
    if found.mode not in (0, 1) or type(found).__name__ == "Theory":
        raise Unsupported(f"{found!r} is no step for chains: take 'adagrad', 'linear', 'sqrt', 'epoch' or a number")
    return found


def chain_update(update: str, penalty: Any) -> str:
    """`"auto"`: dual averaging where single weights are to be zero, SPOM's own step for penalties of blocks."""
    if update not in UPDATES:
        raise Unsupported(f"there is no update {update!r} for chains; the updates are: {', '.join(UPDATES)}")
    if not isinstance(penalty, (*GROUPS, *COORDINATES, L2)):
        names = ", ".join(kind.__name__ for kind in (*GROUPS, *COORDINATES, L2))
        raise Unsupported(f"chains take one of the penalties {names}; not {penalty!r}")
    if getattr(penalty, "groups", None) is not None:
        raise Unsupported(f"the groups of {penalty!r} are the blocks of features: leave groups= out")
    if update == "auto":
        return "forward-backward" if isinstance(penalty, (*GROUPS, L2)) else "dual-averaging"
    if update == "forward-backward" and not isinstance(penalty, NORMS):
        raise Unsupported(f"{penalty!r} needs update='dual-averaging', where single weights become exactly zero")
    return update


def make_engine(
    blocks: Blocks, forbidden: Floats, penalty: Any, update: str, step: Step, transitions: str | None, average: bool
) -> Engine:
    """The engine at zero."""
    if transitions not in TRANSITIONS:
        raise Unsupported(f"transitions must be 'fixed', 'learnt' or None; it is {transitions!r}")
    learnt, on = transitions == "learnt", transitions is not None
    dual = update == "dual-averaging"
    if dual and isinstance(penalty, COORDINATES):
        if average:
            raise Unsupported("dual averaging of single weights has no mean of iterates: it would undo the zeros")
        l1, l2 = coordinate_strengths(penalty)
        adaptive = isinstance(step, AdaGrad)
        delta = check_positive(step.delta, "delta", zero=False) if isinstance(step, AdaGrad) else 1.0
        strengths = (l1, l2, l1 if learnt else 0.0, l2)
        return AdaptiveEngine(blocks, forbidden, strengths, delta, adaptive, on)
    return BlockEngine(
        blocks,
        forbidden,
        _with_weights(penalty, len(blocks), learnt),
        dual=dual,
        average=average,
        learn_chain=on,
        penalise_chain=learnt,
        l2_chain=0.0 if learnt else fixed_strength(penalty),
    )


def coordinate_strengths(penalty: Any) -> tuple[float, float]:
    """(l1, l2) with Omega = l1 norm1 + l2/2 norm2^2."""
    if isinstance(penalty, L1):
        return float(penalty.strength), 0.0
    if isinstance(penalty, ElasticNet):
        return penalty.strength * penalty.l1_ratio, penalty.strength * (1.0 - penalty.l1_ratio)
    return (0.0, float(penalty.strength)) if isinstance(penalty, SquaredL2) else (0.0, 0.0)


def fixed_strength(penalty: Any) -> float:
    """The strength s of s/2 norm2(theta_0)^2, what a chain whose weight is fixed at one pays (section 4.1 of SPOM).

    Penalties that are no squares leave it free, and so do coordinates' l1 parts.
    """
    squares = (SparseMKL, ElasticNetMKL, SquaredL2)
    return float(penalty.strength) if isinstance(penalty, squares) else 0.0


def _with_weights(penalty: Any, count: int, learnt: bool) -> Any:
    """Weights of blocks are one for each; a learnt chain has the weight one where none was given for it."""
    weights = getattr(penalty, "weights", None)
    if weights is None:
        return penalty
    d = np.asarray(weights, dtype=np.float64)
    if d.shape == (count,) and learnt:
        d = np.append(d, 1.0)
    if d.shape != (count + learnt,):
        raise ValueError(f"weights has shape {d.shape}; there must be one for each of the {count} blocks")
    return type(penalty)(penalty.strength, weights=d)
