"""`python -m tests.faults.kills 100`: kill, stop and fill the disk of `spom train` at random moments, then resume.

Each trial starts a run with checkpoints after every epoch, ends it by SIGKILL, SIGTERM or a full disk after a random
time (a limit of the size of its files, so that the next write stops in the middle), resumes until it ends well, and
compares the model file with that of a run that was never stopped.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from spom.cli.main import main

FAULTS = ("kill", "term", "full")
TASKS = ("tagger", "parser", "classifier")
# The largest file that a process with a full disk can write is drawn below this, in bytes: less than any checkpoint.
SMALL = 2000


def make_data(task: str, path: Path, count: int, seed: int) -> None:
    """Write sentences, trees or rows with something to learn."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        if task == "classifier":
            x = [draw.gauss(0, 1) for _ in range(30)]
            entries = " ".join(f"{i + 1}:{v:.6f}" for i, v in enumerate(x))
            lines.append(f"{1 if x[0] + x[1] * x[2] + draw.gauss(0, 0.5) > 0 else 2} {entries}")
            continue
        words = [f"w{int(draw.expovariate(0.02))}" for _ in range(draw.randint(3, 15))]
        tags = [f"T{int(word[1:]) % 4 if draw.random() < 0.9 else draw.randint(0, 3)}" for word in words]
        if task == "tagger":
            lines += [f"{word} {tag}" for word, tag in zip(words, tags, strict=True)]
        else:
            for i, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
                head = 0 if i == 1 else max(1, i - 1 - int(tag[1:]) % 2)
                relation = "root" if head == 0 else f"r{tag[1:]}"
                lines.append(f"{i}\t{word}\t{word}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    path.write_text("\n".join(lines) + "\n")


def command(task: str, folder: Path, model: Path, dev: bool, more: list[str]) -> list[str]:
    """Return the words of a run's command."""
    suffix = {"tagger": "txt", "parser": "conllu", "classifier": "svm"}[task]
    words = ["train", task, "--train", str(folder / f"{task}.train.{suffix}")]
    words += ["--dev", str(folder / f"{task}.dev.{suffix}")] if dev else []
    epochs = {"tagger": "12", "parser": "8", "classifier": "40"}[task]
    patience = [] if task == "classifier" else ["--set", "patience=None"]
    return [*words, "--model", str(model), "--epochs", epochs, "--quiet", *patience, *more]


def start(words: list[str]) -> int:
    """Start a process that runs the command; it is forked, so that nothing is imported or compiled again."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        # A test runner's own files would count against the limit of a full disk.
        sys.stdout = sys.stderr = open(silent, "w", closefd=False)  # noqa: SIM115
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # As Python itself does: a file that is too large is an error of `write`, not the end of the process.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        status = main(words)
    finally:
        os._exit(status)


def strike(process: int, fault: str, size: int) -> None:
    """Let the fault happen to a process that runs."""
    if fault == "full":
        resource.prlimit(process, resource.RLIMIT_FSIZE, (size, size))
    else:
        os.kill(process, signal.SIGKILL if fault == "kill" else signal.SIGTERM)


def run_until(words: list[str], fault: str | None, after: float, size: int = 0) -> int:
    """Return the exit status of a run that meets a fault after `after` seconds, unless it has ended before."""
    process, begin, struck = start(words), time.perf_counter(), fault is None
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        spent = time.perf_counter() - begin
        if fault is not None and not struck and spent >= after:
            strike(process, fault, size)
            struck = True
        if spent > 120:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise AssertionError(f"a run did not end: {words}")
        time.sleep(0.001)


class Place:
    """Where a task runs: its folder and files, the model that is expected, and how long a run takes."""

    def __init__(self, task: str, dev: bool, size: int) -> None:
        self.task, self.dev = task, dev
        self.folder = Path(tempfile.mkdtemp(prefix="spom-faults-"))
        self.model, self.state = self.folder / "model", self.folder / "state"
        suffix = {"tagger": "txt", "parser": "conllu", "classifier": "svm"}[task]
        for part, count, number in (("train", size, 1), ("dev", size // 4, 2)):
            make_data(task, self.folder / f"{task}.{part}.{suffix}", count, number)
        words = command(task, self.folder, self.folder / "whole", dev, [])
        before = signal.getsignal(signal.SIGTERM)
        try:
            # In this process, so that its children find all that is compiled.
            assert main(words) == 0
        finally:
            signal.signal(signal.SIGTERM, before)
        self.whole = (self.folder / "whole").read_bytes()
        begin = time.perf_counter()
        assert run_until(words, None, 0.0) == 0
        self.seconds = time.perf_counter() - begin

    def clear(self) -> None:
        """Remove what an earlier trial left."""
        for path in [*self.folder.glob("*model*"), *self.folder.glob("*state*")]:
            path.unlink()


def trial(place: Place, draw: random.Random) -> list[str]:
    """Cause faults until a run ends well; return what happened, or raise an `AssertionError`."""
    told = []
    place.clear()
    checkpoint = ["--checkpoint", str(place.state), "--checkpoint-every", "1"]
    for attempt in range(6):
        fault = draw.choice(FAULTS) if attempt < 3 else None
        resumes = place.state.exists() or Path(f"{place.state}.previous").exists()
        words = [*checkpoint, *(["--resume"] if resumes else [])]
        after = draw.uniform(0.02, 1.1) * place.seconds
        words = command(place.task, place.folder, place.model, place.dev, words)
        begin = time.perf_counter()
        status = run_until(words, fault, after, draw.randrange(SMALL))
        told.append(f"{fault}:{status}")
        told += ["resumed"] if resumes else []
        if status == 0:
            if not resumes:
                # The machine may be slower or faster than it was a minute ago.
                place.seconds = 0.5 * (place.seconds + time.perf_counter() - begin)
            break
        assert status in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM, 2), (told, status)
    assert status == 0, told
    assert place.model.read_bytes() == place.whole, (place.task, place.dev, told)
    assert not list(place.folder.glob(".*.part")), list(place.folder.iterdir())
    assert not place.state.exists()
    return told


def campaign(task: str, dev: bool, trials: int, seed: int, size: int = 400) -> Counter[str]:
    """Run trials of a task until so many met a fault; return how often each fault gave each exit status."""
    draw, found, place = random.Random(seed), Counter[str](), Place(task, dev, size)
    try:
        while found["trials"] < trials:
            told = trial(place, draw)
            found.update(told)
            # A fault that came after the end of the run was none.
            found["trials"] += any(not what.endswith(":0") for what in told if ":" in what)
    finally:
        shutil.rmtree(place.folder)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill, stop and fill the disk of training runs, and resume them.")
    parser.add_argument("trials", type=int, nargs="?", default=100)
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    for name in [given.task] if given.task else TASKS:
        for dev in (False, True):
            begin = time.perf_counter()
            print(name, "with dev" if dev else "alone", given.trials, "trials, all the same bytes:", end=" ")
            told = dict(sorted(campaign(name, dev, given.trials, given.seed).items()))
            print(told, f"{time.perf_counter() - begin:.0f} s", flush=True)
