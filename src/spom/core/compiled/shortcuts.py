"""Shortcuts that let numba produce the same code in less time. Two thirds of its time is spent before LLVM runs.

Each shortcut skips work whose result a compiler process does not use.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

# Flags that say how a function is entered from outside. Its callees do not depend on them.
_ENTRIES = ("no_cpython_wrapper", "no_cfunc_wrapper")


def take_all() -> None:
    """Apply all shortcuts."""
    gc.set_threshold(200_000, 20, 100)
    plain_messages()
    one_copy_of_helpers()


def plain_messages() -> None:
    """Skip work that only serves messages to people."""
    arrays, errors = _of("np.arrayobj"), _of("core.errors")
    # For the error of a slice assignment with different shapes, numba compiles number formatting, which takes 2 s.
    for template in _of("core.typing.templates").builtin_registry.functions:
        if getattr(template, "key", None) is arrays.raise_with_shape_context:
            template._overload_func = staticmethod(arrays.ol_raise_with_shape_context_generic)
    # Candidates that do not fit are formatted in colour even if another one fits.
    scheme = type(errors.termcolor())
    for name in ("code", "errmsg", "filename", "indicate", "highlight"):
        setattr(scheme, name, lambda self, text: text)


def one_copy_of_helpers() -> None:
    """Compile numba's helper functions once for all kernels with the same flags, and with a single entry point."""
    flags, lower = _of("core.compiler").Flags, _of("core.lowering").Lower
    defaults = {name: option.default for name, option in flags.options.items() if name not in _ENTRIES}

    def values(self: Any) -> dict[str, Any]:
        return defaults | {name: value for name, value in self._values.items() if name not in _ENTRIES}

    flags.values = values
    # numba's own hash is the same for all flags, so look-ups compare all pairs; a hash of every flag took 3 % of a
    # compilation.
    flags.__hash__ = lambda self: hash(self._values.get("nrt", False))
    create = lower.create_cfunc_wrapper

    def create_wrapper(self: Any) -> None:
        if not self.fndesc.modname.startswith("numba."):
            create(self)

    lower.create_cfunc_wrapper = create_wrapper


def _of(name: str) -> Any:
    """Import a module of numba as Any, because numba has no type annotations."""
    return importlib.import_module(f"numba.{name}")
