"""The choice of the engine for a problem, made before any work; an error names what would work instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core.arrays import check_room
from spom.errors import Unsupported
from spom.mirror import PNorm
from spom.penalties import L2Ball
from spom.solvers.linear.block_scales import BlockScales
from spom.solvers.linear.data import Rows, not_lazy, too_wide
from spom.solvers.linear.full_update import Eager, MirrorLoop, has_pointer
from spom.solvers.linear.lazy_multiclass import LazyRows, row_penalty
from spom.solvers.linear.lazy_vector import LazyVector
from spom.solvers.linear.p_norm import PNormVector
from spom.solvers.linear.problem import Engine, Problem
from spom.solvers.linear.proximal_point import ProximalPoint
from spom.solvers.linear.proximal_point_multiclass import ProximalPointRows
from spom.solvers.linear.proximal_point_pairs import ProximalPointPairs, by_pairs
from spom.solvers.linear.streaming_point import StreamingPoint
from spom.solvers.steps import PLAIN, Auto, InverseSqrt, Step, Theory

UPDATES = ("auto", "forward-backward", "dual-averaging", "proximal-point")


def engine_for(problem: Problem, rows: Rows) -> Engine:
    """Return the engine for this problem and data."""
    if problem.update not in UPDATES:
        raise Unsupported(f"there is no update {problem.update!r}; the updates are: {', '.join(UPDATES)}")
    if problem.update == "proximal-point" or (problem.update == "auto" and _fits_proximal_point(problem) is None):
        return _proximal_point(problem, rows)
    _check_table(problem)
    if problem.update == "dual-averaging":
        from spom.solvers.linear.dual_averaging import dual_averaging

        return dual_averaging(problem, rows)
    return _forward_backward(problem, rows)


def _check_table(problem: Problem) -> None:
    """Raise an error if the weights of all features and classes do not fit into memory."""
    if len(problem.shape) == 2:
        size, outputs = problem.shape
        check_room(size, outputs, 2, f"the weights of {outputs:,} classes and {size:,} features")


def _fits_proximal_point(problem: Problem) -> str | None:
    """Return the reason why the proximal point method does not apply, or None."""
    reasons = [
        (not isinstance(problem.step, Auto), "it takes no step: leave step='auto'"),
        (problem.mirror is not None, "it has a metric of its own: leave mirror=None"),
        (problem.projection is not None, "it does not project"),
        (
            problem.loss.target == "class" and (problem.stream or problem.loss.hoelder[0] == 0.0),
            "for several scores it needs the data in memory and a smooth loss",
        ),
        (_kind(problem) is None, "it works with l1 and squared l2 penalties, and with rows of a matrix"),
        (problem.batch != 1, "it takes one example per round"),
        (problem.averages, "its output is the last iterate"),
    ]
    return next((why for bad, why in reasons if bad), None)


def _kind(problem: Problem) -> Any:
    """Return the penalty as the proximal point engines take it, or None."""
    if problem.loss.target != "class":
        return problem.penalty.elastic()
    return row_penalty(problem.penalty, problem.penalised[0])


def _proximal_point(problem: Problem, rows: Rows) -> Engine:
    why = _fits_proximal_point(problem)
    if why is not None:
        other = "spom.solvers.BatchProximal" if problem.exact else "update='forward-backward'"
        raise Unsupported(f"update='proximal-point' cannot do this: {why}; {other} can")
    kind = _kind(problem)
    if problem.loss.target == "class" and kind is not None:
        if not problem.exact and by_pairs(problem, kind, rows):
            return ProximalPointPairs(problem, kind, rows)
        _check_table(problem)
        return ProximalPointRows(problem, kind)
    l1, l2 = problem.penalty.elastic() or (0.0, 0.0)
    whole = (problem.loss, l1, l2, problem.features, problem.intercept, problem.jobs)
    return StreamingPoint(*whole) if problem.stream else ProximalPoint(*whole, exact=problem.exact)


def _forward_backward(problem: Problem, rows: Rows) -> Engine:
    p = problem
    form = p.penalty.elastic()
    plain = p.mirror is None and p.projection is None
    vector = len(p.shape) == 1 and p.loss.target != "class"
    may = plain and vector and form is not None and not (p.step.mode != PLAIN and form.l2 > 0)
    wanted = p.lazy is True or (p.lazy is None and not rows.dense)
    if may and wanted and form is not None:
        return LazyVector(p, form)
    # Thresholds in the dual are not lazy, so with l1 the data must not be too wide for full updates.
    if _is_p_norm(p) and vector and form is not None and form.l2 == 0.0 and (form.l1 == 0.0 or not too_wide(rows)):
        return PNormVector(p, form.l1)
    if plain and vector and wanted and p.batch == 1 and not p.averages and (scales := _block_scales(p)) is not None:
        return scales
    if plain and p.loss.target == "class" and p.batch == 1 and not p.averages:
        kind = row_penalty(p.penalty, p.penalised[0])
        # Only this engine has adaptive steps by rows, so it takes them for dense data too.
        adaptive = p.step.mode != PLAIN
        if kind is not None and not (adaptive and kind.l2 > 0) and (wanted or adaptive):
            return LazyRows(p, kind)
    if p.lazy is True or (p.lazy is None and too_wide(rows) and p.batch < len(rows)):
        raise not_lazy(p.penalty, rows)
    compiled = has_pointer(p.penalty, p.penalised) and (p.projection is None or has_pointer(p.projection, p.penalised))
    if p.mirror is None and compiled:
        return Eager(p, form if p.step.mode != PLAIN and vector else None)
    return MirrorLoop(p)


def _block_scales(p: Problem) -> Engine | None:
    """Return the engine of block scales, or None if the penalty is not a function of the norms of its own groups."""
    own = p.penalty.own_blocks(p.penalised)
    norms = None if own is None else own.penalty.on_norms(own.groups.count)
    if own is None or norms is None or not has_pointer(norms, (own.groups.count,)):
        return None
    return BlockScales(p, own.groups, norms)


def _is_p_norm(p: Problem) -> bool:
    """Return whether the p-norm map's own loop can run this: plain steps, one example per round, no projection."""
    simple = p.batch == 1 and not p.averages and p.projection is None and p.step.mode == PLAIN and p.lazy is not False
    return simple and type(p.mirror) is PNorm and p.mirror.exponent(p.features) < 2.0


def resolve_step(step: Step, loss: Any, penalty: Any, mirror: Any, rows: Rows) -> Step:
    """Return the rule itself, or, for a `Theory` step, the largest eta0 / sqrt(t) that the theory allows."""
    if not isinstance(step, Theory):
        return step
    from spom.theory import largest_step

    return InverseSqrt(largest_step(loss, penalty, mirror, rows.matrix(), rows.y))


def resolve_projection(projection: Any, loss: Any, penalty: Any, rows: Rows, outputs: int | None) -> Any:
    """Return the set to project to, from None, a set, the radius of an l2 ball, or `"auto"` (contains the optimum)."""
    if projection is None:
        return None
    if isinstance(projection, str):
        if projection != "auto":
            raise Unsupported(f'projection must be a set, a radius or "auto"; it is {projection!r}')
        from spom.theory import vacuous_radius

        return L2Ball(vacuous_radius(loss, penalty, rows.y, rows.weight, outputs))
    if isinstance(projection, (int, float, np.integer, np.floating)) and not isinstance(projection, bool):
        return L2Ball(float(projection))
    if not getattr(projection, "indicator", False):
        raise Unsupported(f"a projection must be onto a set, as L2Ball or Box; {projection!r} is none")
    return projection
