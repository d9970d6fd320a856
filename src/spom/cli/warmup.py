"""`spom warmup`: compile ahead of time what the first run would compile, for instance while a container is built."""

from __future__ import annotations

import typer

JOBS = typer.Argument(None, metavar="[JOB]...", help="tagger, parser, mkl, classifier or proximal; default: all.")


def warmup(jobs: list[str] = JOBS) -> None:
    """Compile the kernels of some jobs, or of all, on every core. What is there already is left alone.

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
