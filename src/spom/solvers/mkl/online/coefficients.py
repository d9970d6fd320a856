"""The effects of steps, scales and averages on the blocks of SPOM with kernels, compiled.

Coefficients A[m, y, i] are stored by label and token, as the scores F[m, y, i]; weights V[f, y] by feature. Tokens,
rows of scores and features carry the stamp of their block; one with an old stamp counts as zero, so switching a
block off only changes its stamp.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.solvers.mkl.errors import Wrong
from spom.solvers.mkl.explicit import BASE, FEATURES, Explicit, Weights
from spom.solvers.mkl.gram_rows import EXPLICIT, REALS, Active
from spom.solvers.mkl.store import Data

# Rows of the table of blocks; its last column is the transitions. A block is theta_m = SCALE times its coefficients,
# its squared norm is SQUARED, the largest since the last renewal is PEAK, and SIGMA is the sum of scales since then.
SCALE, SQUARED, PEAK, SIGMA = range(4)


class Model(NamedTuple):
    """All that a run changes except the scores: coefficients, weights, transitions T, and sums for their averages.

    `frozen` blocks are held at zero; `gradients` sums up the errors of a pass, unless it is empty.
    """

    A: Annotated[Floats, "float64[:, :, ::1]"]
    amarks: Annotated[Ints, "int64[:, ::1]"]
    sums: Annotated[Floats, "float64[:, :, ::1]"]
    fmarks: Annotated[Ints, "int64[:, ::1]"]
    weights: Weights
    T: Annotated[Floats, "float64[:, ::1]"]
    tsums: Annotated[Floats, "float64[:, ::1]"]
    stamps: Annotated[Ints, "int64[::1]"]
    table: Annotated[Floats, "float64[:, ::1]"]
    frozen: Annotated[Any, "boolean[::1]"]
    gradients: Annotated[Floats, "float64[:, ::1]"]
    counts: Annotated[Ints, "int64[::1]"]
    averaged: Annotated[bool, "boolean"]


@kernel("void(Model, int64, Wrong, float64)")
def add_coefficients(model: Model, m: int, wrong: Wrong, c: float) -> None:
    """A[m, :, i] += c D[t] for wrong tokens, and sums -= sigma c D, as the average must not count it earlier."""
    A, marks, sums, errors = model.A[m], model.amarks[m], model.sums[m], wrong.errors
    stamp, sigma = model.stamps[m], model.table[SIGMA, m]
    for e in range(wrong.size):
        t, i = errors.tokens[e], wrong.first + errors.tokens[e]
        if marks[i] != stamp:
            for y in range(A.shape[0]):
                A[y, i] = 0.0
            marks[i] = stamp
        for j in range(errors.several[e]):
            y = errors.labels[e, j]
            A[y, i] += c * errors.D[t, y]
            if model.averaged:
                sums[y, i] -= sigma * c * errors.D[t, y]


@kernel([f"void({f}[:, :, ::1], Model, Active, int64, Wrong)" for f in REALS])
def freshen(F: Any, model: Model, active: Active, on: int, wrong: Wrong) -> None:
    """Set stale rows of scores to zero before rows of a Gram matrix are added to them."""
    for e in range(wrong.size):
        for j in range(wrong.errors.several[e]):
            y = wrong.errors.labels[e, j]
            for b in range(on):
                m = active.blocks[b]
                if model.fmarks[m, y] != model.stamps[m]:
                    F[m, y] = 0.0
                    model.fmarks[m, y] = model.stamps[m]


@kernel([f"float64({f}[:, ::1], Model, int64)" for f in REALS])
def renew_coefficients(F: Any, model: Model, m: int) -> float:
    """Move the scale of a kernel's block into its coefficients, scores and average; return its squared norm."""
    A, sums, marks, stamp, total = model.A[m], model.sums[m], model.amarks[m], model.stamps[m], 0.0
    scale, sigma = model.table[SCALE, m], model.table[SIGMA, m]
    for y in range(A.shape[0]):
        for i in range(A.shape[1]):
            if marks[i] == stamp:
                # The average first, as it is in units of the old scale.
                if model.averaged:
                    sums[y, i] += sigma * A[y, i]
                A[y, i] *= scale
        if model.fmarks[m, y] == stamp:
            for i in range(A.shape[1]):
                F[y, i] *= F.dtype.type(scale)
                if marks[i] == stamp:
                    total += A[y, i] * F[y, i]
    return total


@kernel("float64(Explicit, int64, Model, int64)")
def renew_weights(rows: Explicit, e: int, model: Model, m: int) -> float:
    """Move the scale of an explicit block into its weights and average; return its squared norm."""
    V, marks, sums = model.weights
    stamp, scale, sigma, total = model.stamps[m], model.table[SCALE, m], model.table[SIGMA, m], 0.0
    for f in range(rows.shapes[e, BASE], rows.shapes[e, BASE] + rows.shapes[e, FEATURES]):
        if marks[f] == stamp:
            for y in range(V.shape[1]):
                if model.averaged:
                    sums[f, y] += sigma * V[f, y]
                V[f, y] *= scale
                total += V[f, y] * V[f, y]
    return total


@kernel("void(Data, Model, int64)")
def switch_off(data: Data, model: Model, m: int) -> None:
    """Make a block zero: add it to the average, then change its stamp."""
    table, stamp = model.table, model.stamps[m]
    if table[SQUARED, m] > 0.0:
        if model.averaged:
            sigma = table[SIGMA, m]
            if data.grams.kinds[m] == EXPLICIT:
                V, marks, vsums = model.weights
                shape = data.explicit.shapes[data.grams.places[m]]
                for f in range(shape[BASE], shape[BASE] + shape[FEATURES]):
                    if marks[f] == stamp:
                        for y in range(V.shape[1]):
                            vsums[f, y] += sigma * V[f, y]
            else:
                A, sums, marks = model.A[m], model.sums[m], model.amarks[m]
                for y in range(A.shape[0]):
                    for i in range(A.shape[1]):
                        if marks[i] == stamp:
                            sums[y, i] += sigma * A[y, i]
        model.stamps[m] += 1
    table[SCALE, m], table[SQUARED, m], table[PEAK, m], table[SIGMA, m] = 1.0, 0.0, 0.0, 0.0


@kernel([f"float64(float64[:, ::1], {f}[:, ::1], float64)" for f in REALS], fastmath={"reassoc"})
def rescale(A: Floats, F: Any, scale: float) -> float:
    """Multiply A and F by the scale; return <A, F>."""
    total, factor = 0.0, F.dtype.type(scale)
    for y in range(A.shape[0]):
        for i in range(A.shape[1]):
            a, f = scale * A[y, i], factor * F[y, i]
            A[y, i] = a
            F[y, i] = f
            total += a * f
    return total
