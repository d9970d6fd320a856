"""`spom warmup`: compile ahead of time what the first run would compile. `compiling` prints a note during a wait."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

JOBS = typer.Argument(
    None, metavar="[JOB]...", help="tagger, parser, mkl, classifier, proximal, pipeline or demo; default: all."
)


def warmup(jobs: list[str] = JOBS) -> None:
    """Compile the kernels of some jobs, or of all, on all cores. Kernels that are already compiled are skipped.

    \b
    Examples:
      spom warmup
      spom warmup tagger parser
    """
    from spom.core.compiled.jobs import MODULES, kernels_of
    from spom.core.compiled.pool import compile_missing

    unknown = [job for job in jobs or () if job not in MODULES]
    if unknown:
        raise typer.BadParameter(f"there is no job {unknown[0]!r}; the jobs are: {', '.join(MODULES)}")
    kernels = {k.name: k for job in jobs or MODULES for k in kernels_of(job)}
    made = compile_missing(list(kernels.values()))
    print(f"{len(kernels)} kernels are ready, {made} of them compiled now")


TEXT = "(loading compiled code; the first time it is made, which takes up to a minute)"


@contextmanager
def compiling(after: float = 2.0) -> Iterator[None]:
    """Print a line to standard error if the block takes longer than `after` seconds."""
    timer = threading.Timer(after, lambda: print(TEXT, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
