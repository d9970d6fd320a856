"""Prefetching: ask the processor to load an entry into its cache, some hundred cycles before it is needed.

Rows of sparse data read weights at places that no hardware can predict. The places of the *next* row are known while
the current row is processed: prefetching them hides most of the memory latency.

>>> from spom.core.jit import kernel
>>> @kernel("float64(float64[::1], int64[::1])")
... def total(w, places):
...     s = 0.0
...     for k in range(places.size):
...         prefetch(w, places[min(k + 8, places.size - 1)])
...         s += w[places[k]]
...     return s
>>> import numpy as np
>>> total(np.arange(4.0), np.array([3, 0, 3]))
6.0
"""

from __future__ import annotations

import importlib
from typing import Any

from spom.core.jit import Kernel


def _make() -> Any:
    """Create the function `prefetch(array, place)` for compiled code: `place` counts along the first axis."""
    # Neither of the two has type annotations.
    ir: Any = importlib.import_module("llvmlite.ir")
    cgutils: Any = importlib.import_module("numba.core.cgutils")
    from numba.core import types
    from numba.extending import intrinsic

    byte, i32, i64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, args[0])
        places = [context.cast(builder, args[1], signature.args[1], types.int64)]
        places += [ir.Constant(i64, 0)] * (kind.ndim - 1)
        # Nothing is read, so an address outside of the array does no harm.
        address = cgutils.get_item_pointer(context, builder, kind, array, places, wraparound=False)
        shape = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        # For reading (0), kept in all cache levels (3), data and not instructions (1).
        builder.call(function, [builder.bitcast(address, byte), *(ir.Constant(i32, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    def prefetch(_: Any, array: Any, place: Any) -> Any:
        return types.void(array, place), generate

    return intrinsic(prefetch)


class _Prefetch(Kernel):
    """A prefetch hint in compiled code; a call from Python does nothing."""

    def __call__(self, *args: Any) -> None:
        """Do nothing."""

    def own_text(self) -> str:
        """Return the code that generates the instruction, as text."""
        return f"prefetch {_make.__code__.co_code.hex()} {_make.__code__.co_names}"

    def _compile(self) -> Any:
        # With NUMBA_DISABLE_JIT=1 kernels are plain Python, which cannot call an intrinsic.
        config: Any = importlib.import_module("numba").config
        return _hint if config.DISABLE_JIT else _make()


def _hint(array: Any, place: int) -> None:
    """Load `array[place]` into the cache."""


prefetch = _Prefetch(_hint, "", {})
