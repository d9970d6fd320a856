"""The executor of a Dask cluster: tasks are plain functions, and the data of a lost worker are computed again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from spom.errors import Unsupported
from spom.scale.executor import ANYWHERE, Held, NoWorkers, Place, WorkerLost
from spom.scale.sending import Frames, Moved, answered, once, opened, packed

# Seconds in which a scheduler must answer: Dask keeps retrying a wrong address.
CONNECT = 10.0
# Seconds between two checks for workers.
LOOK = 0.5
# Seconds in which a worker must answer; otherwise results come through the scheduler.
REACH = 2.0


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
        # Two fits on one cluster must not share keys: Dask takes equal keys for equal results.
        self._fit, self._count = uuid.uuid4().hex[:12], itertools.count()
        self._direct: bool | None = None
        self._workers: list[str] = []
        # Tasks in order, and results in transfer: the next one is fetched while one is merged.
        self._waiting, self._coming = dict[str, Any](), dict[str, Any]()

    @property
    def workers(self) -> int:
        """The number of threads that the workers have now."""
        return max(1, int(sum(self.client.nthreads().values())))

    def hold(self, value: Any) -> Any:
        """Hold the value as the result of a task: workers fetch it from each other; the scheduler keeps the task."""
        with suppress(Exception):  # a scheduler that is gone is reported below
            there = self.client.nthreads()
            known = [address for address in self._workers if address in there]
            self._workers = known + sorted(set(there) - set(known))
        key = f"spom-state-{self._fit}-{next(self._count)}"
        return self._sent(key, _same, (key, packed(value, self.moved)))

    def _home(self, number: int) -> str | None:
        """Return the worker that should take the tasks of a shard, since it has read it; idle workers may take them."""
        return self._workers[number % len(self._workers)] if self._workers else None

    def _sent(self, key: str, function: Callable[..., Any], *arguments: Any, near: str | None = None) -> Any:
        """Submit a task under its own key; raise an error if the scheduler is gone."""
        where = {} if near is None else {"workers": [near], "allow_other_workers": True}
        with warnings.catch_warnings():
            # Dask recommends scattering large values, but scattered values are lost with their worker.
            warnings.filterwarnings("ignore", message="Sending large graph")
            try:
                return self.client.submit(function, *arguments, key=key, pure=False, **where)
            except Exception:
                if self.client.status == "running":
                    raise
                raise NoWorkers("the scheduler of the cluster is gone") from None

    def drop(self, held: Any) -> None:
        """Release the value on the cluster."""
        held.release()

    def submit(
        self, function: Callable[..., Any], held: Held, arguments: tuple[Any, ...], name: str, place: Place = ANYWHERE
    ) -> Any:
        """Start a task; the dashboard shows its name."""
        key = f"{name}-{self._fit}-{next(self._count)}"
        call = packed((function, arguments), self.moved)
        self._waiting[key] = self._sent(key, with_frames, call, place.apart, *held, near=self._home(place.number))
        return self._waiting[key]

    def gather(self, handles: Sequence[Any]) -> Iterator[Any]:
        """Yield the results in order."""
        for handle in handles:
            result = self._result(handle)
            handle.release()
            yield opened(result, self.moved)

    def _fetch(self, handle: Any) -> Any:
        """Start to fetch a result, from its worker if workers can be reached, else through the scheduler."""
        if handle.key not in self._coming:
            try:
                self._direct = self._reaches() if self._direct is None else self._direct
                fetched = _fetched(self.client, handle, self._direct)
                self._coming[handle.key] = asyncio.run_coroutine_threadsafe(fetched, self.client.loop.asyncio_loop)
            except Exception:
                if self.client.status == "running":
                    raise
                raise NoWorkers("the scheduler of the cluster is gone") from None
        return self._coming[handle.key]

    def _reaches(self) -> bool | None:
        """Tell whether workers answer to this process; None if there is no worker to ask."""
        addresses = list(self.client.nthreads())
        if not addresses or self.client.direct_to_workers is not None:
            return self.client.direct_to_workers  # type: ignore[no-any-return]  # Dask has no types
        try:
            self.client.sync(self.client.rpc(addresses[0]).identity, callback_timeout=REACH)
        except Exception:
            return False
        return True

    def _result(self, handle: Any) -> Any:
        """Wait for a task; raise an error after `timeout` seconds without a worker or a scheduler."""
        from distributed import KilledWorker

        coming = self._fetch(handle)
        self._waiting.pop(handle.key, None)
        for following in list(self._waiting.values())[:1]:
            self._fetch(following)
        since = time.monotonic()
        try:
            while True:
                if concurrent.futures.wait([coming], timeout=LOOK).done:
                    return coming.result()
                now = time.monotonic()
                if not self._lost():
                    since = now
                elif now - since > self.timeout:
                    raise NoWorkers(f"the cluster had no workers for {self.timeout:g} seconds")
        except KilledWorker as error:
            raise WorkerLost(f"it ended the workers that ran it ({error})") from None
        except (concurrent.futures.CancelledError, asyncio.CancelledError):
            raise NoWorkers("the scheduler of the cluster is gone, or gave up the task") from None
        finally:
            self._coming.pop(handle.key, None)

    def _lost(self) -> bool:
        """Tell whether there is no worker, or no scheduler to ask."""
        if self.client.status != "running":
            return True
        try:
            return not self.client.nthreads()
        except Exception:
            return True

    def cancel(self, handles: Sequence[Any]) -> None:
        """Cancel tasks."""
        for handle in handles:
            self._waiting.pop(handle.key, None)
            if handle.key in self._coming:
                self._coming.pop(handle.key).cancel()
        if self.client.status == "running":
            self.client.cancel([handle for handle in handles if not handle.done()])

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call the function on all present workers, without waiting for it."""
        with suppress(Exception):
            self.client.run(_soon, function, *arguments, wait=False)

    def close(self) -> None:
        """Leave the cluster as it was; close the client if it was created here."""
        if self._own:
            self.client.close()


async def _soon(function: Callable[..., Any], *arguments: Any) -> None:
    # Dask waits for functions that are not coroutines.
    function(*arguments)


async def _fetched(client: Any, handle: Any, direct: bool | None) -> Any:
    return await client.gather(handle, direct=direct, asynchronous=True)


def _same(value: Any) -> Any:
    return value


def with_frames(call: Frames, apart: tuple[str, Frames] | None, *held: tuple[str, Frames]) -> tuple[Frames, float]:
    """Run a task on a worker."""
    own = None if apart is None else partial(_same, apart[1])
    return answered(call, lambda: [once(key, partial(_same, frames)) for key, frames in held], own)
