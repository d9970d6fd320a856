"""Typed function pointers that are found once.

A loop that takes any loss or prox gets its address. The pointer keeps the compiled function alive.
"""

from __future__ import annotations

from typing import Any

from spom.core.jit import Kernel


class Pointer:
    """The address of a compiled kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.address = kernel.address or self._numba_address()

    def __index__(self) -> int:
        return self.address

    def __wrapper_address__(self) -> int:
        """The address, where numba asks for it."""
        return self.address

    @property
    def _numba_type_(self) -> Any:
        """The type, where numba asks for it: for loops that are compiled in this process."""
        from numba import types
        from numba.core import sigutils

        normalize: Any = sigutils.normalize_signature
        arguments, result = normalize(self.kernel.numba_signature())
        return types.FunctionType(result(*arguments))

    def _numba_address(self) -> int:
        from numba.experimental import function_type

        find: Any = function_type._get_wrapper_address
        dispatcher = self.kernel.dispatcher
        (compiled,) = dispatcher.nopython_signatures
        return int(find(dispatcher, compiled))


_found: dict[int, tuple[Any, Any]] = {}


def pointer(kernel: Any) -> Any:
    """The pointer to a kernel: what a loop takes as a function."""
    if not isinstance(kernel, Kernel) or kernel._ready() is kernel.function:
        # Compilation is switched off: the loops are plain Python and take plain functions.
        return kernel
    held = _found.get(id(kernel))
    if held is None:
        held = _found[id(kernel)] = (kernel, Pointer(kernel))
    return held[1]
