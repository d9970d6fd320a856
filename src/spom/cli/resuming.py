"""Checkpoints of the command: where they are, what is removed when, and what is checked before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spom.cli.options import check_every
from spom.core.atomic import check_writable, previous, remove_stale
from spom.errors import DataError
from spom.models.run import run_path


class Resuming:
    """What `--checkpoint`, `--checkpoint-every`, `--resume` and `--keep-checkpoint` mean.

    Without `--checkpoint` the state is written to M.checkpoint, and only where the run is stopped before its end.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        own = options["checkpoint"] is None
        every = check_every(options["checkpoint_every"])
        self.path = Path(f"{options['model']}.checkpoint") if own else Path(options["checkpoint"])
        self.keep = bool(options["keep_checkpoint"])
        if options["resume"] and not self.path.exists() and not previous(self.path).exists():
            raise DataError("there is no checkpoint to resume from; leave --resume out to start anew", str(self.path))
        for path in (options["model"], run_path(options["model"]), self.path):
            check_writable(path)
            remove_stale(path)
        self.arguments = {
            "checkpoint": self.path,
            # At the end it would be removed at once, unless it is to be kept.
            "checkpoint_every": "stop" if own else every if self.keep else f"{every} or stop",
            "resume": bool(options["resume"]),
        }

    def finished(self) -> None:
        """The run ended well and its model is written: the checkpoint is of no use any more."""
        if not self.keep:
            self.path.unlink(missing_ok=True)
            previous(self.path).unlink(missing_ok=True)
