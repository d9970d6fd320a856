"""States, which solvers yield: snapshots of a run that can be saved, and resumed with bit-identical results."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Floats, check_csr_arrays, is_sparse, under
from spom.core.container import read_file, write_file
from spom.errors import ModelFileError

# The `estimator` field of a file that holds a state.
KIND = "State"


def listed(theta: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return theta as arrays by name: one array, or those of a CSR matrix."""
    if not is_sparse(theta):
        return {"theta": theta}
    parts = {"theta.data": theta.data, "theta.indices": theta.indices, "theta.indptr": theta.indptr}
    return {**parts, "theta.shape": np.array(theta.shape)}


def unlisted(arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Return theta from the arrays of `listed`."""
    if "theta.data" not in arrays:
        return arrays["theta"]
    parts = (arrays["theta.data"], arrays["theta.indices"], arrays["theta.indptr"])
    rows, columns = arrays["theta.shape"].tolist()
    return check_csr_arrays(parts, (rows, columns), "theta")


@dataclass(frozen=True)
class Counters:
    """The cost of a run so far, as numbers of evaluations."""

    gradients: int = 0
    proxes: int = 0
    values: int = 0
    examples: int = 0


@dataclass(frozen=True)
class State:
    """One round of a solver.

    `k` rounds are done. `theta` is the iterate, a copy that later rounds do not change: an array, or a CSR matrix if
    the solver stores only nonzero weights. `objective` and `loss` are NaN if the solver did not compute them.
    `internal` holds the arrays that the solver needs to resume, and `random` the state of its random generator, as
    JSON-able numbers.

    >>> import numpy as np
    >>> state = State(k=3, theta=np.array([1.0, 0.0]))
    >>> state.nnz
    1
    """

    k: int
    theta: Any
    step: float = np.nan
    objective: float = np.nan
    loss: float = np.nan
    block_norms: Floats | None = None
    counters: Counters = field(default_factory=Counters)
    seconds: float = 0.0
    internal: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    random: dict[str, Any] | None = None

    @property
    def nnz(self) -> int:
        """The number of nonzero coordinates of theta."""
        return int(np.count_nonzero(self.theta.data if is_sparse(self.theta) else self.theta))

    def save(self, path: str | Path) -> None:
        """Write the state to one file, under a temporary name first, so that a crash loses nothing."""
        header, arrays = self.packed()
        write_file(path, KIND, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> State:
        """Read a state that `save` wrote; no code from the file is run."""
        header, arrays = read_file(path, verify=True)
        if header.estimator != KIND:
            raise ModelFileError(f"{path}: not a saved state, but a file of kind {header.estimator}")
        try:
            return cls.unpacked(header.model, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelFileError(f"{path}: not a saved state, or a damaged one ({error})") from None

    def packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Return the state as JSON-able numbers and arrays by name."""
        header = {
            "k": self.k,
            # hex keeps every bit, NaN included.
            **{name: float(getattr(self, name)).hex() for name in ("step", "objective", "loss", "seconds")},
            "counters": dict(vars(self.counters)),
            "random": self.random,
        }
        arrays = {**listed(self.theta), **{f"internal.{k}": v for k, v in self.internal.items()}}
        if self.block_norms is not None:
            arrays["block_norms"] = self.block_norms
        return header, arrays

    @classmethod
    def unpacked(cls, header: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> State:
        """Create a state from the results of `packed()`."""
        inner = under(arrays, "internal.")
        return cls(
            k=int(header["k"]),
            theta=unlisted(arrays),
            block_norms=arrays.get("block_norms"),
            counters=Counters(**{name: int(header["counters"][name]) for name in vars(Counters())}),
            internal=inner,
            random=header["random"],
            **{name: float.fromhex(header[name]) for name in ("step", "objective", "loss", "seconds")},
        )
