"""The identity of a checkpoint: data, labels, templates, parameters, version, machine; compared field by field."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spom.core.arrays import is_sparse
from spom.errors import DataError

# Nested names of fields, such as `parameters.penalty.strength`, with their values.
Fingerprint = dict[str, Any]

# Parameters that do not change the result, and the number of passes, because a run may be extended.
NOT_COMPARED = ("verbose", "callbacks", "epochs", "label_epochs", "max_iter", "engine")
# The maximum number of differences that an error names.
SHOWN = 3


def digest(*parts: Any) -> str:
    """Return a short hash of the contents of arrays (dense or CSR), text and None.

    >>> digest(np.arange(3)) == digest(np.arange(3)), digest(np.arange(3)) == digest(np.arange(3.0))
    (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        if is_sparse(part):
            csr = part.tocsr()
            for array in (np.array(csr.shape), csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data):
                _add(found, array)
        elif isinstance(part, np.ndarray) and part.dtype.kind in "biufc":
            _add(found, part)
        else:
            found.update(repr(part.tolist() if isinstance(part, np.ndarray) else part).encode())
    return found.hexdigest()[:32]


def _add(found: Any, array: np.ndarray[Any, Any]) -> None:
    found.update(f"{array.dtype.str}{array.shape}".encode())
    if array.size:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def digest_of_file(path: Any) -> dict[str, Any]:
    """Return the size of a file and a hash of its bytes."""
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()[:32]
        return {"bytes": file.tell(), "digest": found}


def described(value: Any) -> Any:
    """Return a parameter as JSON, the same in every process: operators by class and parameters, arrays by digest.

    >>> from spom.penalties import L1
    >>> described(L1(0.5))
    {'class': 'L1', 'strength': 0.5}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else str(value)
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    if isinstance(value, np.ndarray) or is_sparse(value):
        return digest(value)
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if isinstance(value, dict):
        return {str(k): described(v) for k, v in value.items()}
    if hasattr(value, "get_params") and not isinstance(value, type):
        return {"class": type(value).__name__, **{k: described(v) for k, v in value.get_params(deep=False).items()}}
    name = getattr(value, "__qualname__", None)
    return name if name is not None else type(value).__name__


def fingerprint_of(estimator: Any, contents: Callable[[], dict[str, Any]]) -> Fingerprint:
    """Return all fields for an estimator and the contents it learns from."""
    from spom import __version__

    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in NOT_COMPARED}
    return {
        "version": __version__,
        "machine": target(),
        "estimator": type(estimator).__name__,
        "parameters": {k: described(v) for k, v in params.items()},
        **contents(),
    }


def target() -> str:
    """Return the instruction set that kernels are compiled for: others may round differently."""
    from spom.core.compiled.key import level
    from spom.core.jit import switched_off

    return "not compiled" if switched_off() else level()


def differences(kept: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield the fields that differ, each as a sentence."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*kept, *now]):
            if name not in kept or name not in now:
                yield f"{where}{name} was {_short(kept.get(name))}, now it is {_short(now.get(name))}"
            else:
                yield from differences(kept[name], now[name], f"{where}{name}.")
    elif kept != now:
        yield f"{where[:-1]} was {_short(kept)}, now it is {_short(now)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_same_run(path: Any, kept: Fingerprint, now: Fingerprint) -> None:
    """Raise a `DataError` that names the differences if the checkpoint is of another run."""
    found = list(differences(kept, now))
    if found:
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise DataError(
            f"the checkpoint is of another run: {'; '.join(found[:SHOWN])}{more}. Resume with the same data and "
            "parameters, or start without resume",
            str(path),
        )
