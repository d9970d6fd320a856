"""The key of compiled code: the kernel's own code and all that it reads, its types, the processor, the compiler.

The key names a file, so code is found wherever it was compiled: on this machine or for a wheel. It depends on no path,
no line number and no exact processor model, only on the level of the instruction set.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# Levels of the x86-64 instruction set, best first, with the features that each adds to the one below, as named by LLVM.
LEVELS = {
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
}
# How `worker` compiles. Change this text when the method changes.
METHOD = "arrays owned by callers are not counted"
# Settings of numba that do not change the code, and the processor's name, which the level covers.
_APART = {
    "NUMBA_CACHE_DIR",
    "NUMBA_CPU_NAME",
    "NUMBA_DEBUG_CACHE",
    "NUMBA_DISABLE_JIT",
    "NUMBA_NUM_THREADS",
    "NUMBA_THREADING_LAYER",
}


@cache
def level() -> str:
    """Return the level of this processor. Code is compiled for it, and shipped code must match it.

    `SPOM_CPU_LEVEL` overrides it: a wheel is compiled for a lower level than that of the build machine.
    """
    given = os.environ.get("SPOM_CPU_LEVEL") or os.environ.get("NUMBA_CPU_NAME")
    if given:
        return given
    import llvmlite.binding as llvm

    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:
        features = {}
    if platform.machine().lower() in ("x86_64", "amd64"):
        names = list(LEVELS)
        for place, name in enumerate(names):
            if all(features.get(f) for below in names[place:] for f in LEVELS[below]):
                return name
    return str(llvm.get_host_cpu_name())


def numba_folder() -> Path:
    """Return the folder of numba without importing it."""
    from importlib.util import find_spec

    found = find_spec("numba")
    if found is None or not found.submodule_search_locations:
        raise ImportError("numba is not installed; reinstall spom")
    return Path(found.submodule_search_locations[0])


@cache
def compiler() -> str:
    """Return the versions that compiled code is bound to: Python, numba, llvmlite, the system."""
    import llvmlite

    text = (numba_folder() / "_version.py").read_text()
    found = re.search(r'"version": "([^"]+)"', text)
    if found is None:
        from importlib.metadata import version

    numba = found[1] if found else version("numba")
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    return f"{python}-numba{numba}-llvmlite{llvmlite.__version__}-{sys.platform}-{platform.machine().lower()}"


@cache
def _settings() -> str:
    """Return the numba settings in the environment that change the compiled code."""
    return repr(sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and v and k not in _APART))


def key_of(kernel: Any) -> str:
    """Return the key of a kernel's compiled code on this machine."""
    text = "\n".join((compiler(), level(), _settings(), METHOD, digest(kernel)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest(kernel: Any) -> str:
    """Compute a digest of the kernel's code, types and options, and of every constant, bundle and kernel it reads."""
    if kernel.digest is None:
        found, waiting = dict[str, str](), [kernel]
        while waiting:
            one = waiting.pop()
            if _label(one) not in found:
                text, called = _own(one)
                found[_label(one)] = text
                waiting += called
        text = "\n".join(f"{label}\n{found[label]}" for label in sorted(found))
        kernel.digest = hashlib.sha256(f"{_label(kernel)}\n{text}".encode()).hexdigest()
    return str(kernel.digest)


def _label(kernel: Any) -> str:
    return f"kernel {kernel.function.__module__}:{kernel.function.__qualname__} {kernel.signature!r}"


def _own(kernel: Any) -> tuple[str, list[Any]]:
    """Return the text of a kernel itself, without its callees, and the kernels that it names."""
    own = kernel.own_text()
    if own is not None:
        return own, []
    function, words = kernel.function, repr(kernel.signature)
    options = sorted((name, sorted(v) if isinstance(v, set) else v) for name, v in kernel.options.items())
    parts = [repr(options), repr(function.__defaults__), *_code(function.__code__)]
    names = {*_names(function.__code__), *re.findall(r"[A-Za-z_]\w*", words)}
    read = _read(function.__globals__, sorted(names))
    read |= {f"cell {i}": cell.cell_contents for i, cell in enumerate(function.__closure__ or ())}
    parts += [f"{name} = {_value(value)}" for name, value in read.items()]
    return "\n".join(parts), [value for value in read.values() if hasattr(value, "own_text")]


def _code(code: CodeType) -> list[str]:
    """Return the parts of a code object that define what it does, without its location."""
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    # The first constant of a function is its docstring, if it has one.
    constants = constants[1:] if constants and isinstance(constants[0], str) else constants
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_varnames, code.co_freevars)
    # The order of a set differs from process to process.
    constants = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in constants]
    parts = [code.co_code.hex(), repr(constants), repr(code.co_names), repr(shape)]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            parts += _code(inner)
    return parts


def _names(code: CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return {*code.co_names, *(name for names in inner for name in names)}


def _read(scope: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the values that the code can read by these names: globals, and attributes of spom's own modules."""
    found = {name: scope[name] for name in names if name in scope}
    modules = {n: v for n, v in found.items() if isinstance(v, ModuleType) and v.__name__.startswith("spom.")}
    return found | {f"{n}.{name}": vars(m)[name] for n, m in modules.items() for name in names if name in vars(m)}


def _value(value: Any) -> str:
    """Return a value as text that changes when the value does."""
    from spom.core.jit import Kernel, bundle_text, is_bundle

    if isinstance(value, Kernel):
        return _label(value)
    if is_bundle(value):
        return bundle_text(value)
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, type) and hasattr(value, "__members__"):
        return f"enumeration {value.__qualname__} {[(n, m.value) for n, m in value.__members__.items()]!r}"
    if hasattr(value, "tobytes"):
        return f"{type(value).__name__} {value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, tuple):
        return f"({', '.join(_value(v) for v in value)})"
    if isinstance(value, (bool, int, float, complex, str, bytes)) or value is None:
        return f"{type(value).__name__} {value!r}"
    if hasattr(value, "__code__"):
        return "\n".join(_code(value.__code__))
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
