"""A training run under way: the signals that end it, its live table (on a terminal), and which epochs were kept."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(SystemExit):
    """A signal ends the command; the exit status is 128 and its number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _ends(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def end_on_sigterm() -> None:
    """Let SIGTERM end the command by an exception, so that no temporary file is left."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _ends)


class Stopping:
    """Around a training run: a first signal waits for the epoch under way, a second one ends the command at once.

    Before `hold()` is called, while files are read, the first signal ends the command at once too.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._held = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Handlers of signals can be set in the main thread alone; elsewhere signals are somebody else's.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._called) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """From now on there is something to lose: the first signal waits."""
        self._held = True

    def _called(self, number: int, frame: FrameType | None) -> None:
        if not self._held or self.number is not None:
            raise Stopped(number)
        self.number = number
        if sys.stderr.isatty():
            print("\nstopping after this epoch; a second signal stops at once", file=sys.stderr)

    @property
    def name(self) -> str:
        """The signal that came."""
        return "" if self.number is None else signal.Signals(self.number).name

    @property
    def status(self) -> int:
        """The exit status."""
        return 0 if self.number is None else 128 + self.number


# --- the table ------------------------------------------------------------------------------------------------

# What a row shows: the key of the history's entry, the heading, how the number is written.
COLUMNS = (
    ("epoch", "epoch", "{:d}"),
    ("objective", "objective", "{:.5g}"),
    ("loss", "loss", "{:.5g}"),
    ("dev", "dev", "{:.4f}"),
    ("blocks_kept", "blocks kept", "{:,d}"),
    ("nonzeros", "non-zeros", "{:,d}"),
    ("per_second", "per second", "{:,.0f}"),
)
_SHOWN = 20


class Live:
    """A callback for a run: shows each epoch as it comes, and says when a signal wants the run to end.

    `objective` asks linear models for the objective of each epoch.
    """

    def __init__(
        self,
        total: int | None,
        quiet: bool = False,
        unit: str = "per second",
        stream: Any = None,
        stopping: Stopping | None = None,
    ) -> None:
        self.total, self.unit = total, unit
        self.stream = sys.stderr if stream is None else stream
        self.shown = not quiet and self.stream.isatty()
        self.stopping = Stopping() if stopping is None else stopping
        self.objective = True
        self.rows: list[dict[str, Any]] = []
        self._live: Any = None
        self._begin = 0.0

    # --- around the run ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.stopping.hold()
        self._begin = time.perf_counter()
        if self.shown:
            from rich.console import Console
            from rich.live import Live as RichLive

            console = Console(file=self.stream)
            self._live = RichLive(self._table(), console=console, refresh_per_second=4, transient=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.__exit__(*error)

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended the run."""
        return self.stopping.number is not None

    # --- the callback ------------------------------------------------------------------------------------

    def on_epoch(self, info: dict[str, Any]) -> bool:
        """Show an entry of the history; True asks the run to stop."""
        self.rows.append(info)
        if self._live is not None:
            self._live.update(self._table())
        return self.interrupted

    def on_problem(self, text: str) -> None:
        """Say what failed and did not end the run."""
        print(f"spom: {text}", file=self.stream)

    def _table(self) -> Any:
        from rich import box
        from rich.table import Table

        used = [c for c in COLUMNS if c[0] == "epoch" or any(_known(row, c[0]) for row in self.rows)]
        if all(row.get("objective") == row.get("loss") for row in self.rows):
            # Without a penalty they are the same.
            used = [c for c in used if c[0] != "objective"]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        staged = any(stage_of(row) for row in self.rows)
        if staged:
            table.add_column("stage", no_wrap=True)
        for key, heading, _ in used:
            table.add_column(self.unit if key == "per_second" else heading, justify="right")
        if not staged:
            # The time of stages that have not begun is unknown.
            table.add_column("time left", justify="right")
        for i, row in list(enumerate(self.rows))[-_SHOWN:]:
            named = [self._stage(i)] if staged else []
            cells = [form.format(row[key]) if _known(row, key) else "-" for key, _, form in used]
            left = self._left(row) if i == len(self.rows) - 1 else ""
            table.add_row(*named, *cells, *([] if staged else [left]))
        if not self.rows:
            table.add_row(*["0", *["" for _ in used[1:]], "starting"])
        return table

    def _stage(self, i: int) -> str:
        """The stage of row i, where it begins."""
        name = stage_of(self.rows[i])
        return name if i == 0 or stage_of(self.rows[i - 1]) != name or i == len(self.rows) - _SHOWN else ""

    def _left(self, row: dict[str, Any]) -> str:
        if not self.total or not row.get("epoch"):
            return ""
        spent = time.perf_counter() - self._begin
        return clock(spent / len(self.rows) * max(0, self.total - int(row["epoch"])))


def _known(row: dict[str, Any], key: str) -> bool:
    value = row.get(key)
    return value is not None and value == value  # a number that was not computed is NaN


def clock(seconds: float) -> str:
    """A time as people read it.

    >>> clock(5.2), clock(75), clock(7300)
    ('5 s', '1:15', '2:01:40')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# What the stages of a parser do.
STAGES = {
    "arcs": "heads of words",
    "second stage": "heads again, with the first trees as features",
    "second order": "heads again, by siblings and grandparents too",
    "relations": "relations of the trees",
    "largest weights": "the largest weights, learnt again alone",
}


def stage_of(entry: dict[str, Any]) -> str:
    """The stage of an epoch; empty where a run has one only."""
    return str(entry.get("stage") or "")


def in_stages(history: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """(stage, its epochs), in their order; a count that starts again is another stage.

    >>> [(name, len(epochs)) for name, epochs in in_stages([{"epoch": 1}, {"epoch": 2}, {"epoch": 1}])]
    [('', 2), ('', 1)]
    """
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for entry in history:
        name = stage_of(entry)
        if not found or found[-1][0] != name or entry.get("epoch", 0) <= found[-1][1][-1].get("epoch", 0):
            found.append((name, []))
        found[-1][1].append(entry)
    return found


def kept_epochs(history: Sequence[dict[str, Any]], stopped: str) -> list[str]:
    """One line per stage that was scored on development data: which epoch was kept, and whether it ended early.

    >>> kept_epochs([{"epoch": 1, "dev": 0.5}, {"epoch": 2, "dev": 0.75}, {"epoch": 3, "dev": 0.7}], "converged")
    ['epoch 2 of 3 kept (dev 0.7500): no better score after it, so training stopped early']
    """
    stages, lines = in_stages(history), []
    for name, epochs in stages:
        label = f"{name} ({STAGES[name]}): " if name in STAGES else f"{name}: " if name else ""
        scored = [entry for entry in epochs if entry.get("dev") is not None]
        if scored:
            best = max(scored, key=lambda entry: float(entry["dev"]))
            kept = f"epoch {best['epoch']} of {epochs[-1]['epoch']} kept (dev {float(best['dev']):.4f})"
        elif label:
            kept = f"{len(epochs)} epochs"
        else:
            continue
        early = stopped == "converged" and bool(scored) and best is not epochs[-1]
        lines.append(label + kept + (": no better score after it, so training stopped early" if early else ""))
    return lines
