"""Running kernels: find their code or compile it, load it, and check the arguments."""

from __future__ import annotations

import builtins
import ctypes
import importlib.machinery
import importlib.util
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spom.core.compiled import store
from spom.core.compiled.key import key_of, numba_folder
from spom.core.compiled.store import Record

_lock = threading.RLock()
# Folders for compiled code of this process only, used if the user's cache cannot be written to.
temporary: list[Path] = []


def ready(kernel: Any) -> tuple[Callable[..., Any], int]:
    """Return the function to call, with its checks, and the address that compiled loops call."""
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
        plans = [plan_of(record.arguments) for record in records]
        run = _one(kernel.name, loaded[0], plans[0]) if len(loaded) == 1 else _first_fit(kernel.name, loaded, plans)
        # Set before the lock is released: a waiting thread must not load the code again. The copy that is then dropped
        # would be unmapped while compiled loops still call its address.
        kernel._run, kernel._address = run, loaded[0].address
        return run, loaded[0].address


def _one(name: str, loaded: Loaded, plan: list[Any]) -> Callable[..., Any]:
    entry, count = loaded.entry, len(plan)

    def run(*args: Any) -> Any:
        if len(args) != count or not fits(args, plan):
            raise explain(name, args, plan)
        return entry(*args)

    return run


def _first_fit(name: str, loaded: list[Loaded], plans: list[list[Any]]) -> Callable[..., Any]:
    pairs = [(one.entry, plan) for one, plan in zip(loaded, plans, strict=True)]

    def run(*args: Any) -> Any:
        for entry, plan in pairs:
            if len(args) == len(plan) and fits(args, plan):
                return entry(*args)
        raise explain(name, args, plans[0])

    return run


# --- loading without the compiler -----------------------------------------------------------------------------
#
# numba's wrappers need four things at run time: LLVM's linker (from llvmlite), the C helpers of numba (three extension
# modules that do not need the rest of the package), the addresses of both, and an `Environment` per function. Importing
# numba and filling its registries would take twenty times as long.


class Loaded(NamedTuple):
    """A function ready to be called from Python, and its address for compiled callers."""

    entry: Any
    address: int


class _Runtime(NamedTuple):
    dynamic: Any
    llvm: Any
    target: Any


def _extension(name: str) -> Any:
    """Load an extension module of numba without importing numba itself."""
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
    """Return an object that compiled code refers to by its pickle: a dtype, a class or an exception."""
    data = ctypes.string_at(address, size)
    if data not in _unpickled:
        _unpickled[data] = pickle.loads(data)
    return _unpickled[data]


_UNPICKLE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(_unpickle)


@cache
def runtime() -> _Runtime:
    """Tell LLVM's linker the addresses of the helpers, once per process."""
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
    # Mathematical functions are called by their C names; most of them are already in the process.
    symbols |= {name: a for name, a in helpers.c_helpers.items() if not llvm.address_of_symbol(name)}
    for name, address in symbols.items():
        llvm.add_symbol(name, address)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return _Runtime(dynamic, llvm, target)


def _engine(run: _Runtime) -> Any:
    """Create a linker that unpickles with `_unpickle`. It owns its target machine, so each linker creates one."""
    options = {"reloc": "static"} if run.target.name.startswith("x86") else {}
    machine = run.target.create_target_machine(opt=0, codemodel="jitdefault", jit=True, **options)
    module = run.llvm.parse_assembly("declare i8* @numba_unpickle(i8*, i32, i8*)")
    engine = run.llvm.create_mcjit_compiler(module, machine)
    engine.add_global_mapping(module.get_function("numba_unpickle"), ctypes.cast(_UNPICKLE, ctypes.c_void_p).value)
    return engine


def load(name: str, record: Record) -> Loaded:
    """Link the object code of one signature, in an engine of its own, so that no names clash."""
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


# --- checks of arguments --------------------------------------------------------------------------------------
#
# Compiled code trusts its arguments. An array of the wrong kind would be misread, or read past its end. Numbers need no
# check: the compiled function converts them, and raises if it cannot.

# Bits of `ndarray.flags.num`.
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_ndarray = np.ndarray
_ORDERS = {"C": _C, "F": _F, "A": 0}


class Array:
    """The kind of array that compiled code expects: dtype, number of axes, order, and whether it is writable."""

    __slots__ = ("dtype", "flags", "ndim")

    def __init__(self, dtype: str, ndim: int, order: str, writeable: bool) -> None:
        self.dtype, self.ndim = np.dtype(dtype), ndim
        self.flags = _ALIGNED | _ORDERS[order] | (_WRITEABLE if writeable else 0)

    def __str__(self) -> str:
        order = "C-ordered " if self.flags & _C else "Fortran-ordered " if self.flags & _F else ""
        access = "writeable " if self.flags & _WRITEABLE else ""
        return f"a {access}{order}array of {self.dtype} with {self.ndim} axes"


def plan_of(arguments: Sequence[Any]) -> list[Any]:
    """Return the checks, one entry per argument: an `Array`, the plan of a tuple, or None for no check.

    >>> str(plan_of([("array", "float64", 1, "C", False)])[0])
    'a C-ordered array of float64 with 1 axes'
    """
    made: list[Any] = []
    for argument in arguments:
        if argument is None:
            made.append(None)
        elif argument[0] == "array":
            made.append(Array(*argument[1:]))
        else:
            made.append(plan_of(argument[1]))
    return made


def fits(values: Sequence[Any], kinds: Sequence[Any]) -> bool:
    """Tell whether the values may be passed to compiled code.

    A bundle may override `__len__`, so the length comes from `tuple.__len__`.
    """
    for value, kind in zip(values, kinds, strict=True):
        if kind is None:
            continue
        if type(kind) is list:
            if not isinstance(value, tuple) or tuple.__len__(value) != len(kind) or not fits(value, kind):
                return False
            continue
        if not isinstance(value, _ndarray):
            return False
        dtype, flags = value.dtype, kind.flags
        if dtype is not kind.dtype and dtype != kind.dtype:
            return False
        if value.ndim != kind.ndim or value.flags.num & flags != flags:
            return False
    return True


def explain(name: str, values: Sequence[Any], kinds: Sequence[Any]) -> TypeError:
    """Return a `TypeError` that says in one line what is wrong with the arguments."""
    if len(tuple(values)) != len(kinds):
        return TypeError(f"{name} takes {len(kinds)} arguments, not {len(values)}")
    for place, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        if fits([value], [kind]):
            continue
        if isinstance(kind, list):
            if isinstance(value, tuple) and tuple.__len__(value) == len(kind):
                return explain(f"{name}, argument {place + 1}", value, kind)
            return TypeError(f"{name}: argument {place + 1} must be a tuple of {len(kind)}")
        return TypeError(f"{name}: argument {place + 1} must be {kind}, not {_shown(value)}")
    return TypeError(f"{name}: no compiled signature takes these arguments")


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    flags = [n for n in ("C_CONTIGUOUS", "F_CONTIGUOUS", "ALIGNED", "WRITEABLE") if value.flags[n]]
    return f"an array of {value.dtype} with {value.ndim} axes ({', '.join(flags).lower()})"
