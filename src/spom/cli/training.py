"""A training run of the command: signals that stop it, its live table, the fit, the record and the summary."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self

import typer

from spom import __version__
from spom.cli.options import print_json
from spom.core.atomic import check_writable, previous, remove_stale
from spom.errors import DataError, ModelFileError, Unsupported

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(SystemExit):
    """The exception of a signal that ends the command; the exit status is 128 + its number, as in shells."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def end_on_sigterm() -> None:
    """Make SIGTERM raise an exception, so that no temporary file is left behind."""

    def ends(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ends)


class Stopping:
    """Signal handling of a run: a first signal stops it after the current epoch, a second one ends the command at once.

    Until `held` is set, while files are read, the first signal ends the command at once too.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.held = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python allows signal handlers to be set in the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._called) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _called(self, number: int, frame: FrameType | None) -> None:
        if not self.held or self.number is not None:
            raise Stopped(number)
        self.number = number
        if sys.stderr.isatty():
            print("\nstopping after this epoch; a second signal stops at once", file=sys.stderr)

    @property
    def name(self) -> str:
        """The name of the signal that arrived, or an empty string."""
        return "" if self.number is None else signal.Signals(self.number).name

    @property
    def status(self) -> int:
        """The exit status."""
        return 0 if self.number is None else 128 + self.number


# --- the live table ------------------------------------------------------------------------------------------

# The columns of a row: the key of the history's entry, the heading, the number format.
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
    """A callback for a run: shows each epoch when it ends, and asks to stop after a signal.

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
        self.stopping.held = True
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
        """Show an entry of the history; return True to stop the run."""
        self.rows.append(info)
        if self._live is not None:
            self._live.update(self._table())
        return self.interrupted

    def on_problem(self, text: str) -> None:
        """Print a failure that does not end the run."""
        print(f"spom: {text}", file=self.stream)

    def _table(self) -> Any:
        from rich import box
        from rich.table import Table

        used = [c for c in COLUMNS if c[0] == "epoch" or any(_known(row, c[0]) for row in self.rows)]
        if all(row.get("objective") == row.get("loss") for row in self.rows):
            # Without a penalty the objective equals the loss.
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
        """Return the stage of row i if it begins there or is the first row shown, else an empty string."""
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


# --- the run -------------------------------------------------------------------------------------------------

# The number of shards if --dask is given without --shards.
SHARDS = 8
_NOT_OPTIONS = ("train", "dev", "model", "json", "quiet", "config", "debug", "dask", "keep_checkpoint")
_HISTORY = (
    *("epoch", "stage", "objective", "loss", "dev", "blocks_kept", "nonzeros", "per_second", "seconds"),
    *("block_weights", "block_norms", "gap", "validation_loss"),
)


class Run:
    """One training run, from the options to the model and `M.run.json` (see `spom.models.run`).

    Inside the context, the first signal stops after the current epoch. `live` is the callback of the estimator. The
    state is written to `--checkpoint`; without it to M.checkpoint, and only if the run is stopped before its end.
    """

    def __init__(self, task: str, options: dict[str, Any], unit: str = "per second", shards: bool = True) -> None:
        if not shards and (options["shards"] is not None or options["dask"] is not None):
            raise Unsupported("--shards and --dask are for taggers, parsers and the online solver of data in memory")
        self.task, self.options = task, options
        self.live = Live(options.get("epochs"), options["quiet"] or options["json"], unit, stopping=Stopping())
        self.model = Path(options["model"])
        if self.model.is_dir():
            raise ModelFileError(f"{self.model}: this is a folder; name a file in it with --model")
        if not self.model.absolute().parent.is_dir():
            raise ModelFileError(f"{self.model.parent}: there is no such folder; make it first")
        self.begin, self.started = time.perf_counter(), datetime.now(UTC)
        self.stopped = "end"
        self.record: dict[str, Any] = {"data": {}}
        self._watch = self._checkpoint()

    def __enter__(self) -> Self:
        self.live.stopping.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.live.stopping.__exit__(*error)
        if error[0] is None and self.live.interrupted:
            raise typer.Exit(self.live.stopping.status)

    def _checkpoint(self) -> dict[str, Any]:
        """Return the arguments of `fit` for `--checkpoint`, `--checkpoint-every` and `--resume`."""
        from spom.models.run import run_path

        own, every = self.options["checkpoint"] is None, self.options["checkpoint_every"]
        path = Path(f"{self.model}.checkpoint") if own else Path(self.options["checkpoint"])
        if self.options["resume"] and not path.exists() and not previous(path).exists():
            raise DataError("there is no checkpoint to resume from; leave --resume out to start again", str(path))
        for file in (self.model, run_path(self.model), path):
            check_writable(file)
            remove_stale(file)
        # A checkpoint at the end would be removed at once, unless --keep-checkpoint is given.
        often = "stop" if own else every if self.options["keep_checkpoint"] else f"{every} or stop"
        return {"checkpoint": path, "checkpoint_every": often, "resume": bool(self.options["resume"])}

    def data(self, part: str, path: str, kind: str, **counts: Any) -> None:
        """Record a file that was read."""
        self.record["data"][part] = {"path": path, "format": kind, **{k: v for k, v in counts.items() if v is not None}}

    def fit(self, estimator: Any, X: Any, y: Any, dev: Any) -> None:
        """Fit an estimator, from shards if requested; the model does not depend on --jobs and --dask."""
        o, data = self.options, (X,) if y is None else (X, y)
        with self.live:
            if o["shards"] is None and o["dask"] is None:
                estimator.fit(*data, dev=dev, **self._watch)
            else:
                from spom.scale import Shards, fit

                if "n_jobs" in estimator.get_params(deep=False):
                    estimator.set_params(n_jobs=None)
                shards = Shards.arrays(X, y, o["shards"] or SHARDS)
                fit(estimator, shards, dev=dev, client=o["dask"], n_jobs=o["jobs"], **self._watch)
                if not o["quiet"]:
                    print(f"{len(shards)} shards: {costs(estimator.shard_report_)}", file=sys.stderr)
        self.stopped = "interrupted" if self.live.interrupted else "converged" if estimator.converged_ else "end"

    def learnt(self, entries: list[dict[str, Any]], **blocks: Any) -> None:
        """Record the history and, unless too many, the names of `blocks` and their weights (`block_weights`)."""
        self.record["history"] = [{k: v for k, v in entry.items() if k in _HISTORY} for entry in entries]
        self.record.update(blocks)

    def finish(self, model: Any, training: dict[str, Any], result: dict[str, Any], **more: Any) -> None:
        """Write the model and the record, print a summary, and remove the checkpoint or print how to resume."""
        from spom.models.loading import save_model
        from spom.models.run import run_path, write_run

        training = {**model._training(), "task": self.task, **training}
        save_model(model, self.model, training)
        seconds = time.perf_counter() - self.begin
        sizes: dict[str, Any] = {k: training[k] for k in ("nonzeros", "weights", "blocks_kept") if k in training}
        settings = {"settings": model.settings_} if hasattr(model, "settings_") else {}
        result = {**result, **sizes, **settings, "bytes": os.path.getsize(self.model), "seconds": seconds}
        options = {k: str(v) if isinstance(v, Path) else v for k, v in self.options.items() if k not in _NOT_OPTIONS}
        params = {k: v for k, v in model.get_params(deep=False).items() if k not in ("verbose", "callbacks")}
        write_run(
            run_path(self.model),
            {
                "spom": __version__,
                "command": sys.argv,
                "task": self.task,
                "estimator": type(model).__name__,
                "model": self.model.name,
                "started": self.started.isoformat(timespec="seconds"),
                "seconds": seconds,
                "stopped": self.stopped,
                "options": {**{k: v for k, v in options.items() if v is not None}, "parameters": params},
                **self.record,
                "result": result,
                **{k: v for k, v in more.items() if v is not None},
            },
        )
        self._tell(result)
        if self.stopped == "interrupted":
            what = f"stopped by {self.live.stopping.name}; to continue, run the same command with --resume"
            print(f"spom: {what}", file=sys.stderr)
        elif not self.options["keep_checkpoint"]:
            self._watch["checkpoint"].unlink(missing_ok=True)
            previous(self._watch["checkpoint"]).unlink(missing_ok=True)

    def _tell(self, result: dict[str, Any]) -> None:
        if self.options["json"]:
            print_json({"model": str(self.model), **result, "stopped": self.stopped})
        elif not self.options["quiet"]:
            parts = (summary(result, self.record), size(result["bytes"]), clock(result["seconds"]))
            print(f"{self.model}: {', '.join(part for part in parts if part)}")
            for line in kept_epochs(self.record.get("history", []), self.stopped):
                print(line)
            if "settings" in result:
                print(result["settings"])


# --- its summary ---------------------------------------------------------------------------------------------


def summary(result: dict[str, Any], record: dict[str, Any]) -> str:
    """Summarise the result in a few words."""
    parts: list[str] = []
    for key, name in (("f1", "F1"), ("las", "LAS"), ("uas", "UAS"), ("accuracy", "accuracy"), ("r2", "R2")):
        if key in result and len(parts) < 2:
            parts.append(f"{name} {result[key]:.4f}")
    if "blocks_kept" in result:
        of = f" of {len(record['blocks']):,}" if record.get("blocks") else ""
        parts.append(f"{result['blocks_kept']:,}{of} blocks kept")
    if "nonzeros" in result:
        parts.append(f"{result['nonzeros']:,} weights")
    return ", ".join(parts)


# Descriptions of the stages of a parser.
STAGES = {
    "arcs": "heads of words",
    "second stage": "heads again, with the first trees as features",
    "second order": "heads again, by siblings and grandparents too",
    "relations": "relations of the trees",
    "largest weights": "the largest weights, learnt again alone",
}


def stage_of(entry: dict[str, Any]) -> str:
    """Return the stage of an epoch, or an empty string if the run has only one."""
    return str(entry.get("stage") or "")


def in_stages(history: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return a list of (stage, its epochs), in order; a restarted epoch count begins another stage.

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
    """Return one line per stage: the epoch kept by the score on development data, or how many there were.

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


def clock(seconds: float) -> str:
    """Format a time for people.

    >>> clock(5.2), clock(75), clock(7300)
    ('5 s', '1:15', '2:01:40')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def size(count: int) -> str:
    """Format a number of bytes for people.

    >>> size(512), size(61_000), size(5_000_000)
    ('512 bytes', '61 kB', '5.0 MB')
    """
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def costs(report: list[dict[str, Any]]) -> str:
    """Format the total costs of the phases of a fit to shards.

    >>> costs([{"compute": 2.0, "waited": 1.25, "transfer": 0.5, "bytes": 61_000}])
    '1 phase, 2.0 s of computing on workers, 1.2 s of waiting for them, 0.5 s and 61 kB of transfer'
    """
    total = {name: sum(phase[name] for phase in report) for name in ("compute", "waited", "transfer", "bytes")}
    moved = f"{total['transfer']:.1f} s and {size(total['bytes'])} of transfer"
    phases = f"{len(report)} phase{'s' if len(report) != 1 else ''}"
    waited = f"{total['waited']:.1f} s of waiting for them"
    return f"{phases}, {total['compute']:.1f} s of computing on workers, {waited}, {moved}"
