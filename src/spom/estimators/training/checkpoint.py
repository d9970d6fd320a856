"""Checkpoints: one file format for all learners; the last two checkpoints are kept.

The file is a container, like a model file (see `spom.core.container`). Its header has the fingerprint of the run, the
seed, the current stage with its state, best score and count of epochs without an improvement, and the history. Its
arrays are those of the state (`state.`), of the best epoch (`best.`) and of finished stages (`done.NAME.`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, under
from spom.core.atomic import previous
from spom.core.container import read_file, write_file
from spom.core.state import State
from spom.errors import DataError, ModelFileError
from spom.estimators.training.fingerprint import Fingerprint

KIND = "Checkpoint"


@dataclass
class Checkpoint:
    """The data needed to resume a run, to the same bits."""

    fingerprint: Fingerprint
    seed: int | None
    stage: str
    state: State | None
    best: Arrays | None
    best_score: float
    bad: int
    epochs: int
    history: list[dict[str, Any]]
    done: dict[str, Arrays] = field(default_factory=dict)
    # Whether patience or a rule has ended a stage.
    converged: bool = False
    # The number of epochs requested for each finished stage.
    asked: dict[str, int | None] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file; the previous one is kept as `previous(path)`."""
        header: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "stage": self.stage,
            "best_score": float(self.best_score).hex(),
            "bad": self.bad,
            "epochs": self.epochs,
            "converged": self.converged,
            # Pairs, because headers are sorted by key, and the last entry must keep its order in the model file.
            "history": [
                [[name, _plain(value, f"history.{i}.{name}")] for name, value in entry.items()]
                for i, entry in enumerate(self.history)
            ],
            "done": {name: self.asked.get(name) for name in self.done},
            "best": self.best is not None,
            "state": None,
        }
        arrays: Arrays = {
            f"history.{i}.{name}": value
            for i, entry in enumerate(self.history)
            for name, value in entry.items()
            if isinstance(value, np.ndarray)
        }
        if self.state is not None:
            header["state"], own = self.state.packed()
            arrays |= {f"state.{name}": a for name, a in own.items()}
        arrays |= {f"best.{name}": a for name, a in (self.best or {}).items()}
        for stage, model in self.done.items():
            arrays |= {f"done.{stage}.{name}": a for name, a in model.items()}
        write_file(path, KIND, header, arrays, keep=True)

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Read the checkpoint at `path`, or the previous one if that is damaged; raise an error if there is none."""
        if not path.exists() and not previous(path).exists():
            raise DataError("there is no checkpoint to resume from; start without resume", str(path))
        try:
            return cls._read(path)
        except (ModelFileError, OSError):
            if not previous(path).exists():
                raise
            return cls._read(previous(path))

    @classmethod
    def _read(cls, path: Path) -> Checkpoint:
        header, arrays = read_file(path, verify=True)
        if header.estimator != KIND:
            raise ModelFileError(f"{path}: not a checkpoint, but a file of kind {header.estimator}")
        try:
            found = header.model
            state = None if found["state"] is None else State.unpacked(found["state"], under(arrays, "state."))
            checkpoint = cls(
                fingerprint=dict(found["fingerprint"]),
                seed=None if found["seed"] is None else int(found["seed"]),
                stage=str(found["stage"]),
                state=state,
                best=under(arrays, "best.") if found["best"] else None,
                best_score=float.fromhex(found["best_score"]),
                bad=int(found["bad"]),
                epochs=int(found["epochs"]),
                converged=bool(found["converged"]),
                history=[_entry(entry, arrays) for entry in found["history"]],
                done={str(name): under(arrays, f"done.{name}.") for name in found["done"]},
                asked={str(name): count for name, count in found["done"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise ModelFileError(f"{path}: a damaged checkpoint ({error})") from None
        if checkpoint.seed is not None and not 0 <= checkpoint.seed < 1 << 63:
            raise ModelFileError(f"{path}: a damaged checkpoint (the seed {checkpoint.seed})")
        if checkpoint.bad < 0 or checkpoint.epochs < 0 or math.isnan(checkpoint.best_score):
            raise ModelFileError(f"{path}: a damaged checkpoint (best score {checkpoint.best_score})")
        return checkpoint


def check_like(given: Arrays, like: Arrays, path: Path) -> Arrays:
    """Return `given`, or raise an error if names, shapes or dtypes differ from `like`, or numbers are not finite.

    An array that is empty in `like` may have any length.
    """
    for name in dict.fromkeys([*given, *like]):
        fits = name in given and name in like
        fits = fits and given[name].dtype == like[name].dtype and given[name].ndim == like[name].ndim
        fits = fits and (given[name].shape == like[name].shape or like[name].size == 0)
        if not fits:
            raise ModelFileError(f"{path}: the array {name!r} of the best epoch does not fit this run")
        if given[name].dtype.kind == "f" and not np.isfinite(given[name]).all():
            raise ModelFileError(f"{path}: the array {name!r} of the best epoch has entries that are not finite")
    return given


def _plain(value: Any, name: str) -> Any:
    """Return a value of a history as JSON: an array by its name, a non-finite number as hex."""
    if isinstance(value, np.ndarray):
        return {"array": name}
    if isinstance(value, np.generic):
        value = value.item()
    return {"float": value.hex()} if isinstance(value, float) and not math.isfinite(value) else value


def _entry(written: list[list[Any]], arrays: Arrays) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in written:
        if isinstance(value, dict):
            value = arrays[value["array"]] if "array" in value else float.fromhex(value["float"])
        found[str(name)] = value
    if type(found.get("epoch")) is not int or not isinstance(found.get("seconds", 0.0), float):
        raise ValueError("an entry of the history has no epoch, or no time")
    return found
