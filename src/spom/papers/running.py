"""Run experiments: compute, compare, draw, write."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from spom.errors import SpomError
from spom.papers.catalogue import find, list_experiments
from spom.papers.experiment import Experiment
from spom.papers.figures import panels, picture
from spom.papers.freshness import digest
from spom.papers.progress import Bar
from spom.papers.result import Numbers, Result, Row, Settings, plain, restored, versions, write


def run(
    id: str,
    quick: bool = False,
    folder: str | Path | None = "reproduced",
    seed: int = 0,
    *,
    settings: dict[str, Any] | None = None,
    figure: bool = True,
    progress: bool | None = None,
) -> Result:
    """Run one experiment; write `ID.json` and `ID.png` into `folder` (None: nothing), and return the result.

    `settings` go over those of the full or quick run. The same seed gives the same numbers, timings apart.
    """
    experiment = find(id)
    chosen = experiment.settings(quick, **(settings or {}))
    code = experiment.code
    if figure and folder is not None:
        picture(lambda: panels(1, 1)[0])  # a missing matplotlib is reported before the work, not after
    begin = time.process_time()
    with Bar(experiment.id, progress) as bar:
        # What is compared and drawn is what the file holds.
        numbers = restored(plain(code.compute(chosen, seed, bar)))
    result = Result(
        id=experiment.id,
        title=experiment.title,
        paper=experiment.paper,
        part=experiment.part,
        quick=quick,
        seed=seed,
        settings=chosen,
        numbers=numbers,
        table=table_of(experiment, numbers, chosen, quick),
        seconds=time.process_time() - begin,
        versions=versions(),
        code={"files": digest(experiment.code)},
    )
    if folder is not None:
        result.save(folder)
        if figure:
            write(Path(folder) / f"{id}.png", draw(result))
    return result


def table_of(experiment: Experiment, numbers: Numbers, settings: Settings, quick: bool) -> list[Row]:
    """The rows that the numbers give. A quick run is too small to decide a claim: it gives no verdict."""
    rows = experiment.code.compare(numbers, settings)
    return [replace(row, met=None) for row in rows] if quick else rows


def again(result: Result) -> Result:
    """The result with its table rebuilt from its numbers by the current code."""
    experiment = find(result.id)
    return replace(result, table=table_of(experiment, result.numbers, result.settings, result.quick))


def draw(result: Result, dpi: int = 150) -> bytes:
    """The figure of a result, as a PNG."""
    code = find(result.id).code
    return picture(lambda: code.draw(result.numbers, result.settings), dpi)


def run_all(
    quick: bool = False,
    folder: str | Path = "reproduced",
    seed: int = 0,
    *,
    progress: bool | None = None,
    done: Callable[[Experiment, Result | SpomError], None] | None = None,
) -> list[Result]:
    """Run them all and put them on one page, `index.html`, which also lists those that could not run.

    `done` is called with each experiment as it ends and its result, or the error that stopped it.
    """
    from spom.papers.page import html

    found: list[Result] = []
    failed: dict[str, str] = {}
    for experiment in list_experiments():
        outcome: Result | SpomError
        try:
            outcome = run(experiment.id, quick, folder, seed, progress=progress)
            found.append(outcome)
        except SpomError as error:
            outcome = error
            failed[experiment.id] = str(error)
        # After each, so that a run that is stopped leaves a page of what it did.
        write(Path(folder) / "index.html", html(found, failed, Path(folder)))
        if done is not None:
            done(experiment, outcome)
    return found
