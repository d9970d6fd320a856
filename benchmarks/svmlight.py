"""Learning from a text file that does not have to fit in memory: spom from svmlight, vw from its own format.

`python -m benchmarks svmlight:200` takes a file of 200 MB instead of 1 GB. Both programs run in a process of their own,
over the same rows and in one pass, with an l1-logistic model. Both read in one thread and learn in another, so wall
seconds decide; CPU seconds are shown in case the machine is busy.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import Table

FEATURES, ENTRIES, DISTINCT = 1 << 18, 40, 20_000

OURS = """
import sys, resource, time
from spom import OnlineClassifier
from spom.penalties import L1
begin = time.perf_counter()
model = OnlineClassifier(penalty=L1(1e-6), epochs=1, verbose=0, random_state=0).fit(sys.argv[1])
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, model.n_rounds_)
"""


def write(folder: Path, megabytes: float) -> tuple[Path, Path, int]:
    """Write the same rows in both formats; features are distributed like words, with a few frequent ones."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(FEATURES)
    ours, theirs = [], []
    for _ in range(DISTINCT):
        drawn = np.minimum(rng.zipf(1.3, ENTRIES), FEATURES) * 2654435761 % FEATURES
        at = np.unique(drawn)
        values = np.round(rng.random(at.size), 3)
        label = 1 if truth[at] @ values > 0 else -1
        entries = [f"{j + 1}:{v:g}" for j, v in zip(at, values, strict=True)]
        ours.append(f"{label} " + " ".join(entries))
        theirs.append(f"{label} | " + " ".join(entries))
    blocks = ["\n".join(lines) + "\n" for lines in (ours, theirs)]
    times = max(1, round(megabytes * 1e6 / len(blocks[0])))
    paths = folder / "rows.svm", folder / "rows.vw"
    for path, block in zip(paths, blocks, strict=True):
        with open(path, "w") as file:
            for _ in range(times):
                file.write(block)
    return *paths, times * DISTINCT


def run(command: list[str]) -> tuple[float, float, str]:
    """Run a command; return wall seconds, CPU seconds, and its output."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu, done.stdout


def main(part: str = "1000") -> None:
    """Run one pass over `part` megabytes."""
    with tempfile.TemporaryDirectory() as name:
        svm, vw, rows = write(Path(name), float(part))
        small = Path(name) / "small.svm"
        small.write_text("1 1:1\n-1 2:1\n")
        run([sys.executable, "-c", OURS, str(small)])  # compiled once, as after an install
        theirs = [sys.executable, "-m", "vowpalwabbit", "-d", str(vw), "--ftrl", "--ftrl_alpha", "0.1", "--l1", "1e-6"]
        theirs += ["--loss_function", "logistic", "--noconstant", "-b", "18", "--quiet"]
        two = Path(name) / "small.vw"
        two.write_text("1 | 1:1\n-1 | 2:1\n")
        idle_vw = [str(two) if part == str(vw) else part for part in theirs]
        best = np.full((4, 2), np.inf)
        for _ in range(3):
            ours = run([sys.executable, "-c", OURS, str(svm)])
            printed = ours[2]
            best[0] = np.minimum(best[0], ours[:2])
            best[1] = np.minimum(best[1], run(theirs)[:2])
            start = run([sys.executable, "-c", OURS, str(small)])
            idle = start[2]
            best[2] = np.minimum(best[2], start[:2])
            best[3] = np.minimum(best[3], run(idle_vw)[:2])
        memory = (float(printed.split()[1]) - float(idle.split()[1])) / 1024
        assert int(printed.split()[2]) == rows
    table = Table(
        f"one pass over {float(part):g} MB of text, {rows:,} rows (seconds of a whole process; peer: vw --ftrl)"
    )
    table.add("wall", best[0, 0], best[1, 0])
    table.add("CPU", best[0, 1], best[1, 1])
    table.add("CPU for a file of two rows: start, imports, compiled code", best[2, 1], best[3, 1])
    net = best[:2] - best[2:]
    reached = bool(net[0, 0] <= net[1, 0])
    table.add("wall for reading and learning, less that start", net[0, 0], net[1, 0], "at least vw's rows/s", reached)
    table.add("CPU for reading and learning, less that start", net[0, 1], net[1, 1])
    table.add("memory above that of a file of two rows, MB", memory, target="under 300", reached=memory < 300)


if __name__ == "__main__":
    main(*sys.argv[1:])
