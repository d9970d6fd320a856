"""What is left of a fitted kernel machine: kept kernels, support rows with their coefficients, explicit weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints
from spom.errors import DataError, ModelFileError
from spom.kernels.base import Kernel, products, squares
from spom.kernels.features import Features, Nystroem, RandomFourier

# Entries of a block between test rows and support rows.
BATCH = 1 << 22


@dataclass
class KernelModel:
    """f(x)[y] = sum over kept kernels m and support rows i of coef[m, i, y] K_m(x, x_i), plus explicit weights.

    `kept` are the indices of the kernels among those that were given. For precomputed Gram matrices there are no
    kernels and no rows: `columns` are the training examples that carry weight.
    """

    kept: Ints
    kernels: list[Kernel]
    coef: Floats
    support: Any
    columns: Ints
    features: list[Features] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)

    def scores(self, X: Any) -> Floats:
        """(rows, labels), in batches through BLAS."""
        n, k = X.shape[0], self.coef.shape[2]
        out = np.zeros((n, k))
        step = max(16, BATCH // max(1, self.columns.size))
        shared = any(kernel.of_products for kernel in self.kernels)
        z = squares(self.support) if shared and self.columns.size else None
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            some = X[rows]
            if self.columns.size:
                self._add(out[rows], some, z)
            for phi, w in zip(self.features, self.weights, strict=True):
                out[rows] += phi.transform(some) @ w
        return out

    def _add(self, out: Floats, some: Any, z: Any) -> None:
        P: Any = None
        if z is not None:
            P, x = products(some, self.support), squares(some)
        for kernel, a in zip(self.kernels, self.coef, strict=True):
            own = kernel.of_products
            K = kernel._of_products(P.copy(), x, z) if own else kernel._block(some, self.support)
            out += K @ a.astype(K.dtype, copy=False)

    def scores_precomputed(self, blocks: Sequence[Any], n_train: int, count: int) -> Floats:
        """The same from Gram blocks between test and training examples, one for each kernel that was given."""
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
        for m, a in zip(self.kept.tolist(), self.coef, strict=True):
            out = out + blocks[m][:, self.columns] @ a
        return np.asarray(out)

    # --- files -----------------------------------------------------------------------------------------

    def packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """(state, arrays) for a model file."""
        arrays = {"kept": self.kept, "coef": self.coef, "columns": self.columns}
        if sparse.issparse(self.support):
            arrays |= {f"support.{name}": getattr(self.support, name) for name in ("data", "indices", "indptr")}
        elif self.support is not None:
            arrays["support"] = self.support
        forms = []
        for e, (phi, w) in enumerate(zip(self.features, self.weights, strict=True)):
            arrays[f"weights.{e}"] = w
            arrays |= {f"features.{e}.{name}": a for name, a in phi.arrays().items()}
            own = phi.kernel_ if isinstance(phi, Nystroem) else phi.variance  # type: ignore[attr-defined]  # two forms
            forms.append([type(phi).__name__, own, phi.components, phi.seed])
        columns = self.support.shape[1] if self.support is not None else 0
        return {"kernels": self.kernels, "forms": forms, "width": columns}, arrays

    @classmethod
    def unpacked(cls, state: dict[str, Any], arrays: dict[str, Any]) -> KernelModel:
        """The model again."""
        coef, columns = np.asarray(arrays["coef"]), np.asarray(arrays["columns"])
        if coef.ndim != 3 or coef.shape[1] != columns.size or coef.shape[0] != arrays["kept"].size:
            raise ModelFileError("the coefficients do not fit the support: the file is damaged")
        support = arrays.get("support")
        if "support.data" in arrays:
            parts = tuple(arrays[f"support.{name}"] for name in ("data", "indices", "indptr"))
            support = sparse.csr_matrix(parts, shape=(columns.size, state["width"]))
        features: list[Features] = []
        for e, (name, own, components, seed) in enumerate(state["forms"]):
            phi: Any = (Nystroem if name == "Nystroem" else RandomFourier)(own, components, seed)
            phi.map_ = np.asarray(arrays[f"features.{e}.map"])
            if name == "Nystroem":
                phi.kernel_, phi.landmarks_ = own, np.asarray(arrays[f"features.{e}.landmarks"])
            else:
                phi.shift_ = np.asarray(arrays[f"features.{e}.shift"])
            features.append(phi)
        weights = [np.asarray(arrays[f"weights.{e}"]) for e in range(len(features))]
        return cls(np.asarray(arrays["kept"]), state["kernels"], coef, support, columns, features, weights)


def model_of(
    kernels: Sequence[Kernel], A: Floats, X: Any, features: list[Features], weights: list[Floats]
) -> KernelModel:
    """Keep kernels with weight, and training rows that carry some of it."""
    kept = np.flatnonzero([a.any() for a in A]) if len(A) else np.zeros(0, dtype=np.int64)
    columns = np.flatnonzero(A[kept].any(axis=(0, 2))) if kept.size else np.zeros(0, dtype=np.int64)
    coef = np.ascontiguousarray(A[kept][:, columns]) if len(A) else A
    support = None if X is None else X[columns]
    chosen = [kernels[m] for m in kept.tolist()] if kernels else []
    return KernelModel(kept.astype(np.int64), chosen, coef, support, columns.astype(np.int64), features, weights)
