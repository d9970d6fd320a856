"""Run the stored experiments that are stale, and store their results: `python tools/reproductions.py [--all] [ID ...]`.

Each runs in a process of its own, `--jobs` at a time (2). A result is stored with the numbers of a tiny run, which a
test compares with those of the current code (see `spom.papers.freshness`).
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from spom.papers.catalogue import find, list_experiments
from spom.papers.freshness import lasting_probe, probe, stale
from spom.papers.result import Result
from spom.papers.running import again, run

STORED = Path(__file__).parents[1] / "docs" / "papers" / "results"


def why(id: str) -> str | None:
    """Return why this experiment has to be run, or None."""
    path = STORED / f"{id}.json"
    if not path.exists():
        return "there is no stored result"
    return stale(find(id), Result.load(path), probe(find(id)))


def store(id: str) -> str:
    """Run it in full, and return one line on the result."""
    result = run(id, folder=None, progress=False)
    result = replace(result, code={**result.code, "probe": lasting_probe(find(id))})
    again(result).save(STORED)
    return f"{id}: {result.seconds:.0f} s; claims that do not hold: {len(result.missed)}"


def main() -> None:
    """Find the stale experiments, and run them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="which ones (default: those that are stale)")
    parser.add_argument("--all", action="store_true", help="run all of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dry", action="store_true", help="only say which are stale, and why")
    options = parser.parse_args()
    ids = options.ids or [experiment.id for experiment in list_experiments()]
    if not options.all and not options.ids:
        reasons = {id: why(id) for id in ids}
        ids = [id for id, reason in reasons.items() if reason]
        print("\n".join(f"{id}: {reasons[id]}" for id in ids) or "nothing is stale", flush=True)
    if options.dry:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(store, id) for id in ids]):
            print(done.result(), flush=True)


if __name__ == "__main__":
    main()
