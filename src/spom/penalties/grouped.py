"""The base of the group penalties: their structure, and the kernels that compute norms and scale groups."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its subpackages are loaded on first use

from spom.core.arrays import Floats, Ints
from spom.core.jit import kernel
from spom.penalties.base import NO_REALS, Penalty, Strength
from spom.penalties.forms import NormSum, OwnBlocks
from spom.penalties.groups import Groups, check_weights, resolve
from spom.penalties.polyhedra import Polyhedron, covered
from spom.penalties.threshold import norm2


@kernel("void(float64[::1], int64, float64[::1])", fastmath={"reassoc"})
def _block_squares(w: Floats, block: int, squares: Floats) -> None:
    """Sum the squares of consecutive blocks; as a matrix, which shows the compiler that no index is negative."""
    rows = w.reshape((squares.size, block))
    for m in range(squares.size):
        s = 0.0
        for j in range(block):
            s += rows[m, j] * rows[m, j]
        squares[m] = s


@kernel("void(float64[::1], int64[::1], float64[::1])")
def group_norms(w: Floats, ints: Ints, norms: Floats) -> None:
    """norms[m] = norm2 of group m; `ints` is `Groups.packed()`."""
    count, block = ints[0], ints[1]
    if block > 0:
        _block_squares(w, block, norms)
    else:
        indices = ints[3 + count :]
        for m in range(count):
            s = 0.0
            for e in range(ints[2 + m], ints[3 + m]):
                s += w[indices[e]] ** 2
            norms[m] = s
    unsafe = False
    for m in range(count):
        unsafe |= not (1e-280 < norms[m] < 1e300)
        norms[m] = np.sqrt(norms[m])
    if unsafe:
        _careful_norms(w, ints, norms)


@kernel("void(float64[::1], int64[::1], float64[::1])")
def _careful_norms(w: Floats, ints: Ints, norms: Floats) -> None:
    """Recompute the norms of groups whose squares left the range of floats (or are zero)."""
    count, block = ints[0], ints[1]
    indices = ints[3 + count :] if block == 0 else ints
    for m in range(count):
        # NaN stays NaN.
        if norms[m] <= 1e-140 or norms[m] >= 1e150:
            if block > 0:
                norms[m] = norm2(w[m * block : (m + 1) * block])
            else:
                norms[m] = norm2(w[indices[ints[2 + m] : ints[3 + m]]])


@kernel("void(float64[::1], int64, float64[::1], float64[::1])")
def _scale_blocks(w: Floats, block: int, factors: Floats, out: Floats) -> None:
    """out = factors[m] * w on block m, four entries at a time."""
    rows, result = w.reshape((factors.size, block)), out.reshape((factors.size, block))
    quads = block // 4 * 4
    for m in range(factors.size):
        f = factors[m]
        for j in range(0, quads, 4):
            a, b, c, d = rows[m, j] * f, rows[m, j + 1] * f, rows[m, j + 2] * f, rows[m, j + 3] * f
            result[m, j] = a
            result[m, j + 1] = b
            result[m, j + 2] = c
            result[m, j + 3] = d
        for j in range(quads, block):
            result[m, j] = rows[m, j] * f


@kernel("void(float64[::1], int64[::1], float64[::1], float64[::1])")
def scale_groups(w: Floats, ints: Ints, factors: Floats, out: Floats) -> None:
    """out = factors[m] * w on group m, and w itself on coordinates in no group."""
    count, block = ints[0], ints[1]
    if block > 0:
        _scale_blocks(w, block, factors, out)
        return
    indices = ints[3 + count :]
    for i in range(w.size):
        out[i] = w[i]
    for m in range(count):
        f = factors[m]
        for e in range(ints[2 + m], ints[3 + m]):
            i = indices[e]
            out[i] = f * out[i]


@kernel("void(float64[::1], float64, float64[::1], float64[::1])")
def shrink_factors(norms: Floats, t: float, weights: Floats, factors: Floats) -> None:
    """max(0, 1 - t d_m / norm_m), in the form that is exact near the threshold; empty `weights` are ones."""
    for m in range(norms.size):
        cut = t * weights[m] if weights.size else t
        factors[m] = (norms[m] - cut) / norms[m] if norms[m] > cut else 0.0


class Grouped(Strength):
    """A penalty on groups of coordinates; see `spom.penalties.groups` for the forms of `groups`."""

    groups: Any
    weights: Any = None
    _overlap: ClassVar[bool] = False
    _cached: tuple[Any, Any, tuple[int, ...], Groups, Floats, Ints] | None = None

    def __init__(self, strength: float = 1.0, groups: Any = None, weights: Any = None) -> None:
        self.groups, self.weights = groups, weights
        super().__init__(strength)

    def _structure(self, shape: tuple[int, ...]) -> tuple[Groups, Floats, Ints]:
        """Return (groups, weights, packed) for arrays of this shape; kept until `groups` or `weights` is replaced."""
        held = self._cached
        if held is None or held[0] is not self.groups or held[1] is not self.weights or held[2] != shape:
            groups = resolve(self.groups, shape, overlap=self._overlap)
            weights = check_weights(self.weights, groups.count)
            held = (self.groups, self.weights, shape, groups, weights, self._pack(groups))
            self._cached = held
        return held[3:]

    def _pack(self, groups: Groups) -> Ints:
        """Return the structure in the form that the kernel takes."""
        return groups.packed()

    def _packed(self, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
        _, weights, packed = self._structure(shape)
        numbers = np.array(self._numbers(), dtype=np.float64)
        return numbers if self.weights is None else np.concatenate([numbers, weights]), packed

    @property
    def _order(self) -> float:
        """The order of the norm of a group: 2 or inf."""
        return 2.0

    @property
    def _each_block(self) -> bool:
        """Whether each block of the estimator (each row of a matrix) is a group."""
        groups = self.groups
        return groups is None or (isinstance(groups, (str, int, np.integer)) and groups in ("rows", 1))

    def _of_vector(self, groups: Any) -> Penalty:
        """Return the same penalty on a vector with these groups."""
        return self._regrouped(groups)

    def _regrouped(self, groups: Any) -> Self:
        found = copy.copy(self)
        found.groups, found._cached = groups, None
        return found

    def on_norms(self, count: int) -> Penalty | None:
        """Return the same penalty with groups of one, if each block of the estimator is a group."""
        if not self._each_block or self._order != 2.0:
            return None
        check_weights(self.weights, count)
        return self._of_vector(1)

    def on_rows(self, count: int) -> Penalty | None:
        """Return the same penalty on the vector of row norms: its groups are groups of rows."""
        return self._of_vector(self.groups) if self._order == 2.0 and not self._each_block else self.on_norms(count)

    def _sum_of_norms(self, count: int) -> NormSum | None:
        """Return strength sum d_m norm(w_m), if each block of the estimator is a group."""
        if not self._each_block:
            return None
        weights = NO_REALS if self.weights is None else check_weights(self.weights, count)
        return NormSum(self._order, float(self.strength), weights, 0.0)

    def own_blocks(self, shape: tuple[int, ...]) -> OwnBlocks | None:
        """Return the groups of the user, if they do not overlap."""
        return None if self._overlap else OwnBlocks(self._structure(shape)[0], self._regrouped(None))

    def _sum_of_maxima(self, p: int) -> Polyhedron:
        """Return abs(x_i) <= w_m for each i of group m, at the cost s d_m per unit; groups may overlap."""
        groups, weights, _ = self._structure((p,))
        members = [groups.members(m) for m in range(groups.count)]
        picks = np.concatenate(members) if members else np.zeros(0, dtype=np.int64)
        owner = np.repeat(np.arange(groups.count), [part.size for part in members])
        cover = np.ones(picks.size), (np.arange(picks.size), owner)
        cover = scipy.sparse.csr_matrix(cover, shape=(picks.size, groups.count))
        return covered(cover, self.strength * weights, scipy.sparse.identity(p, format="csr")[picks])

    def restrict(self, kept: Ints, size: int) -> Penalty | None:
        """Return the penalty with renumbered groups, without those that have become empty."""
        found = self._regrouped(self.groups)
        if self._each_block:
            found.weights = None if self.weights is None else np.asarray(self.weights)[kept]
            return found
        groups = resolve(self.groups, (size,), overlap=self._overlap)
        position = np.full(size, -1, dtype=np.int64)
        position[kept] = np.arange(kept.size)
        members = [position[groups.members(m)] for m in range(groups.count)]
        left = [m for m in range(groups.count) if (members[m] >= 0).any()]
        found.groups = [members[m][members[m] >= 0] for m in left]
        found.weights = None if self.weights is None else check_weights(self.weights, groups.count)[left]
        return found

    def group_norms(self, w: Floats) -> Floats:
        """Return norm2 of each group of w."""
        groups, _, packed = self._structure(w.shape)
        norms = np.empty(groups.count)
        # A penalty may pack its structure in its own form; this kernel takes the plain one.
        plain = packed if type(self)._pack is Grouped._pack else groups.packed()
        group_norms(w.reshape(-1), plain, norms)
        return norms

    def _uncovered(self, w: Floats) -> Floats:
        """Return the entries in no group."""
        groups = self._structure(w.shape)[0]
        if groups.block:
            return np.zeros(0)
        rest = np.ones(groups.size, dtype=bool)
        rest[groups.indices] = False
        return np.asarray(w.reshape(-1)[rest])
