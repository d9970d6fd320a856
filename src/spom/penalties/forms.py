"""The forms of a penalty that solvers can use.

A solver never asks for the class of a penalty. It asks for a form, and gets None if there is none:

- `penalty.elastic()`: l1 norm1(w) + l2/2 norm2(w)^2;
- `penalty.on_norms(count)`: h(norm2(w_1), ..., norm2(w_count)), a function of the norms of the estimator's blocks;
- `penalty.on_rows(count)`: the same for the rows of a matrix (or kernels), which are the units of `groups=` there;
- `penalty.split(count)`: an elastic form on coordinates, then a function of block norms;
- `penalty.norm_sum(count)`: a weighted sum of block norms, l2 or l-inf, and a squared l2 norm;
- `penalty.own_blocks(shape)`: the groups given by the user, and the penalty with these as its blocks;
- `penalty.restrict(kept, size)`: the same penalty on some coordinates, the others being zero;
- `penalty.polyhedron(p)`: the matrices of a piecewise linear penalty (`spom.penalties.polyhedra`).

A penalty with `groups=` from the user refers to those groups, not to the estimator's blocks, so `on_norms`, `split`
and `norm_sum` are None for it. `groups=None`, `"rows"` and 1 mean: each block is a group.

>>> from spom.penalties import L1, ElasticNet, GroupLasso, SparseGroupLasso, Sum
>>> ElasticNet(2.0, l1_ratio=0.25).elastic()
Elastic(l1=0.5, l2=1.5)
>>> GroupLasso(2.0).on_norms(3).value([1.0, 2.0, 3.0])
12.0
>>> GroupLasso(2.0, groups=[[0, 1], [2, 3]]).on_norms(2) is None
True
>>> SparseGroupLasso(2.0, weights=[1.0, 3.0]).split(2).elastic
Elastic(l1=1.0, l2=0.0)
>>> Sum([GroupLasso(2.0), L1(0.5)]).split(2).norms.norm_sum(2)
NormSum(order=2.0, strength=2.0, weights=array([], dtype=float64), l2=0.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.core.jit import PROX, pointer
from spom.errors import Unsupported

if TYPE_CHECKING:
    from spom.penalties.base import Penalty
    from spom.penalties.groups import Groups


class Elastic(NamedTuple):
    """l1 norm1(w) + l2/2 norm2(w)^2, on the coordinates of w."""

    l1: float
    l2: float

    def skip(self, w: Floats, steps: Floats) -> Floats:
        """Return the result of successive proxes, one for each entry of `steps`, in closed form.

        With a_t = step_t l1, b_t = step_t l2, P_t the product of (1 + b) up to t and A the sum of a_t P_{t-1}, the
        result is soft(w, A) / P.
        """
        logs = np.log1p(self.l2 * steps).cumsum()
        total = logs[-1] if logs.size else 0.0
        # A / P = sum of a_t P_{t-1} / P, each ratio of products at most 1: nothing overflows.
        before = np.concatenate([[0.0], logs[:-1]]) if logs.size else logs
        shift = float((self.l1 * steps * np.exp(before - total)).sum())
        x = w * np.exp(-total)
        found: Floats = x - np.clip(x, -shift, shift)
        return found


class Split(NamedTuple):
    """An elastic form on coordinates, then a penalty of the vector of block norms.

    The prox is exact in that order: the prox of `elastic`, then each block scaled to the norm that the prox of
    `norms` gives it. `elastic.l2` is zero unless `norms` is zero: a squared l2 norm next to another function of the
    norms is part of `norms`.
    """

    elastic: Elastic
    norms: Penalty


class NormSum(NamedTuple):
    """strength sum over blocks of weights[m] norm(w_m), plus l2/2 norm2(w)^2; the `order` of the norms is 2 or inf.

    `weights` is empty where all are one.
    """

    order: float
    strength: float
    weights: Floats
    l2: float


class OwnBlocks(NamedTuple):
    """Groups that do not overlap, and the penalty with these blocks; norms of other coordinates are ignored."""

    groups: Groups
    penalty: Penalty


NO_ELASTIC = Elastic(0.0, 0.0)


class Prox(NamedTuple):
    """The prox as passed to compiled loops: function(w, step, reals, ints, out), and the penalty's numbers."""

    function: Annotated[Any, f"FunctionType({PROX})"]
    reals: Annotated[Floats, "float64[::1]"]
    ints: Annotated[Ints, "int64[::1]"]


def compiled_prox(penalty: Any, *shape: int) -> Prox:
    """Return the prox of a penalty of arrays of this shape as passed to compiled loops."""
    function, reals, ints = penalty.compiled(shape)
    return Prox(pointer(function), reals, ints)


# --- forms for structured solvers, whose blocks are templates, and the block of a chain ------------------------


def selection_form(penalty: Any, count: int) -> Split:
    """Split the penalty into one on single weights and one on the norms of `count` blocks, or on groups of blocks."""
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
    # A squared l2 norm next to the norms acts on the remaining weights.
    terms = getattr(found.norms, "terms", [found.norms])
    plain = [term.elastic() for term in terms]
    others = [term for term, form in zip(terms, plain, strict=True) if form is None]
    if len(others) != 1:
        return found
    l2 = found.elastic.l2 + sum(form.l2 for form in plain if form is not None)
    return Split(Elastic(found.elastic.l1, l2), others[0])


def runs_on_norms(penalty: Any, count: int) -> bool:
    """Return whether loops can apply the prox of a penalty of the norms of `count` blocks after each round.

    >>> from spom.penalties import L1, GroupLasso, Sum
    >>> runs_on_norms(GroupLasso(1.0), 3), runs_on_norms(Sum([L1(1.0), GroupLasso(1.0)]), 3)
    (True, False)
    """
    norms = None if getattr(penalty, "groups", None) is not None else norms_form(penalty, count)
    try:
        return norms is not None and norms.compiled((count,)) is not None
    except Unsupported:
        # Some sums have a prox that no single loop can compute.
        return False


def fixed_strength(penalty: Any) -> float:
    """Return the strength s of s/2 norm2(theta_0)^2, for a chain whose weight is fixed at one (section 4.1 of SPOM).

    It is the penalty of a single block, if that is a square; other penalties, and l1 parts, leave the chain free.
    """
    elastic, one = penalty.elastic(), norms_form(penalty, 1)
    if elastic is not None:
        return float(elastic.l2)
    if one is None:
        return 0.0
    at_one, at_two = float(one.value([1.0])), float(one.value([2.0]))
    return 2.0 * at_one if abs(at_two - 4.0 * at_one) <= 1e-12 * at_two else 0.0


def of_norms(penalty: Any, count: int, learnt: bool) -> Any:
    """Return the penalty as a function of the norms of `count` blocks, and of the chain's if it is learnt.

    There is one weight per block; a learnt chain has the weight one where none was given for it.
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


def selection_form_of(penalty: Any, count: int, learnt: bool) -> Split:
    """Return `selection_form` for `count` blocks, plus a learnt chain as one more block if blocks are not in groups.

    >>> from spom.penalties import GroupLasso, L1, Sum
    >>> selection_form_of(Sum([GroupLasso(2.0, weights=[1.0, 3.0]), L1(0.5)]), 2, True).norms.value([1.0, 1.0, 1.0])
    10.0
    """
    if not chain_joins(penalty, learnt):
        return selection_form(penalty, count)
    terms = getattr(penalty, "terms", None)
    wider = _widened(penalty, count) if terms is None else type(penalty)([_widened(term, count) for term in terms])
    return selection_form(wider, count + 1)


def chain_joins(penalty: Any, learnt: bool) -> bool:
    """Return whether a two-part penalty treats the chain as one more block: it is learnt, and blocks have no groups."""
    terms = getattr(penalty, "terms", [penalty])
    return learnt and all(getattr(term, "groups", None) is None for term in terms)


def _widened(penalty: Any, count: int) -> Any:
    """Return the penalty with a weight of one for an additional block."""
    d = np.asarray(getattr(penalty, "weights", None), dtype=np.float64)
    return _reweighted(penalty, np.append(d, 1.0)) if d.shape == (count,) else penalty


def _reweighted(penalty: Any, weights: Any) -> Any:
    """Return the penalty with other weights of blocks, if it has any."""
    if getattr(penalty, "weights", None) is None:
        return penalty
    return type(penalty)(**{**penalty.get_params(deep=False), "weights": weights})


def norms_form(penalty: Any, count: int) -> Any:
    """Return the form on the norms of `count` blocks, with weights of one; given weights are checked later."""
    return _reweighted(penalty, None).on_norms(count)
