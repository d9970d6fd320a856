"""Load compiled code without the compiler.

numba's wrappers need four things at run time: LLVM's linker (from llvmlite), the C helpers of numba (three extension
modules that do not need the rest of the package), the addresses of both, and an `Environment` per function. Importing
numba and filling its registries takes twenty times as long.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib.machinery
import importlib.util
import pickle
import sys
from functools import cache
from typing import Any, NamedTuple

from spom.core.compiled.key import numba_folder
from spom.core.compiled.store import Record


class Loaded(NamedTuple):
    """A function ready to be called from Python, and its address for compiled callers."""

    entry: Any
    address: int


class _Runtime(NamedTuple):
    dynamic: Any
    llvm: Any
    target: Any


def _extension(name: str) -> Any:
    """An extension module of numba; numba itself is not imported."""
    known = sys.modules.get(name)
    if known is not None:
        return known
    base = numba_folder().joinpath(*name.split(".")[1:])
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = base.with_name(base.name + suffix)
        if path.exists():
            loader = importlib.machinery.ExtensionFileLoader(name, str(path))
            module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader, origin=str(path)))
            loader.exec_module(module)
            return module
    raise ImportError(f"numba has no {name}")


_unpickled: dict[bytes, Any] = {}


def _unpickle(address: int, size: int, _: int) -> Any:
    """What compiled code asks for by value: dtypes, classes, exceptions."""
    data = ctypes.string_at(address, size)
    if data not in _unpickled:
        _unpickled[data] = pickle.loads(data)
    return _unpickled[data]


_UNPICKLE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(_unpickle)


@cache
def runtime() -> _Runtime:
    """Tell LLVM's linker where the helpers are; once per process."""
    import llvmlite.binding as llvm
    import numpy  # noqa: F401 - the helpers use its C interface

    helpers, dynamic = _extension("numba._helperlib"), _extension("numba._dynfunc")
    memory = _extension("numba.core.runtime._nrt_python")
    memory.memsys_use_cpython_allocator()
    symbols = {"_Py_NoneStruct": id(None)}
    symbols |= {f"numba_{name}": a for module in (helpers, dynamic) for name, a in module.c_helpers.items()}
    symbols |= {name if name.startswith("_") else f"NRT_{name}": a for name, a in memory.c_helpers.items()}
    symbols |= {
        f"PyExc_{kind.__name__}": id(kind)
        for kind in vars(builtins).values()
        if isinstance(kind, type) and issubclass(kind, BaseException)
    }
    # Mathematical functions are called by their C names; all but a few are in the process already.
    symbols |= {name: a for name, a in helpers.c_helpers.items() if not llvm.address_of_symbol(name)}
    for name, address in symbols.items():
        llvm.add_symbol(name, address)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return _Runtime(dynamic, llvm, target)


def _engine(run: _Runtime) -> Any:
    """A linker with our own way to unpickle. It owns the description of the machine, so that each has one."""
    options = {"reloc": "static"} if run.target.name.startswith("x86") else {}
    machine = run.target.create_target_machine(opt=0, codemodel="jitdefault", jit=True, **options)
    module = run.llvm.parse_assembly("declare i8* @numba_unpickle(i8*, i32, i8*)")
    engine = run.llvm.create_mcjit_compiler(module, machine)
    engine.add_global_mapping(module.get_function("numba_unpickle"), ctypes.cast(_UNPICKLE, ctypes.c_void_p).value)
    return engine


def load(name: str, record: Record) -> Loaded:
    """Link the object code of one signature. It has an engine to itself, so that no names can clash."""
    run = runtime()
    engine = _engine(run)
    engine.add_object_file(run.llvm.ObjectFileRef.from_data(record.code))
    engine.finalize_object()
    own, kept = None, [engine]
    for symbol, constants in record.environments:
        environment = run.dynamic.Environment({})
        environment.consts.extend(constants)
        kept.append(environment)
        ctypes.c_void_p.from_address(engine.get_global_value_address(symbol)).value = id(environment)
        if symbol == record.environment:
            own = environment
    wrapper = engine.get_function_address(record.wrapper)
    short = name.rpartition(":")[2]
    entry = run.dynamic.make_function(sys, short, f"compiled {name}", wrapper, own, tuple(kept))
    return Loaded(entry, engine.get_function_address(record.pointer))
