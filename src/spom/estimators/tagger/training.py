"""The run of a tagger: passes, development score, early stopping, callbacks, progress, checkpoints."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Floats
from spom.core.callbacks import Callbacks
from spom.solvers.iterate import _period
from spom.solvers.structured.chains.data import Singles
from spom.solvers.structured.chains.objective import penalty_value, summarised
from spom.solvers.structured.chains.solver import Epoch, OnlineChain

Weights = tuple[Singles, Floats]


@dataclass
class Watch:
    """What looks on: the score on development data, callbacks, a line of progress, a checkpoint now and then."""

    dev: Callable[[Weights], float] | None = None
    patience: int | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    verbose: int = 0
    checkpoint: Path | None = None
    every: int | float | str = "60s"
    label: str = ""


@dataclass(frozen=True)
class Run:
    """What came out: the weights, one dict an epoch, and why it ended."""

    weights: Weights
    history: list[dict[str, Any]]
    stopped: str


def train(solver: OnlineChain, watch: Watch, history: list[dict[str, Any]] | None = None) -> Run:
    """All epochs, or fewer where a rule, a callback or Ctrl-C ends the run; with `dev` the best weights are kept."""
    begin, past = time.perf_counter(), list(history or [])
    best: Weights | None = None
    best_score, bad, stopped = -np.inf, 0, "end"
    saver, line = _Saver(solver, watch), _Progress(watch.verbose, watch.label)
    try:
        for epoch in solver.passes():
            weights = solver.weights() if watch.dev is not None else None
            info = describe(solver, epoch, weights, time.perf_counter() - begin)
            if watch.dev is not None and weights is not None:
                info["dev"] = watch.dev(weights)
                improved = info["dev"] > best_score
                bad = 0 if improved else bad + 1
                if improved:
                    best, best_score = weights, info["dev"]
            past.append(info)
            saver.tick()
            line.show(info, solver.epochs)
            if watch.callbacks.epoch(info):
                break
            if watch.patience is not None and bad >= watch.patience:
                stopped = "converged"
                break
    except KeyboardInterrupt:
        if not past:
            raise
        stopped = "interrupted"
    finally:
        line.clear()
    stopped = "callback" if watch.callbacks.stopped else stopped
    saver.close(stopped)
    return Run(solver.weights() if best is None else best, past, stopped)


def describe(solver: OnlineChain, epoch: Epoch, weights: Weights | None, seconds: float) -> dict[str, Any]:
    """An entry of `history_`; the objective is the mean of the losses met in the epoch plus the penalty at its end."""
    found = solver.engine.summary() if weights is None else summarised(*weights, solver.blocks.starts)
    total = found.norms.sum()
    return {
        "epoch": epoch.epoch,
        "objective": epoch.loss + penalty_value(solver.penalty, found, solver.transitions),
        "loss": epoch.loss,
        "blocks_kept": int(np.count_nonzero(found.norms)),
        "nonzeros": found.nonzeros,
        "per_second": epoch.epoch * solver.tokens.total / max(solver.seconds, 1e-9),
        "seconds": seconds,
        "block_weights": found.norms / total if total > 0 else found.norms,
    }


class _Saver:
    """Writes the state of a run now and then, and once more at its end; `every="stop"`: only where it was stopped."""

    def __init__(self, solver: OnlineChain, watch: Watch) -> None:
        self.solver, self.watch = solver, watch
        self.on_stop = watch.every == "stop"
        self.period, self.by_time = (np.inf, True) if self.on_stop else _period(watch.every)
        self.mark, self.count, self.dirty = time.perf_counter(), 0, False

    def tick(self) -> None:
        """One more epoch is done."""
        if self.watch.checkpoint is None:
            return
        self.count, self.dirty = self.count + 1, True
        now = time.perf_counter()
        if (now - self.mark >= self.period) if self.by_time else (self.count % self.period == 0):
            self._save()
            self.mark = now

    def close(self, stopped: str) -> None:
        """The run is over."""
        if self.dirty and (not self.on_stop or stopped in ("callback", "interrupted")):
            self._save()

    def _save(self) -> None:
        assert self.watch.checkpoint is not None
        self.solver.state().save(self.watch.checkpoint)
        self.dirty = False
        self.watch.callbacks.checkpoint(self.watch.checkpoint)


class _Progress:
    """One line on a terminal, from the third second on."""

    def __init__(self, verbose: int, label: str) -> None:
        self.on = bool(verbose) and sys.stderr.isatty()
        self.label, self.begin, self.width = label, time.perf_counter(), 0

    def show(self, info: dict[str, Any], total: int) -> None:
        """Bring the line up to date."""
        if not self.on or time.perf_counter() - self.begin < 2.0:
            return
        text = f"{self.label}: epoch {info['epoch']}/{total}, loss {info['loss']:.4f}, {info['nonzeros']} weights"
        text += f", dev {info['dev']:.4f}" if "dev" in info else ""
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
