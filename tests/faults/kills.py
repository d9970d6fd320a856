"""`python -m tests.faults.kills 100`: kill, stop and fill the disk of `spom train` at random moments, then resume.

Each trial starts a run with checkpoints after every epoch, ends it by SIGKILL, SIGTERM or a full disk after a random
time (a limit of the size of its files, so that the next write stops in the middle), resumes until it ends well, and
compares the model file with that of a run that was never stopped.
"""

from __future__ import annotations

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
from typing import Any

from spom.cli.main import main

FAULTS = ("kill", "term", "full")
TASKS = ("tagger", "parser", "classifier")
# The largest file that a process with a full disk can write is drawn below this, in bytes: less than any checkpoint.
SMALL = 2000


def make_data(task: str, path: Path, count: int, seed: int) -> None:
    """Sentences, trees or rows with something to learn."""
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
    """The words of a run."""
    suffix = {"tagger": "txt", "parser": "conllu", "classifier": "svm"}[task]
    words = ["train", task, "--train", str(folder / f"{task}.train.{suffix}")]
    words += ["--dev", str(folder / f"{task}.dev.{suffix}")] if dev else []
    epochs = {"tagger": "12", "parser": "8", "classifier": "40"}[task]
    patience = [] if task == "classifier" else ["--set", "patience=None"]
    return [*words, "--model", str(model), "--epochs", epochs, "--quiet", *patience, *more]


def start(words: list[str]) -> int:
    """A process of its own that runs the command; forked, so that nothing is imported or compiled again."""
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
    """The exit status of a run that meets a fault after so many seconds, if it has not ended before."""
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


def trial(task: str, dev: bool, folder: Path, whole: bytes, seconds: tuple[float, float], draw: Any) -> list[str]:
    """Faults, one after another, until a run ends well; what happened, or an `AssertionError`."""
    model, told = folder / "model", []
    state = folder / "state"
    for path in folder.glob("*model*"):
        path.unlink()
    for path in folder.glob("*state*"):
        path.unlink()
    checkpoint = ["--checkpoint", str(state), "--checkpoint-every", "1"]
    for attempt in range(6):
        fault = draw.choice(FAULTS) if attempt < 3 else None
        resume = ["--resume"] if state.exists() or Path(f"{state}.previous").exists() else []
        words = command(task, folder, model, dev, [*checkpoint, *resume])
        status = run_until(words, fault, draw.uniform(*seconds), draw.randrange(SMALL))
        told.append(f"{fault}:{status}")
        if status == 0:
            break
        assert status in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM, 2), (told, status)
    assert status == 0, told
    assert model.read_bytes() == whole, (task, dev, told)
    assert not list(folder.glob(".*.part")), list(folder.iterdir())
    assert not state.exists()
    return told


def campaign(task: str, dev: bool, trials: int, seed: int, size: int = 400) -> Counter[str]:
    """So many trials of a task; how often each fault met each exit status."""
    folder = Path(tempfile.mkdtemp(prefix="spom-faults-"))
    draw, found = random.Random(seed), Counter[str]()
    try:
        suffix = {"tagger": "txt", "parser": "conllu", "classifier": "svm"}[task]
        for part, count, number in (("train", size, 1), ("dev", size // 4, 2)):
            make_data(task, folder / f"{task}.{part}.{suffix}", count, number)
        words = command(task, folder, folder / "whole", dev, [])
        before = signal.getsignal(signal.SIGTERM)
        try:
            # In this process, so that its children find all that is compiled.
            assert main(words) == 0
        finally:
            signal.signal(signal.SIGTERM, before)
        begin = time.perf_counter()
        assert run_until(words, None, 0.0) == 0
        spent = time.perf_counter() - begin
        for _ in range(trials):
            found.update(trial(task, dev, folder, (folder / "whole").read_bytes(), (0.02 * spent, 1.1 * spent), draw))
    finally:
        shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for name in sys.argv[2:] or TASKS:
        for dev in (False, True):
            begin = time.perf_counter()
            print(name, "with dev" if dev else "alone", trials, "trials, all the same bytes:", end=" ", flush=True)
            print(dict(campaign(name, dev, trials, seed=7)), f"{time.perf_counter() - begin:.0f} s", flush=True)
