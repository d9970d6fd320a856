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

    `settings` override those of the full or quick run. The same seed gives the same numbers, except timings.
    """
    experiment = find(id)
    chosen = experiment.settings(quick, **(settings or {}))
    code = experiment.code
    if figure and folder is not None:
        picture(lambda: panels(1, 1)[0])  # reports a missing matplotlib before the work
    begin = time.process_time()
    with Bar(experiment.id, progress) as bar:
        # Compare and draw the same numbers as in the file.
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
    """Return the rows for these numbers. Quick runs are too small to decide a claim, so they give no verdict."""
    rows = experiment.code.compare(numbers, settings)
    return [replace(row, met=None) for row in rows] if quick else rows


def again(result: Result) -> Result:
    """Return the result with its table rebuilt from its numbers by the current code."""
    experiment = find(result.id)
    return replace(result, table=table_of(experiment, result.numbers, result.settings, result.quick))


def draw(result: Result, dpi: int = 150) -> bytes:
    """Return the figure of a result, as a PNG."""
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
    """Run all experiments and write one page, `index.html`, which also lists those that could not run.

    `done` is called at the end of each experiment, with the experiment and its result or error.
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
        # Written after each experiment, so that an interrupted run leaves a page.
        write(Path(folder) / "index.html", html(found, failed, Path(folder)))
        if done is not None:
            done(experiment, outcome)
    return found
