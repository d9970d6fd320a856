"""The duality gap of random fields over chains: `spom.solvers.structured.gap` with the parts of a chain's weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import Unsupported
from spom.solvers.structured.chains.field import Expectations
from spom.solvers.structured.chains.solver import Terms, terms_of
from spom.solvers.structured.gap import Certificate, Part, certify


def parts_of(weights: tuple[Floats, Floats], means: tuple[Floats, Floats], starts: Ints, terms: Terms) -> list[Part]:
    """Return the parts of the weights with their mean gradients, without a chain that is not learnt (has no rows)."""
    (W, chain), (g, chain_g) = weights, means
    if terms.together:
        ends = np.append(starts, starts[-1] + chain.shape[0])
        return [Part(np.vstack([W, chain]), np.vstack([g, chain_g]), terms.elastic, terms.norms, ends)]
    parts = [Part(W, g, terms.elastic, terms.norms, starts)]
    return [*parts, Part(chain, chain_g, terms.chain)] if chain.size else parts


def field_gap(
    found: Expectations, weights: tuple[Floats, Floats], starts: Ints, penalty: Any, transitions: str | None
) -> Certificate:
    """Return bounds on the least Omega(w) + mean loss, at weights (features x labels, chain) with these expectations.

    With `transitions="fixed"` the chain only pays the squared part of the penalty: without such a part, there is no
    bound above zero. Use `transitions="learnt"`, or a penalty with a squared part.
    """
    n = max(1, found.losses.size)
    means = found.gradient / n, found.chain_gradient / n
    W, chain = weights
    if transitions is None:
        chain, means = np.zeros((0, W.shape[1])), (means[0], np.zeros((0, W.shape[1])))
    parts = parts_of((W, chain), means, starts, terms_of(penalty, starts.size - 1, transitions))
    return certify(found.losses, found.entropies, parts)


def has_bound(penalty: Any, count: int, transitions: str | None) -> bool:
    """Tell whether the chain has a penalty, without which the bound is zero."""
    try:
        terms = terms_of(penalty, count, transitions)
    except Unsupported:
        return False
    return transitions is None or terms.together or max(terms.chain) > 0.0
