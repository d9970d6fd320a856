"""The mutations of `mutate.py` without compiling: one pytest process runs the loops as plain Python, and forks.

With `NUMBA_DISABLE_JIT=1` a kernel is a Python function, so a mutation is a change of its code in memory, tried in a
fork of the process that has collected the tests. The tests run once without a change. Those that fail as plain Python
or take more than `LONG` CPU seconds are skipped. The others are run for the mutations of the kernels that they call,
the quickest first. A mutation that survives may still be caught by a test that was skipped. One that is caught by an
index out of range might not be noticed by the compiled loop.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

# CPU seconds of the longest test that is used, and of all tests of one mutation.
LONG, BUDGET = 3.0, 30.0


def survivors_of(
    sources: dict[Path, str], sample: list[Any], tests: list[str], report: Callable[..., None]
) -> list[Any]:
    """Try each mutation, report it, and return those that no test noticed."""
    import pytest

    plugin = _Forks(sources, sample, report)
    arguments = [
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::RuntimeWarning",
        "--capture=sys",
        "--tb=no",
    ]
    pytest.main([*arguments, *tests], plugins=[plugin])
    if plugin.tried < len(sample):
        raise SystemExit("pytest stopped before the mutations were tried")
    return plugin.survivors


class _Forks:
    """The plugin, which replaces the loop over tests."""

    def __init__(self, sources: dict[Path, str], sample: list[Any], report: Callable[..., None]) -> None:
        self.sources, self.sample, self.report = sources, sample, report
        self.survivors: list[Any] = []
        self.tried = 0
        self.callers: dict[tuple[str, str], list[tuple[float, Any]]] = {}
        self.unusable: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember which tests do not pass."""
        if not report.passed:
            self.unusable.add(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the tests once, then the mutations."""
        if session.testsfailed:
            print(f"{session.testsfailed} files of tests cannot be imported, and are left out", file=sys.__stderr__)
        self._find_callers(session)
        for found in self.callers.values():
            found.sort(key=lambda pair: pair[0])
        for mutation in self.sample:
            child = os.fork()
            if child == 0:
                os._exit(self._try(session, mutation))
            how = {0: None, 1: "test failed", 2: "too slow"}.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if how is None:
                self.survivors.append(mutation)
            self.tried += 1
            self.report(mutation, how)
        session.testsfailed = 0
        return True

    def _find_callers(self, session: Any) -> None:
        """Run each test, and record which kernels it calls."""
        from spom.core.jit import Kernel

        called: set[tuple[str, str]] = set()
        call: Any = Kernel.__call__

        def noted(kernel: Kernel, *args: Any) -> Any:
            called.add((kernel.__module__, kernel.function.__name__))
            return call(kernel, *args)

        Kernel.__call__ = noted  # type: ignore[method-assign]  # to see who calls
        for item in session.items:
            called.clear()
            begin = time.process_time()
            signal.signal(signal.SIGPROF, _stop)
            signal.setitimer(signal.ITIMER_PROF, LONG)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            except TimeoutError:
                self.unusable.add(item.nodeid)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            if item.nodeid not in self.unusable:
                for key in called:
                    self.callers.setdefault(key, []).append((time.process_time() - begin, item))
        Kernel.__call__ = call  # type: ignore[method-assign]
        session.testsfailed = 0
        session.shouldfail = session.shouldstop = False

    def _try(self, session: Any, mutation: Any) -> int:
        """Run in the fork: return 0 if no test notices, 1 if one fails, 2 if one takes much longer than before."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.signal(signal.SIGPROF, lambda *_: os._exit(2))
        try:
            module = ".".join(mutation.path.with_suffix("").parts[1:])
            changed = compile(mutation.apply(self.sources[mutation.path]), str(mutation.path), "exec")
            code = _function_at(changed, mutation.start[0])
            getattr(importlib.import_module(module), code.co_name).function.__code__ = code
            used = 0.0
            for seconds, item in self.callers.get((module, code.co_name), []):
                used += seconds
                if used > BUDGET:
                    break
                signal.setitimer(signal.ITIMER_PROF, 4.0 * seconds + 2.0)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if session.testsfailed:
                    return 1
        except BaseException:
            return 1
        return 0


def _stop(*_: Any) -> None:
    raise TimeoutError


def _function_at(module: CodeType, line: int) -> CodeType:
    """Return the code of the last function of a module that begins before this line."""
    functions = [c for c in module.co_consts if isinstance(c, CodeType) and c.co_firstlineno <= line]
    return max(functions, key=lambda code: code.co_firstlineno)


if __name__ == "__main__":
    sys.exit("run tools/mutate.py --interpret")
