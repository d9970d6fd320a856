"""The executor of a Dask cluster: tasks are plain functions, and what a lost worker held is made again."""

from __future__ import annotations

import itertools
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from spom.errors import Unsupported
from spom.scale.executor import Held, NoWorkers, WorkerLost
from spom.scale.sending import Moved, answered, once, opened, packed

# Seconds in which a scheduler has to answer: Dask tries a wrong address again and again.
CONNECT = 10.0
# Seconds between two looks at whether there are workers.
LOOK = 0.5


class Dask:
    """Tasks on the workers of a client, or of the cluster at an address; no port but Dask's own is used."""

    def __init__(self, client: Any, timeout: float) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise Unsupported(
                "a Dask client needs the packages dask and distributed (pip install spom[dask])"
            ) from None
        self._own = isinstance(client, str)
        try:
            self.client = Client(client, timeout=min(timeout, CONNECT), set_as_default=False) if self._own else client
        except (OSError, TimeoutError, ValueError) as error:
            raise NoWorkers(f"there is no Dask scheduler at {client} ({error})") from None
        self.timeout, self.moved = timeout, Moved()
        # Two fits on one cluster must not share keys: equal keys are taken for equal results.
        self._fit, self._count = uuid.uuid4().hex[:12], itertools.count()

    @property
    def workers(self) -> int:
        """How many threads the workers have now."""
        return max(1, int(sum(self.client.nthreads().values())))

    def hold(self, value: Any) -> Any:
        """The value as the result of a task: a worker that needs it asks another for it, and the scheduler has it."""
        key = f"spom-state-{self._fit}-{next(self._count)}"
        return self._sent(key, _same, (key, packed(value, self.moved)))

    def _sent(self, key: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """A task under a key of its own; an error where the scheduler is gone."""
        with warnings.catch_warnings():
            # Dask would rather have large values scattered; scattered values are lost with their worker.
            warnings.filterwarnings("ignore", message="Sending large graph")
            try:
                return self.client.submit(function, *arguments, key=key, pure=False)
            except Exception:
                if self.client.status == "running":
                    raise
                raise NoWorkers("the scheduler of the cluster is gone") from None

    def drop(self, held: Any) -> None:
        """Let the cluster forget the value."""
        held.release()

    def submit(
        self, function: Callable[..., Any], held: Held, arguments: tuple[Any, ...], name: str, apart: Any = None
    ) -> Any:
        """Start a task; the dashboard shows its name."""
        key = f"{name}-{self._fit}-{next(self._count)}"
        return self._sent(key, with_bytes, packed((function, arguments), self.moved), apart, *held)

    def gather(self, handles: Sequence[Any]) -> Iterator[Any]:
        """The results in order."""
        for handle in handles:
            result = self._result(handle)
            handle.release()
            yield opened(result, self.moved)

    def _result(self, handle: Any) -> Any:
        """Wait for a task; an error once there was no worker, or no scheduler, for `timeout` seconds."""
        from distributed import CancelledError, KilledWorker

        since = time.monotonic()
        while True:
            try:
                return handle.result(timeout=LOOK)
            except KilledWorker as error:
                raise WorkerLost(f"it ended the workers that ran it ({error})") from None
            except CancelledError:
                raise NoWorkers("the scheduler of the cluster is gone, or gave up the task") from None
            except (TimeoutError, UnboundLocalError):
                # Where the time is up just as the answer comes, Dask may find neither: it is asked for again.
                if handle.status == "error":
                    raise
            now = time.monotonic()
            if not self._lost():
                since = now
            elif now - since > self.timeout:
                raise NoWorkers(f"the cluster had no workers for {self.timeout:g} seconds")

    def _lost(self) -> bool:
        """Whether there is no worker, or no scheduler to ask."""
        if self.client.status != "running":
            return True
        try:
            return not self.client.nthreads()
        except Exception:
            return True

    def cancel(self, handles: Sequence[Any]) -> None:
        """Give up tasks."""
        if self.client.status == "running":
            self.client.cancel([handle for handle in handles if not handle.done()])

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call it on all workers that are there; nobody waits for it."""
        with suppress(Exception):
            self.client.run(_soon, function, *arguments, wait=False)

    def close(self) -> None:
        """Leave the cluster as it was; a client that was made here is closed."""
        if self._own:
            self.client.close()


async def _soon(function: Callable[..., Any], *arguments: Any) -> None:
    # Dask waits for functions that are no coroutines.
    function(*arguments)


def _same(value: Any) -> Any:
    return value


def with_bytes(call: bytes, apart: tuple[str, bytes] | None, *held: tuple[str, bytes]) -> tuple[bytes, float]:
    """Run a task on a worker. Everything is sent as bytes: arrays that Dask sends itself may lie at odd addresses."""
    own = None if apart is None else lambda: apart[1]
    return answered(call, lambda: [once(key, lambda c=content: c) for key, content in held], own)  # type: ignore[misc]
