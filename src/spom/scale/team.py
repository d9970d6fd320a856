"""Phases of a fit: one task per shard, results in shard order, errors that name the shard."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from spom.core.warning import warn
from spom.errors import DataError, SpomError
from spom.scale.executor import Executor, NoWorkers, Place, Processes, Threads, WorkerLost
from spom.scale.sending import Apart
from spom.scale.worker import Common, Done, Unread, ask, forget, learn, look, run, version


class Team:
    """The workers of one fit and its shards.

    `report` has a dict per phase: `phase` (its name), `compute` (seconds on workers, summed over shards), `transfer`
    (seconds of packing and unpacking, on workers and on the driver), `waited` (seconds that the driver waited for
    results), `seconds` (of the phase), `sent` (bytes of the state, counted once for all workers, and of the calls) and
    `bytes` (`sent` and the results).
    """

    def __init__(self, executor: Executor, shards: Sequence[Any], on_error: str, checkpoint: Any = None) -> None:
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip'; it is {on_error!r}")
        self.executor, self.shards, self.on_error, self.checkpoint = executor, list(shards), on_error, checkpoint
        # The number of each shard among all that were given, since some may be skipped.
        self.numbers = list(range(len(self.shards)))
        self.total = len(self.shards)
        self.fit, self.lesson = uuid.uuid4().hex, 0
        self.stamps: list[str | None] = []
        self.report: list[dict[str, Any]] = []
        # The last lesson, and the held value that contains it.
        self.taught: Any = None
        self._common: Any = None
        # The seconds of the last task of each shard, by number.
        self._seconds: dict[int, float] = {}
        # The held data of shards in memory, by number.
        self._apart: dict[int, Any] = {}

    def teach(self, lesson: Any) -> None:
        """Share the lesson of the following phases; what was prepared for the previous lesson is dropped."""
        self._drop()
        self.lesson, self.taught = self.lesson + 1, lesson
        stamps = dict(zip(self.numbers, self.stamps, strict=False))
        siblings = self.executor.workers if isinstance(self.executor, Processes) else 1
        wanted = self.checkpoint is not None
        self._common = self.executor.hold(
            Common((self.fit, self.lesson), version(), lesson, stamps, stamped=wanted, siblings=siblings)
        )

    def _drop(self) -> None:
        if self._common is not None:
            self.executor.everywhere(forget, (self.fit, self.lesson))
            self.executor.drop(self._common)
            self._common = None

    def close(self) -> None:
        """Forget what was read and prepared, here and on the workers."""
        self._drop()
        for held in self._apart.values():
            self.executor.drop(held)
        self.executor.everywhere(forget, self.fit)

    def look(self) -> list[Any]:
        """Return the lesson's `look` at each shard, None for empty ones; keep the stamps, and drop skipped shards."""
        found, kept, numbers, skipped = [], [], [], list[Unread]()
        results = self.each("look", look, None, lost_is_unread=True)
        for number, shard, result in zip(self.numbers, self.shards, results, strict=True):
            if isinstance(result, Unread):
                if self.on_error == "raise":
                    raise DataError(f"{result.why}; on_error='skip' would leave this shard out", None)
                skipped.append(result)
                continue
            self.stamps.append(result[0])
            found.append(result[1])
            kept.append(shard)
            numbers.append(number)
        self.shards, self.numbers = kept, numbers
        if skipped:
            count, first = f"{len(skipped)} of {len(skipped) + len(kept)} shards", skipped[0]
            warn(f"{count} could not be read and were left out; the first is {first.where}: {first.why}")
        if not any(result is not None for result in found):
            raise DataError("no shard has any examples: there is nothing to learn from")
        return found

    def each(
        self,
        phase: str,
        function: Callable[..., Any],
        state: Any,
        arguments: Sequence[tuple[Any, ...]] | None = None,
        *,
        only: Sequence[int] | None = None,
        lost_is_unread: bool = False,
    ) -> Iterator[Any]:
        """function(common, state, shard, index, *arguments) for each shard (or `only` some), in the order of shards."""
        begin, spent, waited, before = time.perf_counter(), 0.0, 0.0, replace(self.executor.moved)
        chosen = list(range(len(self.shards))) if only is None else list(only)
        handles: list[Any] = [None] * len(chosen)
        held, sent = None, 0
        try:
            held = self.executor.hold(state)
            # The shards that took longest the last time begin first, so that workers end at nearly the same time.
            for place in sorted(range(len(chosen)), key=lambda j: -self._seconds.get(self.numbers[chosen[j]], 0.0)):
                k = chosen[place]
                more = arguments[place] if arguments is not None else ()
                shard, apart = self._sent(k)
                call = (function, shard, self.numbers[k], *more)
                home = Place(self.numbers[k], apart)
                handles[place] = self.executor.submit(run, (self._common, held), call, f"spom-{phase}", home)
            sent = self.executor.moved.bytes - before.bytes
            for place, k in enumerate(chosen):
                since = time.perf_counter()
                done = self._done(handles[place], k, lost_is_unread)
                waited += time.perf_counter() - since
                spent += done.seconds
                self._seconds[self.numbers[k]] = done.seconds
                yield done.result
        except NoWorkers as error:
            raise NoWorkers(f"{error}, in the phase {phase!r}; {self._to_do()}") from None
        finally:
            self.executor.cancel([handle for handle in handles if handle is not None])
            if held is not None:
                self.executor.drop(held)
            whole, moved = time.perf_counter() - begin, self.executor.moved
            entry = {"phase": phase, "compute": spent, "transfer": moved.seconds - before.seconds, "waited": waited}
            self.report.append({**entry, "seconds": whole, "sent": sent, "bytes": moved.bytes - before.bytes})

    def ask(self, phase: str, only: Sequence[int] | None = None) -> Iterator[Any]:
        """Return the lesson's answers for each shard (or some) that is not empty."""
        places = [(k,) for k in (range(len(self.shards)) if only is None else only)]
        return (part for part in self.each(phase, ask, None, places, only=only) if part is not None)

    def learn(self, state: Any, seed: Sequence[int], phase: str = "learn") -> Iterator[Any]:
        """Return what each shard that is not empty learns, starting from the state; its index is added to the seed."""
        seeds = [([*seed, k],) for k in range(len(self.shards))]
        return (part for part in self.each(phase, learn, state, seeds) if part is not None)

    def _to_do(self) -> str:
        if self.checkpoint is None:
            return "with checkpoint= a run can be resumed"
        return f"start workers and resume from the checkpoint {self.checkpoint} (resume=True)"

    def _sent(self, k: int) -> tuple[Any, Any]:
        """Return (shard to send, data sent apart): the data of a shard in memory go to other processes only once."""
        shard, number = self.shards[k], self.numbers[k]
        if isinstance(self.executor, Threads) or getattr(shard, "outside", True):
            return shard, None
        if number not in self._apart:
            self._apart[number] = self.executor.hold(shard)
        return Apart(str(shard)), self._apart[number]

    def _done(self, handle: Any, k: int, lost_is_unread: bool) -> Done:
        where = f"shard {self.numbers[k] + 1} of {self.total} ({self.shards[k]})"
        try:
            done: Done = next(iter(self.executor.gather([handle])))
            return done
        except WorkerLost as error:
            if lost_is_unread and self.on_error == "skip":
                return Done(Unread(str(self.shards[k]), str(error)), 0.0)
            raise WorkerLost(f"{where}: {error}; check this shard, or leave it out") from None
        except NoWorkers:
            raise
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        except SpomError as error:
            raise type(error)(f"{where}: {error}") from None
