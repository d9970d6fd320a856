"""`python -m tests.fuzz.fuzz 1000000`: mutated inputs for readers, model files and checkpoints.

Inputs run in forked processes, many in each. Allowed is a result or a `SpomError`; an input that kills its process,
raises anything else, takes over a second of CPU time or grows memory by over 500 MB is a finding. So is an index out of
bounds in compiled code, which `NUMBA_BOUNDSCHECK=1` lets it raise, whoever catches it. Findings are printed as JSON;
`cases.jsonl` keeps those of earlier runs, and `test_fuzz.py` runs them again.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spom.errors import SpomError
from tests.fuzz.checkpoints import checkpoints, states
from tests.fuzz.models import model_files
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import reading

KEPT = Path(__file__).with_name("cases.jsonl")
# CPU seconds of one input that are too many, and after which its process is ended; kB of memory.
SECONDS, ENDED, GROWTH = 1.0, 20.0, 500 << 10
# Inputs of one turn: readers are quick, checkpoints are resumed and so learnt with.
TURN = {"read": 1000, "model": 100, "checkpoint": 50, "state": 50}
# What compiled code says when bounds are checked; numpy's own errors name the index.
OUT_OF_BOUNDS = "index is out of bounds"


class Target:
    """Something that takes inputs: `draw` makes one, as JSON can keep it, and `run` tries it."""

    def __init__(self, draw: Callable[[random.Random], Any], run: Callable[[Any], None]) -> None:
        self.draw, self.run = draw, run


def targets(folder: Path, only: str = "") -> dict[str, Target]:
    """Return the targets of fuzzing by name; `only` those whose name contains this."""
    found: dict[str, Target] = {}
    warnings.simplefilter("ignore")
    for name, (seed, use) in reading(folder).items():
        found[f"read {name}"] = Target(
            lambda draw, seed=seed: mutated(seed, draw).decode("latin-1"),
            lambda text, use=use: use(text.encode("latin-1")),
        )
    for kind, make in (("model", model_files), ("checkpoint", checkpoints), ("state", states)):
        if only.split()[:1] not in ([], [kind]) and only.split()[0] in TURN:
            continue
        for name, file in make(folder).items():
            found[name] = Target(file.draw, lambda changes, file=file: file.run(changes, folder))
    return {name: target for name, target in found.items() if only in name}


def tried(target: Target, given: Any) -> str:
    """Try an input; return what went wrong, or nothing."""
    before, begin = _resident(), time.process_time()
    ignored: list[str] = []
    sys.unraisablehook = lambda found: ignored.append(repr(found.exc_value))
    try:
        target.run(given)
    except SpomError as error:
        if OUT_OF_BOUNDS in str(error):
            return f"compiled code read out of bounds: {error}"[:300]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    spent = time.process_time() - begin
    if ignored:
        return f"ignored: {ignored[0]}"[:300]
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > GROWTH:
        return "memory grew by over 500 MB"
    return f"{spent:.1f} s of CPU time" if spent > SECONDS else ""


def _resident() -> int:
    """Memory of this process in kB; the peak is set back to it."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 10


def drawn(target: Target, seed: str) -> Any:
    """Return the input of a seed."""
    return target.draw(random.Random(seed))


def turn(name: str, target: Target, numbers: range) -> Iterator[dict[str, Any]]:
    """Yield findings among the inputs of these seeds, tried in another process; if it dies, the current input."""
    at = numbers.start
    while at < numbers.stop:
        where = mmap.mmap(-1, 8)
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(read)
            _work(name, target, range(at, numbers.stop), where, write)
        os.close(write)
        with os.fdopen(read) as lines:
            yield from (json.loads(line) for line in lines)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        reached = int.from_bytes(where[:8], "little")
        if status == 0:
            return
        what = f"the process ended with status {status}"
        if -status == signal.SIGPROF:
            what = f"over {ENDED:g} s of CPU time"
        yield {"target": name, "found": what, "input": drawn(target, f"{name} {reached}")}
        at = reached + 1


def _work(name: str, target: Target, numbers: range, where: mmap.mmap, write: int) -> None:
    """Try the inputs in a forked process, and report the findings."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        for number in numbers:
            where[:8] = number.to_bytes(8, "little")
            signal.setitimer(signal.ITIMER_PROF, ENDED)
            given = drawn(target, f"{name} {number}")
            found = tried(target, given)
            if found:
                os.write(write, (json.dumps({"target": name, "found": found, "input": given}) + "\n").encode())
        status = 0
    finally:
        os._exit(status)


def quick() -> None:
    """Nothing here needs to outlive a power failure: files need not reach the disk."""
    os.fsync = lambda _: None  # type: ignore[assignment]


def scratch() -> str | None:
    """Return a folder in memory, if there is one."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def campaign(
    count: int, seconds: float, first: int = 0, only: str = "", scale: float = 1.0
) -> tuple[Counter[str], list[dict[str, Any]]]:
    """About `count` inputs in turn over all targets, or as many as `seconds` allow; counts and findings."""
    counts, findings, end = Counter[str](), list[dict[str, Any]](), time.monotonic() + seconds
    quick()
    with tempfile.TemporaryDirectory(prefix="spom-fuzz-", dir=scratch()) as name:
        found = targets(Path(name), only)
        turns = 0
        while sum(counts.values()) < count and time.monotonic() < end:
            for name, target in found.items():
                size = max(1, int(TURN[name.split()[0]] * scale))
                begin = first + turns * size
                for finding in turn(name, target, range(begin, begin + size)):
                    findings.append(finding)
                    print(json.dumps(finding), flush=True)
                counts[name] += size
            turns += 1
            print(f"{sum(counts.values())} inputs, {len(findings)} findings: {by_kind(counts)}", file=sys.stderr)
    return counts, findings


def by_kind(counts: Counter[str]) -> dict[str, int]:
    """Return how many inputs went to readers, model files, checkpoints and states."""
    return {kind: sum(n for name, n in counts.items() if name.startswith(kind)) for kind in TURN}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after this time")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="targets whose name has this in it")
    parser.add_argument("--scale", type=float, default=1.0, help="inputs per turn, as a multiple")
    given = parser.parse_args()
    counts, findings = campaign(given.count, given.seconds, given.first, given.only, given.scale)
    for name, number in sorted(counts.items()):
        print(f"# {name}: {number}")
    print(f"# {sum(counts.values())} inputs, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
