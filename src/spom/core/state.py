"""What a solver yields: a snapshot of a run that can be saved, and resumed to the same bits."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.errors import ModelFileError

FORMAT = 1


@dataclass(frozen=True)
class Counters:
    """What a run has cost so far, counted honestly."""

    gradients: int = 0
    proxes: int = 0
    values: int = 0
    examples: int = 0


@dataclass(frozen=True)
class State:
    """One round of a solver.

    `k` rounds are done; `theta` is the iterate, a copy that later rounds do not touch; `objective` and
    `loss` are NaN where the solver did not compute them. `internal` holds whatever else the solver needs
    to go on, as arrays; `random` the state of its random generator, as JSON-able numbers.

    >>> import numpy as np
    >>> state = State(k=3, theta=np.array([1.0, 0.0]))
    >>> state.nnz
    1
    """

    k: int
    theta: Floats
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
        """The number of coordinates of theta that are not zero."""
        return int(np.count_nonzero(self.theta))

    def save(self, path: str | Path) -> None:
        """Write the state to one file, under a temporary name first, so that a crash loses nothing."""
        path = Path(path)
        scalars = {
            "format": FORMAT,
            "k": self.k,
            # hex keeps every bit, NaN included.
            **{name: float(getattr(self, name)).hex() for name in ("step", "objective", "loss", "seconds")},
            "counters": vars(self.counters),
            "random": self.random,
        }
        arrays = {"theta": self.theta, **{f"internal.{k}": v for k, v in self.internal.items()}}
        if self.block_norms is not None:
            arrays["block_norms"] = self.block_norms
        header = np.frombuffer(json.dumps(scalars).encode(), dtype=np.uint8)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, header=header, **arrays)  # type: ignore[arg-type]  # numpy types **kwds as bool
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | Path) -> State:
        """Read a state that `save` wrote; runs no code from the file."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            scalars = json.loads(arrays.pop("header").tobytes())
            if scalars["format"] > FORMAT:
                raise ModelFileError(f"{path}: written by a newer spom (state format {scalars['format']})")
            return cls(
                k=int(scalars["k"]),
                theta=arrays.pop("theta"),
                block_norms=arrays.pop("block_norms", None),
                counters=Counters(**scalars["counters"]),
                internal={name.removeprefix("internal."): a for name, a in arrays.items()},
                random=scalars["random"],
                **{name: float.fromhex(scalars[name]) for name in ("step", "objective", "loss", "seconds")},
            )
        except (OSError, ModelFileError):
            raise
        except Exception as error:
            raise ModelFileError(f"{path}: not a saved state, or a damaged one ({error})") from None
