"""Typed function pointers that are found once.

numba looks the address of a compiled function up again whenever one is passed to a loop, which takes a third of a
millisecond: as long as a small pass over data. A pointer here keeps its address.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from spom.core.jit import Kernel


@cache
def _class() -> type:
    from numba import types

    class Pointer(types.WrapperAddressProtocol):
        """The address of a compiled function, and its signature; it keeps the function alive."""

        def __init__(self, dispatcher: Any) -> None:
            from numba.experimental import function_type

            find: Any = function_type._get_wrapper_address
            self.dispatcher = dispatcher
            (self.compiled,) = dispatcher.nopython_signatures
            self.address = find(dispatcher, self.compiled)

        def __wrapper_address__(self) -> int:
            return int(self.address)

        def signature(self) -> Any:
            """The signature that numba asks for."""
            return self.compiled

    return Pointer


_found: dict[int, tuple[Any, Any]] = {}


def pointer(kernel: Any) -> Any:
    """The pointer to a kernel: what a loop takes as a function."""
    dispatcher = kernel.dispatcher if isinstance(kernel, Kernel) else kernel
    if not hasattr(dispatcher, "nopython_signatures"):
        # Compilation is switched off: the loops are plain Python and take plain functions.
        return dispatcher
    held = _found.get(id(dispatcher))
    if held is None:
        held = _found[id(dispatcher)] = (dispatcher, _class()(dispatcher))
    return held[1]
