"""Let numba reach the same code in less time. Two thirds of its time goes into its own work before LLVM's.

Each shortcut leaves out work whose result a process of the compiler has no use for.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

# Flags that say how a function is entered from outside. What it calls does not depend on them.
_ENTRIES = ("no_cpython_wrapper", "no_cfunc_wrapper")


def take_all() -> None:
    """Take every shortcut."""
    gc.set_threshold(200_000, 20, 100)
    plain_messages()
    one_copy_of_helpers()


def plain_messages() -> None:
    """Leave out what only a person would read."""
    arrays, errors = _of("np.arrayobj"), _of("core.errors")
    # An assignment to a slice whose shapes differ compiles the printing of numbers, for two seconds, to name them.
    for template in _of("core.typing.templates").builtin_registry.functions:
        if getattr(template, "key", None) is arrays.raise_with_shape_context:
            template._overload_func = staticmethod(arrays.ol_raise_with_shape_context_generic)
    # Candidates that do not fit are reported in colour, though another one fits.
    scheme = type(errors.termcolor())
    for name in ("code", "errmsg", "filename", "indicate", "highlight"):
        setattr(scheme, name, lambda self, text: text)


def one_copy_of_helpers() -> None:
    """Compile what numba adds to a kernel once for all kernels that are compiled alike, and with one way in."""
    flags, lower = _of("core.compiler").Flags, _of("core.lowering").Lower
    defaults = {name: option.default for name, option in flags.options.items() if name not in _ENTRIES}

    def values(self: Any) -> dict[str, Any]:
        return defaults | {name: value for name, value in self._values.items() if name not in _ENTRIES}

    flags.values = values
    # numba's own hash is the same for all flags, so that look-ups compare each with each; a hash of every flag took 3 %
    # of a compilation.
    flags.__hash__ = lambda self: hash(self._values.get("nrt", False))
    create = lower.create_cfunc_wrapper

    def create_wrapper(self: Any) -> None:
        if not self.fndesc.modname.startswith("numba."):
            create(self)

    lower.create_cfunc_wrapper = create_wrapper


def _of(name: str) -> Any:
    """A module of numba, which has no types."""
    return importlib.import_module(f"numba.{name}")
