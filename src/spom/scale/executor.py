"""Executors of tasks: a small protocol, implemented by threads, processes and Dask."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spom.errors import SpomError, Unsupported
from spom.scale.sending import Frames, Moved, answered, once, opened, packed

# How often a task is retried in new processes after it ended those it ran in, as Dask's `allowed-failures`.
ATTEMPTS = 3


# The handles that `hold` returned for the first arguments of a task.
Held = tuple[Any, ...]


class Place(NamedTuple):
    """The preferred place for a task: the worker that ran the last task of the shard with this number.

    `apart` is the held value for an `Apart` in the arguments, or None.
    """

    number: int = 0
    apart: Any = None


ANYWHERE = Place()


class WorkerLost(SpomError):
    """A task that repeatedly ended the processes it ran in."""


class NoWorkers(SpomError):
    """A cluster that was too long without workers or without its scheduler."""


class Executor(Protocol):
    """Runs functions of picklable arguments elsewhere; `moved` counts what was sent and received."""

    moved: Moved

    @property
    def workers(self) -> int:
        """The number of tasks that can run at once."""
        ...

    def hold(self, value: Any) -> Any:
        """Share a value that many tasks take: it is sent once to each worker."""
        ...

    def drop(self, held: Any) -> None:
        """Forget a value that no later task takes."""
        ...

    def submit(
        self, function: Callable[..., Any], held: Held, arguments: tuple[Any, ...], name: str, place: Place = ANYWHERE
    ) -> Any:
        """Start function(*held values, *arguments); return the handle of the task."""
        ...

    def gather(self, handles: Sequence[Any]) -> Iterator[Any]:
        """Yield the results in the order of the handles; the error of a task is raised at its place."""
        ...

    def cancel(self, handles: Sequence[Any]) -> None:
        """Drop tasks whose results are not needed."""
        ...

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in all processes that have run tasks of this executor and that outlive it."""
        ...

    def close(self) -> None:
        """Release what was started here."""
        ...


class Threads:
    """Threads of this process: compiled loops run without Python's lock, and nothing is copied."""

    def __init__(self, workers: int) -> None:
        self.workers, self.moved = workers, Moved()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="spom-shard")

    def hold(self, value: Any) -> Any:
        """Return the value itself."""
        return value

    def drop(self, held: Any) -> None:
        """Do nothing: nothing is held."""

    def submit(
        self, function: Callable[..., Any], held: Held, arguments: tuple[Any, ...], name: str, place: Place = ANYWHERE
    ) -> Future[Any]:
        """Start a task."""
        return self._pool.submit(function, *held, *arguments)

    def gather(self, handles: Sequence[Future[Any]]) -> Iterator[Any]:
        """Yield the results in order."""
        for handle in handles:
            yield handle.result()

    def cancel(self, handles: Sequence[Future[Any]]) -> None:
        """Drop tasks that have not begun; running tasks continue to their end."""
        for handle in handles:
            handle.cancel()

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call the function in this process."""
        function(*arguments)

    def close(self) -> None:
        """Wait for the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class Processes:
    """Processes of this machine. One that dies is replaced, and its tasks are run again."""

    def __init__(self, workers: int) -> None:
        self.workers, self.moved = workers, Moved()
        self._folder = Path(tempfile.mkdtemp(prefix="spom-"))
        self._count = 0
        self._pool: Any = None

    def _started(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.workers, initializer=keep_memory)
        return self._pool

    def hold(self, value: Any) -> Path:
        """Write the value to a file, which each process reads once."""
        self._count += 1
        path = self._folder / f"{self._count}.pickle"
        with path.open("wb") as file:
            pickle.dump(packed(value, self.moved), file, protocol=5)
        return path

    def drop(self, held: Path) -> None:
        """Remove the file."""
        held.unlink(missing_ok=True)

    def submit(
        self, function: Callable[..., Any], held: Held, arguments: tuple[Any, ...], name: str, place: Place = ANYWHERE
    ) -> list[Any]:
        """Start a task; its handle also contains the call, to start it again."""
        call = (packed((function, arguments), self.moved), tuple(map(str, held)), place.apart)
        return [self._start(call), call]

    def _start(self, call: tuple[Frames, tuple[str, ...], Path | None]) -> Any:
        for _ in range(ATTEMPTS):
            try:
                return self._started().submit(with_files, *call)
            except (BrokenProcessPool, RuntimeError):
                self._renew()
        raise WorkerLost("processes of this machine end as soon as they are started")

    def _renew(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, kill_workers=True)
        self._pool = None

    def gather(self, handles: Sequence[list[Any]]) -> Iterator[Any]:
        """Yield the results in order; tasks of processes that died are run again."""
        from joblib.externals.loky.process_executor import BrokenProcessPool as Broken

        for k, handle in enumerate(handles):
            for attempt in range(ATTEMPTS + 1):
                try:
                    result = handle[0].result()
                    break
                except (Broken, BrokenProcessPool):
                    if attempt == ATTEMPTS:
                        raise WorkerLost(f"its process ended {ATTEMPTS + 1} times") from None
                    self._renew()
                    for other in handles[k:]:
                        if not (other[0].done() and other[0].exception() is None):
                            other[0] = self._start(other[1])
            handle[0] = None
            yield opened(result, self.moved)

    def cancel(self, handles: Sequence[list[Any]]) -> None:
        """Drop tasks that have not begun."""
        for handle in handles:
            if handle[0] is not None:
                handle[0].cancel()

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Do nothing: the processes end with the executor."""

    def close(self) -> None:
        """End the processes, and remove the files."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
        shutil.rmtree(self._folder, ignore_errors=True)


def keep_memory() -> None:
    """Let this process keep the shards it has read: loky takes growth by 300 MB for a leak and ends the process."""
    from joblib.externals.loky import process_executor

    process_executor._USE_PSUTIL = False


def with_files(call: Frames, held: tuple[str, ...], apart: Path | None) -> tuple[Frames, float]:
    """Run a task in a process; held values are read from files unless this process has already read them."""
    content = None if apart is None else partial(_in_file, apart)
    return answered(call, lambda: [once(path, partial(_in_file, path)) for path in held], content)


def _in_file(path: str | Path) -> Frames:
    with open(path, "rb") as file:
        return pickle.load(file)  # type: ignore[no-any-return]  # what `hold` wrote


def executor_for(client: Any, n_jobs: int | None, timeout: float) -> Executor:
    """Return the executor for `client=`: None and "threads", "processes", or a Dask client or address."""
    if client is None or client == "threads" or client == "processes":
        from joblib import effective_n_jobs  # type: ignore[import-untyped]  # joblib has no types

        jobs = (os.cpu_count() or 1) if n_jobs is None else int(effective_n_jobs(n_jobs))
        return Processes(jobs) if client == "processes" else Threads(jobs)
    if hasattr(client, "hold"):
        return client  # type: ignore[no-any-return]  # an executor of the user's own
    if isinstance(client, str) or hasattr(client, "submit"):
        from spom.scale.on_dask import Dask

        return Dask(client, timeout)
    raise Unsupported(f"client must be None, 'threads', 'processes', a Dask client or its address; not {client!r}")
