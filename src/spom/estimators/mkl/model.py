"""A fitted kernel machine: the kernels it kept, support rows with their coefficients, and explicit weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints, check_csr_arrays, is_sparse
from spom.core.container import check_shape, take
from spom.errors import DataError, ModelFileError
from spom.kernels.base import Kernel, products, squares
from spom.kernels.features import Features, Nystroem, RandomFourier
from spom.solvers.mkl.pairs import duels, votes

# Entries of a block between test rows and support rows.
BATCH = 1 << 22


@dataclass
class KernelModel:
    """f(x)[y] = sum over kept kernels m and support rows i of coef[m, i, y] K_m(x, x_i), plus explicit weights.

    `kept` are the indices of the kernels among the given ones. With precomputed Gram matrices there are no
    kernels and no rows: `columns` are the training examples with weight.

    If classes were learnt in pairs, `owner` has the class of each support row, coef[m, i, y] is its weight against
    class y, and scores are votes (`solvers.mkl.pairs`). `shift` holds the constants, with a first axis for the kernels.
    """

    kept: Ints
    kernels: list[Kernel]
    coef: Floats
    support: Any
    columns: Ints
    features: list[Features] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    owner: Ints | None = None
    shift: Floats | None = None

    def scores(self, X: Any) -> Floats:
        """Return the scores (rows, labels), computed in batches."""
        n, k = X.shape[0], self.coef.shape[2]
        out = np.zeros((n, k))
        step = max(16, BATCH // max(1, self.columns.size, k * k))
        shared = any(kernel.of_products for kernel in self.kernels)
        z = squares(self.support) if shared and self.columns.size else None
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            some = X[rows]
            if self.owner is not None:
                out[rows] = votes(np.sum([*self._parts(some, z)], axis=0))
            elif self.columns.size:
                for part in self._parts(some, z):
                    out[rows] += part
            for phi, w in zip(self.features, self.weights, strict=True):
                out[rows] += phi.transform(some) @ w
        return out

    def _parts(self, some: Any, z: Any = None) -> Iterator[Floats]:
        """Yield each kernel's part of the scores of some rows, or of f_ab; `z` has the support rows' squares."""
        P: Any = None
        if z is not None:
            P, x = products(some, self.support), squares(some)
        for m, kernel in enumerate(self.kernels):
            own = z is not None and kernel.of_products
            yield self._part(m, kernel._of_products(P.copy(), x, z) if own else kernel._block(some, self.support))

    def _part(self, m: int, K: Any) -> Floats:
        """Return the part of kernel m, from its block between rows and support rows."""
        a = self.coef[m].astype(K.dtype, copy=False)
        found = np.asarray(K @ a) if self.owner is None else duels(K, a, self.owner)
        return found if self.shift is None else found + self.shift[m]

    def by_block(self, X: Any) -> tuple[list[int], Floats]:
        """Return (numbers of the blocks, (blocks, rows, labels)): each kernel's part of the scores, explicit ones last.

        Explicit blocks, which are not kernels, are numbered from -1 downwards, in their order. With pairs of classes,
        the winner and the second each get half of their difference, and the others nothing.
        """
        found = [np.asarray(part, dtype=np.float64) for part in self._parts(X)]
        if self.owner is not None:
            found = _of_winners(np.array(found))
        found += [np.asarray(phi.transform(X) @ w) for phi, w in zip(self.features, self.weights, strict=True)]
        numbers = [*self.kept.tolist(), *(-1 - e for e in range(len(self.features)))]
        return numbers, np.array(found).reshape(len(numbers), X.shape[0], self.coef.shape[2])

    def scores_precomputed(self, blocks: Sequence[Any], n_train: int, count: int) -> Floats:
        """Return the scores from Gram blocks between test and training examples, one for each given kernel."""
        if len(blocks) != count:
            raise DataError(f"there are {len(blocks)} Gram blocks, but the model was fitted with {count}")
        out = None
        for m, block in enumerate(blocks):
            shape = np.shape(block)
            if len(shape) != 2 or shape[1] != n_train:
                what = f"must have a column for each of the {n_train} training examples; its shape is {shape}"
                raise DataError(f"Gram block {m} {what}")
            if out is None:
                out = np.zeros((shape[0], self.coef.shape[2]))
            if shape[0] != out.shape[0]:
                raise DataError(f"Gram block {m} has {shape[0]} rows, and the first has {out.shape[0]}")
        parts = [self._part(k, blocks[m][:, self.columns]) for k, m in enumerate(self.kept.tolist())]
        if self.owner is not None:
            return votes(np.sum(parts, axis=0))
        return np.asarray(sum(parts, start=np.asarray(out)))

    # --- files -----------------------------------------------------------------------------------------

    def packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Return (state, arrays) for a model file."""
        arrays = {"kept": self.kept, "coef": self.coef, "columns": self.columns}
        if is_sparse(self.support):
            arrays |= {f"support.{name}": getattr(self.support, name) for name in ("data", "indices", "indptr")}
        elif self.support is not None:
            arrays["support"] = self.support
        forms = []
        for e, (phi, w) in enumerate(zip(self.features, self.weights, strict=True)):
            arrays[f"weights.{e}"] = w
            arrays |= {f"features.{e}.{name}": a for name, a in phi.arrays().items()}
            own = phi.kernel_ if isinstance(phi, Nystroem) else phi.variance  # type: ignore[attr-defined]  # two forms
            forms.append([type(phi).__name__, own, phi.components, phi.seed])
        arrays |= {name: a for name, a in (("owner", self.owner), ("shift", self.shift)) if a is not None}
        columns = self.support.shape[1] if self.support is not None else 0
        return {"kernels": self.kernels, "forms": forms, "width": columns}, arrays

    @classmethod
    def unpacked(cls, state: dict[str, Any], arrays: dict[str, Any]) -> KernelModel:
        """Return the model restored from a model file."""
        coef, columns = take(arrays, "coef", "f", 3), take(arrays, "columns", "i")
        kept, width = take(arrays, "kept", "i"), int(state["width"])
        if kept.size == 0:
            # Explicit features alone: older files stored the number of training rows here.
            coef = coef[:, :0]
        if coef.shape[1] != columns.size or coef.shape[0] != kept.size:
            raise ModelFileError("the coefficients do not fit the support: the file is damaged")
        if not isinstance(state["kernels"], list) or not all(isinstance(k, Kernel) for k in state["kernels"]):
            raise ModelFileError("the kernels of the model are none: the file is damaged")
        if len(state["kernels"]) not in (0, kept.size) or bool((kept < 0).any() or (columns < 0).any()):
            raise ModelFileError("the kernels do not fit their coefficients: the file is damaged")
        support = None
        if "support.data" in arrays:
            data, indices, indptr = (arrays[f"support.{name}"] for name in ("data", "indices", "indptr"))
            support = check_csr_arrays((data, indices, indptr), (columns.size, width), "support")
        elif "support" in arrays:
            support = check_shape(take(arrays, "support", "f", 2), (columns.size, width), "support")
        if (support is None) != (not state["kernels"]) and columns.size:
            raise ModelFileError("the kernels do not fit their support: the file is damaged")
        features = [_map(arrays, f"features.{e}.", form, width) for e, form in enumerate(state["forms"])]
        weights = [take(arrays, f"weights.{e}", "f", 2) for e in range(len(features))]
        if any(w.shape != (phi.map_.shape[1], coef.shape[2]) for w, phi in zip(weights, features, strict=True)):
            raise ModelFileError("the weights of explicit features do not fit them: the file is damaged")
        owner, shift = _pairs(arrays, coef)
        return cls(kept, state["kernels"], coef, support, columns, features, weights, owner, shift)


def named_blocks(blocks: Sequence[Any], numbers: Sequence[int]) -> list[str]:
    """Return the names of blocks numbered as in `KernelModel.by_block`; `blocks` are the given kernels.

    >>> from spom.kernels import Gaussian, Linear
    >>> named_blocks([Gaussian(1.0), Linear()], [1, 0])
    ['Linear()', 'Gaussian(variance=1.0)']
    """
    explicit = [block for block in blocks if isinstance(block, Features)]
    explicit = explicit if len(explicit) == sum(m < 0 for m in numbers) else list(blocks)
    return [repr(blocks[m] if m >= 0 else explicit[-1 - m]) for m in numbers]


def _of_winners(parts: Floats) -> list[Floats]:
    """Return (rows, classes) of each kernel, from its part (rows, classes, classes) of all f_ab."""
    rows = np.arange(parts.shape[1])
    first, second = np.argsort(-votes(parts.sum(axis=0)), axis=1, kind="stable")[:, :2].T
    found = []
    for part in parts:
        own = np.zeros(part.shape[:2])
        own[rows, first] = 0.5 * part[rows, first, second]
        own[rows, second] = -own[rows, first]
        found.append(own)
    return found


def _pairs(arrays: dict[str, Any], coef: Floats) -> tuple[Ints | None, Floats | None]:
    """Return (owner, shift) from a model file; older files have neither."""
    owner = take(arrays, "owner", "i") if "owner" in arrays else None
    kernels, rows, classes = coef.shape
    shape = (kernels, classes) if owner is None else (kernels, classes, classes)
    shift = check_shape(take(arrays, "shift", "f", len(shape)), shape, "shift") if "shift" in arrays else None
    if owner is not None and (owner.size != rows or bool((owner < 0).any() or (owner >= classes).any())):
        raise ModelFileError("the classes of the support rows do not fit them: the file is damaged")
    return owner, shift


def _map(arrays: dict[str, Any], prefix: str, form: Any, width: int) -> Any:
    """Return explicit features of vectors with `width` entries, from a model file."""
    name, own, components, seed = form
    phi: Any = (Nystroem if name == "Nystroem" else RandomFourier)(own, components, seed)
    phi.map_ = take(arrays, f"{prefix}map", "f", 2)
    if name == "Nystroem":
        if not isinstance(own, Kernel):
            raise ModelFileError("the kernel of explicit features is none: the file is damaged")
        shape = (phi.map_.shape[0], width)
        phi.kernel_, phi.landmarks_ = own, check_shape(take(arrays, f"{prefix}landmarks", "f", 2), shape, "landmarks")
    else:
        check_shape(phi.map_, (width, phi.map_.shape[1]), f"{prefix}map")
        phi.shift_ = check_shape(take(arrays, f"{prefix}shift", "f"), (phi.map_.shape[1],), f"{prefix}shift")
    return phi


def model_of(
    kernels: Sequence[Kernel], A: Floats, X: Any, features: list[Features], weights: list[Floats]
) -> KernelModel:
    """Return the model with the kernels that have weight, and the training rows that carry some of it."""
    kept = np.flatnonzero([a.any() for a in A]) if len(A) else np.zeros(0, dtype=np.int64)
    columns = np.flatnonzero(A[kept].any(axis=(0, 2))) if kept.size else np.zeros(0, dtype=np.int64)
    coef = np.ascontiguousarray(A[kept][:, columns]) if len(A) else A[:, :0]
    support = None if X is None else X[columns]
    chosen = [kernels[m] for m in kept.tolist()] if kernels else []
    return KernelModel(kept.astype(np.int64), chosen, coef, support, columns.astype(np.int64), features, weights)
