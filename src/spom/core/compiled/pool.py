"""Compilation of kernels on all cores, in separate processes, reported in one line."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spom.core.compiled import jobs, running, store
from spom.core.compiled.key import key_of, level

_START = """
import sys
sys.path[:0] = [{root!r}]
from spom.core.compiled.worker import main
main({folder!r})
"""


def compile_for(kernel: Any) -> None:
    """Compile a kernel that is called, together with the kernels that the estimators in use will call next."""
    compile_missing([kernel, *jobs.together_with(kernel.name)])


def compile_missing(kernels: Sequence[Any]) -> int:
    """Compile the kernels that no folder has, and return how many were compiled."""
    wanted = {k.name: k for k in kernels}
    with _turn() as folder:
        missing = [name for name, k in wanted.items() if store.find(name, key_of(k), running.temporary) is None]
        if missing:
            compile_all(missing, folder, len(wanted))
    return len(missing)


@contextmanager
def _turn() -> Iterator[Path]:
    """Lock and yield the folder to write to; other processes wait, and then find the compiled code."""
    folder = store.writable_folder()
    if folder is None:
        if not running.temporary:
            import shutil

            running.temporary.append(Path(tempfile.mkdtemp(prefix="spom-")))
            atexit.register(shutil.rmtree, running.temporary[0], ignore_errors=True)
        yield running.temporary[0]
        return
    with (folder / "lock").open("w") as file:
        # Without a lock two processes may compile the same kernels, with the same result.
        with suppress(ImportError, OSError):
            _wait_for(file)
        yield folder


# Seconds to wait for another process that compiles. A stopped or slow process must not block all others.
PATIENCE = 30.0


def _wait_for(file: Any) -> None:
    """Lock the file, or give up after `PATIENCE` seconds."""
    import fcntl

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def compile_all(names: Sequence[str], folder: Path, known: int = 0) -> dict[str, float]:
    """Compile kernels by name into a folder, and return the CPU seconds of each."""
    queue, seconds, errors = deque(names), dict[str, float](), dict[str, str]()
    count = max(1, min(cores(), (len(names) + 1) // 2))
    print(
        f"spom: compiling {len(names)} of {max(known, len(names))} kernels on {count} core{'s' * (count > 1)}, "
        "first run only",
        file=sys.stderr,
        flush=True,
    )

    def work() -> None:
        with _process(folder) as process:
            while queue and not errors:
                try:
                    name = queue.popleft()
                except IndexError:
                    return
                answer = _ask(process, name)
                if "error" in answer:
                    errors[name] = answer["error"]
                else:
                    seconds[name] = answer["seconds"]

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, error in errors.items():
        raise RuntimeError(f"{name} could not be compiled: {error}")
    return seconds


_idle: list[Any] = []
# Seconds for which one idle process is kept, in case more kernels need compiling.
_STAY = 20.0


@contextmanager
def _process(folder: Path) -> Iterator[Any]:
    """Yield a compiler process: the idle one, or a new one."""
    process = _idle.pop() if _idle and _idle[-1].folder == folder else _start(folder)
    try:
        yield process
    finally:
        if _idle or process.poll() is not None:
            _end(process)
        else:
            _idle.append(process)
            timer = threading.Timer(_STAY, _end_idle)
            timer.daemon = True
            timer.start()


@atexit.register
def _end_idle() -> None:
    while _idle:
        _end(_idle.pop())


def _end(process: Any) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):
            pipe.close()
    process.wait()


def _start(folder: Path) -> Any:
    root = str(Path(__file__).resolve().parents[3])
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    if level().startswith("x86-64-"):
        environment |= {"SPOM_CPU_LEVEL": level(), "NUMBA_CPU_NAME": level(), "NUMBA_CPU_FEATURES": ""}
    process: Any = subprocess.Popen(
        [sys.executable, "-c", _START.format(root=root, folder=str(folder))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    process.folder = folder
    return process


def _ask(process: Any, name: str) -> dict[str, Any]:
    try:
        process.stdin.write(name + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line:
            return dict(json.loads(line))
    except OSError:
        pass
    return {"error": f"the compiler's process ended: {process.stderr.read().strip()[-500:]}"}


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
