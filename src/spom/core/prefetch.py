"""Ask the processor to bring an entry into its cache, some hundred cycles before it is needed.

Rows of sparse data meet weights at places that no hardware can guess. The places of the *next* row are known while
this one is worked on: asking for them early hides most of the wait for memory.

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
    """The function `prefetch(array, place)` for compiled code: `place` counts along the first axis."""
    # Neither of the two has types.
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
        # Nothing is read, so that an address outside of the array does no harm.
        address = cgutils.get_item_pointer(context, builder, kind, array, places, wraparound=False)
        shape = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        # To read (0), to be kept in all caches (3), data (1).
        builder.call(function, [builder.bitcast(address, byte), *(ir.Constant(i32, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    def prefetch(_: Any, array: Any, place: Any) -> Any:
        return types.void(array, place), generate

    return intrinsic(prefetch)


class _Prefetch(Kernel):
    """In compiled code a hint; called from Python it does nothing."""

    def __call__(self, *args: Any) -> None:
        """Nothing."""

    def own_text(self) -> str:
        """The code that generates the instruction."""
        return f"prefetch {_make.__code__.co_code.hex()} {_make.__code__.co_names}"

    def _compile(self) -> Any:
        # With NUMBA_DISABLE_JIT=1 kernels are plain Python, which cannot call an intrinsic.
        config: Any = importlib.import_module("numba").config
        return _hint if config.DISABLE_JIT else _make()


def _hint(array: Any, place: int) -> None:
    """Bring `array[place]` into the cache."""


prefetch = _Prefetch(_hint, "", {})
