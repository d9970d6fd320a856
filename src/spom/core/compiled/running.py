"""Make kernels ready to run: find their code or have it compiled, load it, and check what they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spom.core.compiled import checks, store
from spom.core.compiled.key import key_of
from spom.core.compiled.loader import Loaded, load

_lock = threading.RLock()
# Folders for compiled code of this process alone, where the user's cache cannot be written to.
temporary: list[Path] = []


def ready(kernel: Any) -> tuple[Callable[..., Any], int]:
    """The function to call, with its checks, and the address that compiled loops call."""
    with _lock:
        if kernel._run is not None and kernel._address is not None:
            return kernel._run, kernel._address
        records = store.find(kernel.name, key_of(kernel), temporary)
        if records is None:
            from spom.core.compiled.pool import compile_for

            compile_for(kernel)
            records = store.find(kernel.name, key_of(kernel), temporary)
            if records is None:
                raise RuntimeError(f"{kernel.name} was compiled and is not found; did its file change meanwhile?")
        loaded = [load(kernel.name, record) for record in records]
        plans = [checks.plan(record.arguments) for record in records]
        run = _one(kernel.name, loaded[0], plans[0]) if len(loaded) == 1 else _first_fit(kernel.name, loaded, plans)
        # Set before the lock is released: a thread that waits must not load the code once more, because the copy that
        # is then dropped is unmapped while compiled loops still call its address.
        kernel._run, kernel._address = run, loaded[0].address
        return run, loaded[0].address


def _one(name: str, loaded: Loaded, plan: list[Any]) -> Callable[..., Any]:
    entry, fits, count = loaded.entry, checks.fits, len(plan)

    def run(*args: Any) -> Any:
        if len(args) != count or not fits(args, plan):
            raise checks.explain(name, args, plan)
        return entry(*args)

    return run


def _first_fit(name: str, loaded: list[Loaded], plans: list[list[Any]]) -> Callable[..., Any]:
    pairs = [(one.entry, plan) for one, plan in zip(loaded, plans, strict=True)]

    def run(*args: Any) -> Any:
        for entry, plan in pairs:
            if len(args) == len(plan) and checks.fits(args, plan):
                return entry(*args)
        raise checks.explain(name, args, plans[0])

    return run
