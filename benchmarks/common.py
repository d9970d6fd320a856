"""Timing and tables shared by all benchmarks.

A benchmark module has `main()`, which prints tables of rows (what, ours, peer, ratio, target, reached). The ratio is
peer / ours, so above 1 is better for us wherever less is better.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Timing:
    """The least seconds over repeats, and the result of the last call."""

    seconds: float
    result: Any


def measure(function: Callable[[], Any], repeats: int = 5, *, wall: bool = False, warm: bool = True) -> Timing:
    """Return the least time of a call: CPU seconds of this thread, or wall seconds (for threads and processes)."""
    clock = time.perf_counter if wall else time.thread_time
    result = function() if warm else None
    best = math.inf
    for _ in range(repeats):
        gc.collect()
        begin = clock()
        result = function()
        best = min(best, clock() - begin)
    return Timing(best, result)


def race(*functions: Callable[[], Any], repeats: int = 5, wall: bool = False) -> list[Timing]:
    """Measure several functions in turns, so that other load on the machine affects all of them."""
    clock = time.perf_counter if wall else time.thread_time
    results = [function() for function in functions]
    best = [math.inf] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            gc.collect()
            begin = clock()
            results[k] = function()
            best[k] = min(best[k], clock() - begin)
    return [Timing(seconds, result) for seconds, result in zip(best, results, strict=True)]


# Floors missed since the program started; they set its exit status and appear in its last line.
MISSED: list[str] = []


# Every table since the program started, for `--keep`.
TABLES: list[Table] = []


def judged(what: str, reached: bool) -> str:
    """Return `yes`, or `NO` for a missed floor, which is recorded."""
    if not reached:
        MISSED.append(what)
    return "yes" if reached else "NO"


@dataclass
class Table:
    """Rows that are printed as they are added; missed floors are recorded."""

    title: str
    rows: list[tuple[str, str, str, str, str, str]] = field(default_factory=list)
    settings: str = ""

    def __post_init__(self) -> None:
        TABLES.append(self)
        print(f"\n{self.title}")
        if self.settings:
            print(f"  ({self.settings})")
        self._print("", "ours", "peer", "ratio", "target", "")

    def add(
        self,
        what: str,
        ours: float,
        peer: float = math.nan,
        target: str = "",
        reached: bool | None = None,
        unit: str = "",
    ) -> None:
        """Add one row; `reached` tells whether the target is met, None if there is no target."""
        ratio = peer / ours if ours and not math.isnan(peer) else math.nan
        mark = "" if reached is None else judged(f"{self.title}: {what}", reached)
        row = (what, _number(ours) + unit, _number(peer) + (unit if not math.isnan(peer) else ""), _number(ratio))
        self.rows.append((*row, target, mark))
        self._print(*self.rows[-1])

    @staticmethod
    def _print(what: str, ours: str, peer: str, ratio: str, target: str, mark: str) -> None:
        print(f"  {what:<58} {ours:>11} {peer:>11} {ratio:>8}  {target:<28} {mark}", flush=True)


def _number(x: float) -> str:
    if math.isnan(x):
        return "-"
    if x != 0 and (abs(x) < 1e-3 or abs(x) >= 1e6):
        return f"{x:.2e}"
    return f"{x:.4g}"


def data_folder() -> str | None:
    """Return the folder of the real data, $SPOM_DATA, or print a hint and return None."""
    folder = os.environ.get("SPOM_DATA")
    if not folder or not os.path.isdir(folder):
        print("  (skipped: set SPOM_DATA to the folder of the real data sets; `spom data fetch NAME` fills it)")
        return None
    return folder
