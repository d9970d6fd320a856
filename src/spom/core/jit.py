"""Compiled kernels: functions that are compiled, or loaded from the cache, at their first call.

Importing a module of kernels compiles nothing. Kernels have explicit signatures, release the GIL and are cached on
disk; cached code is loaded without importing numba (`spom.core.compiled`). A kernel may call other kernels by name,
including those of other files.

Many arrays are passed as a bundle: a `NamedTuple` whose fields are annotated with their numba types,
`Annotated[Ints, "int64[::1]"]`, or are bundles themselves. A signature names the class:
`@kernel("float64(Rows, float64[::1])")`. Types must match exactly: a read-only array fits only a read-only field.

>>> @kernel("float64(float64[::1])")
... def total(w):
...     s = 0.0
...     for x in w:
...         s += x
...     return s
>>> import numpy as np
>>> total(np.arange(4.0))
6.0
"""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])

# The signature of every vector prox, so that a solver loop is compiled once and takes any of them as a typed function
# pointer: (w, step, reals, ints, out) -> None. `reals` and `ints` hold the parameters of the penalty (strength,
# weights; group structure); `out` may be `w`.
PROX = "void(float64[::1], float64, float64[::1], int64[::1], float64[::1])"
# The derivative of a loss with respect to its score: (y, score, reals) -> derivative.
DERIVATIVE = "float64(float64, float64, float64[::1])"
# The same for a loss of k scores: (class, scores, reals, out) -> value, with the derivative in `out`.
DERIVATIVE_ROW = "float64(int64, float64[::1], float64[::1], float64[::1])"


def is_bundle(thing: Any) -> bool:
    """Tell whether this is a bundle: a class of named tuples whose fields are annotated with numba types.

    >>> from typing import Annotated, NamedTuple
    >>> class Rows(NamedTuple):
    ...     indptr: Annotated[Any, "int64[::1]"]
    ...     data: Annotated[Any, "float64[::1]"]
    >>> is_bundle(Rows), is_bundle(tuple)
    (True, False)
    """
    return isinstance(thing, type) and issubclass(thing, tuple) and hasattr(thing, "_fields")


def bundle_fields(bundle: Any) -> dict[str, Any]:
    """Return the fields of a bundle: each is the string of a numba type, or another bundle."""
    hints = get_type_hints(bundle, include_extras=True)
    return {
        name: hints[name].__metadata__[0] if hasattr(hints[name], "__metadata__") else hints[name]
        for name in bundle._fields
    }


def bundles_in(text: str, known: dict[str, Any]) -> dict[str, Any]:
    """Return the bundles of a module that a signature or the type of a field names."""
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", text)))
    return {name: known[name] for name in names if is_bundle(known.get(name))}


def bundle_text(bundle: Any) -> str:
    """Return the fields of a bundle and of all bundles that they name, as text."""
    known, parts = vars(sys.modules[bundle.__module__]), []
    for name, kind in bundle_fields(bundle).items():
        inner = {"": kind} if is_bundle(kind) else bundles_in(kind, known)
        parts.append(" ".join([f"{name}: {getattr(kind, '__name__', kind)}", *map(bundle_text, inner.values())]))
    return f"{bundle.__qualname__}({', '.join(parts)})"


def numba_type(text: str, known: dict[str, Any]) -> Any:
    """Evaluate the string of a numba type or signature, which may name bundles."""
    from numba import types as kinds

    return eval(text, {**vars(kinds), **{name: bundle_type(kind) for name, kind in bundles_in(text, known).items()}})


def bundle_type(bundle: Any) -> Any:
    """Return the numba type of a bundle."""
    from numba import types as kinds

    known, fields = vars(sys.modules[bundle.__module__]), bundle_fields(bundle).values()
    found = tuple(bundle_type(kind) if is_bundle(kind) else numba_type(kind, known) for kind in fields)
    make: Any = kinds.BaseTuple.from_types
    return make(found, bundle)


def switched_off() -> bool:
    """Tell whether kernels run as plain Python: `NUMBA_DISABLE_JIT=1`."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


class Kernel:
    """A function that is compiled, or loaded from the cache of compiled code, when it is first called.

    Kernels of this package are compiled in separate processes and loaded without numba. Kernels defined elsewhere are
    compiled by numba in this process and kept in numba's cache; `dispatcher` is then the numba function.
    """

    def __init__(self, function: Callable[..., Any], signature: str | list[str], options: dict[str, Any]) -> None:
        self.function, self.signature, self.options = function, signature, options
        self.digest: str | None = None
        self._run: Callable[..., Any] | None = None
        self._dispatcher: Callable[..., Any] | None = None
        self._address: int | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *args: Any) -> Any:
        """Run the compiled function."""
        return (self._run or self._ready())(*args)

    @property
    def name(self) -> str:
        """`module:name`, by which a compiler process finds the kernel."""
        return f"{self.__module__}:{self._bound() or self.function.__qualname__}"

    def _bound(self) -> str | None:
        """Return the name of this kernel in its module, or None if it has none."""
        scope: dict[str, Any] = self.function.__globals__
        if scope.get(self.__name__) is self:
            return str(self.__name__)
        return next((str(name) for name, value in scope.items() if value is self), None)

    def _ready(self) -> Callable[..., Any]:
        """Load the compiled code, compiling it first if it is missing."""
        if self._run is None:
            if switched_off():
                self._run = self.function
            elif self.is_ours():
                from spom.core.compiled.running import ready

                self._run, self._address = ready(self)
            else:
                self._run = self.dispatcher
        return self._run

    def is_ours(self) -> bool:
        """Tell whether this kernel belongs to this package, where a compiler process finds it by its name."""
        return self.__module__.startswith("spom.") and self._bound() is not None

    @property
    def address(self) -> int | None:
        """The address that compiled loops call; None if numba has compiled the kernel in this process."""
        self._ready()
        return self._address

    @property
    def dispatcher(self) -> Any:
        """The numba function, compiled in this process; other kernels that are compiled here call it."""
        if self._dispatcher is None:
            self._dispatcher = self._compile()
        return self._dispatcher

    def own_text(self) -> str | None:
        """Return the text that the digest uses in place of the code, or None to use the code."""
        return None

    def _called(self) -> dict[str, Kernel]:
        names = self.function.__code__.co_names
        found = {name: self.function.__globals__.get(name) for name in names}
        return {name: value for name, value in found.items() if isinstance(value, Kernel) and value is not self}

    def _bundles(self) -> dict[str, Any]:
        """Return the bundles that the signature or the code names."""
        text = self.signature if isinstance(self.signature, str) else " ".join(self.signature)
        return bundles_in(" ".join([text, *self.function.__code__.co_names]), self.function.__globals__)

    def numba_signature(self, single: bool | None = None) -> Any:
        """Return the signature for numba: a string, or the evaluated signature if it names bundles.

        Of several signatures, return those with float32 if `single` is True, those without if it is False, and all if
        it is None or no signature matches.
        """
        if isinstance(self.signature, str):
            return numba_type(self.signature, self.function.__globals__) if self._bundles() else self.signature
        kept = [s for s in self.signature if single in (None, "float32" in s)] or self.signature
        return [numba_type(signature, self.function.__globals__) for signature in kept]

    def numba_function(self, callee: Callable[[Kernel], Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the plain function, each kernel that it calls replaced by `callee(kernel)`, and numba's options."""
        scope = {**self.function.__globals__, **{name: callee(k) for name, k in self._called().items()}}
        function = types.FunctionType(
            self.function.__code__, scope, self.__name__, self.function.__defaults__, self.function.__closure__
        )
        function.__module__, function.__qualname__ = self.__module__, self.function.__qualname__
        return function, {"nogil": True, "error_model": "numpy", **self.options}

    def _compile(self) -> Callable[..., Any]:
        import numba

        from spom.core.compiled.key import digest

        function, options = self.numba_function(lambda k: k.dispatcher)
        # numba's cache checks only the caller's file. With a digest of all that the code reads in its name, a caller
        # cannot become stale when a helper or constant is edited.
        function.__qualname__ = f"{self.function.__qualname__}_{digest(self)[:12]}"
        try:
            made = numba.njit(self.numba_signature(), **{"cache": True, **options})(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            # Neither the folder of the file nor the user's cache is writable: compile for this process only.
            made = numba.njit(self.numba_signature(), **{**options, "cache": False})(function)
        return cast("Callable[..., Any]", made)


def kernel(signature: str | list[str], **options: Any) -> Callable[[F], F]:
    """Mark a function as a compiled kernel with one explicit numba signature (or a list of them).

    `options` are passed to `numba.njit`. `fastmath={"reassoc"}` allows sums to be vectorised. It is the only fast-math
    flag in use, because the others change the treatment of NaN.
    """

    def mark(function: F) -> F:
        return cast("F", Kernel(function, signature, options))

    return mark


# --- pointers -------------------------------------------------------------------------------------------------
#
# A loop that takes any loss or prox is given its address. The pointer keeps the compiled function alive.


class Pointer:
    """The address of a compiled kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.address = kernel.address or self._numba_address()

    def __index__(self) -> int:
        return self.address

    def __wrapper_address__(self) -> int:
        """Return the address; numba calls this method."""
        return self.address

    @property
    def _numba_type_(self) -> Any:
        """The type, which numba reads for loops that are compiled in this process."""
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
    """Return the pointer to a kernel, which a loop takes as a function argument."""
    if not isinstance(kernel, Kernel) or kernel._ready() is kernel.function:
        # With compilation switched off, loops are plain Python and take plain functions.
        return kernel
    held = _found.get(id(kernel))
    if held is None:
        held = _found[id(kernel)] = (kernel, Pointer(kernel))
    return held[1]
