"""A process that compiles kernels, one per line of its input, and writes their code to a folder.

A separate process has two advantages: all cores are used, and numba can be set to the target processor level without
changing the numba of the main program. numba also works in another order here: the functions that a kernel calls are
linked into it unoptimised, and only the whole is optimised. By default numba optimises every function, and then every
caller again. Kernels that create no arrays are compiled without reference counts of arrays.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from spom.core.compiled import shortcuts, store
from spom.core.compiled.key import key_of
from spom.core.jit import Kernel

# Names of functions that create arrays. A kernel that uses none of them needs no reference counts, because its caller
# owns all its arrays. The counts are atomic and took up to a fifth of the time of loops that read arrays from bundles.
ALLOCATING = {"empty", "empty_like", "zeros", "zeros_like", "ones", "full", "arange", "copy", "sort", "argsort"}


def set_up() -> None:
    """Configure numba to compile without running anything."""
    # numba has no type annotations, so its modules are Any.
    numba: Any = importlib.import_module("numba.core")
    cgutils: Any = importlib.import_module("numba.core.cgutils")
    codegen: Any = importlib.import_module("numba.core.codegen")
    python: Any = importlib.import_module("numba.core.pythonapi")
    importlib.import_module("numba.experimental.function_type")
    types = numba.types
    library = codegen.JITCodeLibrary
    library.optimise = library._optimize_final_module
    library._optimize_final_module = lambda self: None
    library._finalize_specific = lambda self: None
    library.get_pointer_to_function = _no_address
    engine = codegen.JITCPUCodegen
    engine._add_module = lambda self, module: None
    engine.set_env = lambda self, name, environment: None

    def unbox_pointer(kind: Any, value: Any, c: Any) -> Any:
        """Unbox a function argument from its address, so that numba is not needed at run time."""
        made = cgutils.create_struct_proxy(kind.get_precise())(c.context, c.builder)
        number = c.pyapi.number_long(value)
        with cgutils.if_unlikely(c.builder, cgutils.is_null(c.builder, number)):
            c.builder.ret(c.pyapi.get_null_object())
        made.c_addr = c.pyapi.long_as_voidptr(number)
        c.pyapi.decref(number)
        made.py_addr = c.builder.ptrtoint(value, c.context.get_value_type(types.voidptr))
        made.jit_addr = cgutils.get_null_value(c.context.get_value_type(types.voidptr))
        return python.NativeValue(made._getvalue())

    # Replaces the unboxer that `numba.experimental.function_type` has registered.
    python._unboxers.functions[types.FunctionType] = unbox_pointer
    shortcuts.take_all()


def _no_address(library: Any, name: str) -> int:
    """Return a dummy address: nothing is called in this process."""
    library._ensure_finalized()
    return 1


_callees: dict[tuple[int, bool | None], Any] = {}


def callee(kernel: Kernel, single: bool | None) -> Any:
    """Return a kernel as other kernels call it: without an entry from Python, in one precision if it has two."""
    key = id(kernel), single
    if key not in _callees:
        if kernel.own_text() is not None:
            _callees[key] = kernel.dispatcher
        elif single is not None and not _in_two(kernel):
            _callees[key] = callee(kernel, None)
        else:
            _callees[key] = _dispatcher(kernel, single, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    return _callees[key]


def _in_two(kernel: Kernel) -> bool:
    """Tell whether the kernel, or one that it calls, exists in two precisions."""
    return not isinstance(kernel.signature, str) or any(_in_two(k) for k in kernel._called().values())


def _dispatcher(kernel: Kernel, single: bool | None, **options: Any) -> Any:
    import numba

    function, given = kernel.numba_function(lambda k: callee(k, single))
    signature = kernel.numba_signature(single)
    make: Any = numba.njit
    if returns_numbers(kernel) and not ALLOCATING.intersection(kernel.function.__code__.co_names):
        try:
            return make(signature, **given, **options, _nrt=False)(function)
        except (RuntimeError, numba.core.errors.NumbaError) as error:
            if "NRT required" not in str(error):
                raise
    return make(signature, **given, **options)(function)


def returns_numbers(kernel: Kernel) -> bool:
    """Tell whether the kernel returns no array, so that its caller owns all arrays."""
    from numba import types

    normalize: Any = importlib.import_module("numba.core.sigutils").normalize_signature
    given = kernel.numba_signature()
    results: list[Any] = [normalize(one)[1] for one in (given if isinstance(given, list) else [given])]
    tuples: Any = types.BaseTuple
    kinds = [kind for result in results for kind in (result if isinstance(result, tuples) else [result])]
    return all(isinstance(kind, (types.Number, types.Boolean, types.NoneType)) for kind in kinds)


def compile_kernel(kernel: Kernel) -> list[store.Record]:
    """Compile a kernel to object code, one record per signature."""
    normalize: Any = importlib.import_module("numba.core.sigutils").normalize_signature
    dispatcher = _dispatcher(kernel, "float32" in kernel.signature if isinstance(kernel.signature, str) else None)
    given = kernel.numba_signature()
    wanted = [tuple(normalize(s)[0]) for s in (given if isinstance(given, list) else [given])]
    return [_record(dispatcher.overloads[arguments]) for arguments in wanted]


def _record(result: Any) -> store.Record:
    library = result.library
    library.optimise()
    if result.lifted or library.has_dynamic_globals or result.reload_init:
        raise RuntimeError(f"{result.fndesc.qualname} holds addresses of this process and cannot be kept")
    environments = [(e.env_name, list(e.consts)) for e in result._find_referenced_environments()]
    return store.Record(
        library.codegen._tm.emit_object(library._final_module),
        result.fndesc.llvm_cpython_wrapper_name,
        result.fndesc.llvm_cfunc_wrapper_name,
        result.environment.env_name,
        environments,
        [_argument(kind) for kind in result.signature.args],
    )


def _argument(kind: Any) -> Any:
    """Return the checks of an argument of a numba type, or None for numbers and functions."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    if isinstance(kind, types.Array):
        return "array", as_dtype(kind.dtype).str, kind.ndim, kind.layout, kind.mutable
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        return "tuple", [_argument(k) for k in members]
    if isinstance(kind, (types.Number, types.Boolean, types.FunctionType)):
        return None
    raise TypeError(f"no way to check an argument of the type {kind}")


def named(name: str) -> Kernel:
    """Return the kernel with this name."""
    module, _, function = name.partition(":")
    found = getattr(importlib.import_module(module), function)
    if not isinstance(found, Kernel):
        raise TypeError(f"{name} is not a kernel")
    return found


def main(folder: str) -> None:
    """Read names, one per line, and answer each with a line of JSON: the CPU seconds, or an error message."""
    set_up()
    for line in sys.stdin:
        begin = time.process_time()
        try:
            kernel = named(line.strip())
            store.save(Path(folder), kernel.name, key_of(kernel), compile_kernel(kernel))
            answer: dict[str, Any] = {"seconds": time.process_time() - begin}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
