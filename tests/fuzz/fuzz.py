"""`python -m tests.fuzz.fuzz 100000`: mutated inputs for readers, model files and checkpoints.

Inputs run in forked processes, many in each. Allowed is a result or a `SpomError`; an input that kills its process,
raises anything else, takes over a second of CPU time or grows memory by over 500 MB is a finding, and is kept.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spom import OnlineClassifier, load_model
from spom.core import container
from spom.data import Treebank, read_conll, read_conllu, read_items, read_svmlight
from spom.data.tables import read_table
from spom.errors import SpomError

FIXTURES = Path(__file__).parents[1] / "models" / "fixtures"
SECONDS, GROWTH, BATCH = 1.0, 500 << 10, 20
WORDS = (
    b"\t",
    b"\n",
    b"\r",
    b"\n\n",
    b"\0",
    b"\xff",
    b"_",
    b"-1",
    b"9" * 25,
    b"1e999",
    b"nan",
    b"1-2",
    b"1.1",
    b":",
    b'"',
)
SEEDS: dict[str, bytes] = {
    "conll": "The DT B-NP\ncat NN I-NP\n\nsleeps VBZ B-VP\nä X O\n".encode(),
    "conllu": b"# text = a b\n1\ta\ta\tN\t_\tA=B\t2\tdet\t_\t_\n2\tb\tb\tV\t_\t_\t0\troot\t_\t_\n\n",
    "svmlight": b"1 1:0.5 3:2e-3 # note\n-1 2:1\n2 1:1 2:-7.25\n",
    "csv": b'a,b,label\n1,2.5,x\n3,"4",y\n-1e5,0,x\n',
    "items": b"B\tw=the\tcap:0.5\nI\tw=cat\n\nO\tx\n",
}
READERS: dict[str, Callable[[Any], Any]] = {
    "conll": read_conll,
    "conllu": lambda file: read_conllu(file).columns.strings("form"),
    "svmlight": lambda file: list(read_svmlight(file)),
    "csv": lambda file: list(read_table(file)),
    "items": read_items,
    "parquet": lambda file: list(read_table(file, "parquet")),
}


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """A few changes: bytes, words that mean something, parts left out, twice or elsewhere."""
    data = bytearray(seed)
    for _ in range(draw.randint(1, 6)):
        at, end = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
        kind = draw.randint(0, 4)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] = draw.randrange(256)
        elif kind == 1:
            data[at:at] = draw.choice(WORDS)
        elif kind == 2:
            del data[at : min(end, at + draw.randint(1, 20))]
        elif kind == 3:
            data[at:at] = data[at : at + draw.randint(1, 40)] * draw.randint(1, 3)
        else:
            data[at : at + draw.randint(0, 4)] = draw.choice(WORDS)
    return bytes(data)


def altered(array: Any, draw: random.Random) -> Any:
    """An array with other numbers, another shape or another dtype."""
    a, kind = np.array(array), draw.randint(0, 5)
    if kind == 0:
        return a.reshape(-1)[: draw.randint(0, a.size)]
    if kind == 1:
        return a.astype(draw.choice(["int32", "int64", "uint8", "float32", "float64"]))
    if a.size and a.dtype.kind in "iuf":
        info = np.iinfo(a.dtype) if a.dtype.kind in "iu" else np.finfo(a.dtype)
        choices = [info.max, info.min, 0, 1, min(info.max, a.size + 7)]
        choices += [np.nan, np.inf] if a.dtype.kind == "f" else []
        for _ in range(draw.randint(1, 3)):
            a.reshape(-1)[draw.randrange(a.size)] = draw.choice(choices)
    return a


def altered_json(value: Any, draw: random.Random) -> Any:
    """A JSON value with one part exchanged."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        return {**value, key: altered_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at = draw.randrange(len(value))
        return [*value[:at], altered_json(value[at], draw), *value[at + 1 :]]
    return draw.choice([None, -1, 0, 2**31, 2**70, 1.5, "", "x", [], {}, [[]], True])


class File:
    """A container whose hashes are computed again after each change; `use` is what is done with it."""

    def __init__(self, path: Path, use: Callable[[Path], Any]) -> None:
        self.header, arrays = container.read_file(path, verify=True)
        self.arrays, self.use = {name: np.array(a) for name, a in arrays.items()}, use

    def run(self, draw: random.Random, folder: Path) -> None:
        """Change it once, write it, use it."""
        arrays, model = dict(self.arrays), self.header.model
        if arrays and draw.random() < 0.7:
            name = draw.choice(sorted(arrays))
            arrays[name] = altered(arrays[name], draw)
        else:
            model = altered_json(json.loads(json.dumps(model)), draw)
        path = folder / "file"
        container.write_file(path, self.header.estimator, model, arrays)
        self.use(path)


def model_files() -> dict[str, File]:
    """Every kind of model file, with a prediction."""
    found = {}
    for path in sorted(FIXTURES.glob("*.spom")):
        told = json.loads(path.with_suffix(".json").read_text())
        given: Any = np.array(told["X"]) if "X" in told else told.get("sentences")
        if "trees" in told:
            given = Treebank.from_sentences(told["trees"]).without_trees()
        found[path.stem] = File(path, lambda path, given=given: load_model(path).predict(given))
    return found


def checkpoints(folder: Path) -> dict[str, File]:
    """Checkpoints of linear classifiers, with a resume."""
    X = np.random.default_rng(0).normal(size=(40, 4))
    y, found = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0), {}
    for name, labels, options in (("two", y > 0, {}), ("three", y, {}), ("adagrad", y > 0, {"step": "adagrad"})):
        path = folder / f"checkpoint-{name}"

        def fit(where: Any, resume: bool, labels: Any = labels, options: Any = options) -> None:
            model = OnlineClassifier(epochs=4 if resume else 2, random_state=0, **options)
            model.fit(X, labels, checkpoint=where, checkpoint_every=1, resume=resume)

        fit(path, False)
        fit(shutil.copy(path, folder / "copy"), True)
        found[f"checkpoint-{name}"] = File(path, lambda where, fit=fit: fit(where, True))
    return found


def targets(folder: Path) -> dict[str, Callable[[random.Random], None]]:
    """What is fuzzed, by name."""
    seeds = dict(SEEDS)
    try:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2, 3], "label": ["x", "y", "x"]}), folder / "t.parquet")
        seeds["parquet"] = (folder / "t.parquet").read_bytes()
    except ImportError:
        pass
    found: dict[str, Callable[[random.Random], None]] = {
        name: lambda draw, name=name, seed=seed: READERS[name](io.BytesIO(mutated(seed, draw)))
        for name, seed in seeds.items()
    }
    files = model_files() | checkpoints(folder)
    return found | {name: lambda draw, file=file: file.run(draw, folder) for name, file in files.items()}


def one(run: Callable[[random.Random], None], seed: str) -> str:
    """What is wrong with what happened, or nothing."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        run(random.Random(seed))
    except SpomError:
        pass
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    spent = time.process_time() - begin
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > GROWTH:
        return "memory grew by over 500 MB"
    return f"{spent:.1f} s of CPU time" if spent > SECONDS else ""


def batch(run: Callable[[random.Random], None], seeds: list[str]) -> dict[str, str]:
    """Findings by seed, from a process of its own; where it dies, the input that was under way."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        warnings.simplefilter("ignore")
        for seed in seeds:
            os.write(write, (json.dumps([seed, one(run, seed)]) + "\n").encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as lines:
        told = dict(json.loads(line) for line in lines)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    found = {seed: what for seed, what in told.items() if what}
    if status != 0:
        found[seeds[len(told)]] = f"the process ended with status {status}"
    return found


def campaign(count: int, seconds: float, first: int = 0) -> tuple[Counter[str], dict[str, str]]:
    """About `count` inputs in turn over all targets, or as many as `seconds` allow; counts and findings."""
    counts, findings, end = Counter[str](), {}, time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="spom-fuzz-") as name:
        runs = targets(Path(name))
        for target, run in runs.items():
            # Once here, so that forked processes find all that is compiled.
            one(run, f"{target} warm")
        at = first
        while sum(counts.values()) < count and time.monotonic() < end:
            for target, run in runs.items():
                seeds = [f"{target} {k}" for k in range(at, at + BATCH)]
                findings |= batch(run, seeds)
                if os.environ.get("SPOM_FUZZ_TRACE"):
                    print(target, f"{time.monotonic() - end + seconds:.1f}", len(findings), flush=True)
                counts[target] += BATCH
            at += BATCH
    return counts, findings


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    made, bad = campaign(asked, float(sys.argv[2]) if len(sys.argv) > 2 else 1e9)
    for seed, what in bad.items():
        print(f"{seed}: {what}")
    print(f"{sum(made.values())} inputs, {len(bad)} findings: {dict(made)}")
    sys.exit(1 if bad else 0)
