"""A training run of the command: signals, the live table, the fit, the checkpoint, the record, the summary."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import typer

from spom import __version__
from spom.cli.live import Live, Stopping, clock, kept_epochs
from spom.cli.options import check_epochs, check_every, check_jobs, check_shards, print_json
from spom.core.atomic import check_writable, previous, remove_stale
from spom.errors import DataError, ModelFileError
from spom.models.loading import save_model
from spom.models.run import run_path, write_run

# Shards where --dask is given without --shards.
SHARDS = 8
_NOT_OPTIONS = ("train", "dev", "model", "json", "quiet", "config", "debug", "dask", "keep_checkpoint")
_HISTORY = (
    *("epoch", "stage", "objective", "loss", "dev", "blocks_kept", "nonzeros", "per_second", "seconds"),
    *("block_weights", "block_norms", "gap", "validation_loss"),
)


class Run:
    """One training run, from the options to the model and `M.run.json` (see `spom.models.run`).

    Inside of it, the first signal waits for the epoch under way. `live` is the callback of the estimator. The state is
    written to `--checkpoint`; without it to M.checkpoint, and only where the run is stopped before its end.
    """

    def __init__(self, task: str, options: dict[str, Any], unit: str = "per second", shards: bool = True) -> None:
        check_epochs(options.get("epochs"))
        check_jobs(options["jobs"])
        check_shards(options, shards)
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
        """What `fit` takes for `--checkpoint`, `--checkpoint-every` and `--resume`."""
        own, every = self.options["checkpoint"] is None, check_every(self.options["checkpoint_every"])
        path = Path(f"{self.model}.checkpoint") if own else Path(self.options["checkpoint"])
        if self.options["resume"] and not path.exists() and not previous(path).exists():
            raise DataError("there is no checkpoint to resume from; leave --resume out to start again", str(path))
        for file in (self.model, run_path(self.model), path):
            check_writable(file)
            remove_stale(file)
        # At the end a checkpoint would be removed at once, unless it is to be kept.
        often = "stop" if own else every if self.options["keep_checkpoint"] else f"{every} or stop"
        return {"checkpoint": path, "checkpoint_every": often, "resume": bool(self.options["resume"])}

    def data(self, part: str, path: str, kind: str, **counts: Any) -> None:
        """Note a file that was read."""
        self.record["data"][part] = {"path": path, "format": kind, **{k: v for k, v in counts.items() if v is not None}}

    def fit(self, estimator: Any, X: Any, y: Any, dev: Any) -> None:
        """Fit an estimator, from shards where they are asked for; the model does not depend on --jobs and --dask."""
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

    def history(self, entries: list[dict[str, Any]]) -> None:
        """Keep the history."""
        self.record["history"] = [{k: v for k, v in entry.items() if k in _HISTORY} for entry in entries]

    def blocks(self, names: list[str], weights: Any) -> None:
        """Keep the names of the blocks and their weights in the end."""
        self.record["blocks"] = names
        self.record["block_weights"] = weights

    def finish(self, model: Any, training: dict[str, Any], result: dict[str, Any], **more: Any) -> None:
        """Write the model and the record, say so, and remove the checkpoint or say how to continue."""
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


def summary(result: dict[str, Any], record: dict[str, Any]) -> str:
    """What came out, in a few words."""
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


def size(count: int) -> str:
    """Bytes as people read them.

    >>> size(512), size(61_000), size(5_000_000)
    ('512 bytes', '61 kB', '5.0 MB')
    """
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def costs(report: list[dict[str, Any]]) -> str:
    """What the phases of a fit to shards took, in all.

    >>> costs([{"compute": 2.0, "waited": 1.25, "transfer": 0.5, "bytes": 61_000}])
    '1 phase, 2.0 s of computing on workers, 1.2 s of waiting for them, 0.5 s and 61 kB of transfer'
    """
    total = {name: sum(phase[name] for phase in report) for name in ("compute", "waited", "transfer", "bytes")}
    moved = f"{total['transfer']:.1f} s and {size(total['bytes'])} of transfer"
    phases = f"{len(report)} phase{'s' if len(report) != 1 else ''}"
    waited = f"{total['waited']:.1f} s of waiting for them"
    return f"{phases}, {total['compute']:.1f} s of computing on workers, {waited}, {moved}"
