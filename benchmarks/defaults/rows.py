"""The rows of the table of defaults: measuring, storing as JSON, ranking and printing."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

import sklearn

import spom

# The module for each kind of data; a module has `run(kind, sets, learners) -> Iterator[Row]`.
KINDS = {
    **{"classification": "linear", "regression": "linear"},
    **{"tagging": "taggers", "parsing": "parsers", "kernels": "kernels", "kernel-numbers": "kernels"},
}


# Folders of src/spom that the rows of each module depend on; peers depend only on the version of scikit-learn.
SHARED = ("core", "losses", "penalties", "solvers/steps.py", "estimators/pruning.py")
CODE = {
    "linear": ("estimators/linear", "solvers/linear", "solvers/batch", *SHARED),
    "taggers": (
        "estimators/tagger",
        "estimators/pruning.py",
        "solvers/structured/chains",
        "features",
        "decoders",
        *SHARED,
    ),
    "parsers": (
        "estimators/parser",
        "estimators/pruning.py",
        "solvers/structured/trees",
        "features",
        "decoders",
        *SHARED,
    ),
    "kernels": (
        "estimators/mkl",
        "estimators/linear/judging.py",
        "estimators/linear/strength.py",
        "solvers/mkl",
        "kernels",
        *SHARED,
    ),
}


@dataclass(frozen=True)
class Row:
    """One learner on one data set with one seed. `ours` marks learners of spom, `counts` sets that enter means.

    `code` is the digest of the code that made the row (`digest`).
    """

    kind: str
    set: str
    learner: str
    seed: int
    score: float
    seconds: float
    size: int
    ours: bool = False
    counts: bool = True
    note: str = ""
    code: str = ""


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return the function's result and its CPU seconds; warnings of peers are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = process_time()
        result = function()
        return result, process_time() - begin


def store(kind: str) -> Path:
    """Return the file of results of a kind, one per module: in $SPOM_DEFAULTS, or in `results` next to this file."""
    return Path(os.environ.get("SPOM_DEFAULTS", str(Path(__file__).parent / "results"))) / f"{KINDS[kind]}.json"


@cache
def digest(kind: str, ours: bool = True) -> str:
    """Return a digest of the code without comments and docstrings, or the version of scikit-learn."""
    if not ours:
        return f"scikit-learn {sklearn.__version__}"
    found, root = hashlib.sha256(), Path(spom.__file__).parent
    for place in CODE[KINDS[kind]]:
        path = root / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                    del node.body[0]
            found.update(ast.dump(tree).encode())
    return found.hexdigest()[:12]


def is_stored(kind: str, name: str, learner: str, seed: int, ours: bool = True) -> bool:
    """Tell whether there is such a row for the current code. With `SPOM_AGAIN=1` there is none."""
    if os.environ.get("SPOM_AGAIN"):
        return False
    wanted = (kind, name, learner, seed, digest(kind, ours))
    return any((r.kind, r.set, r.learner, r.seed, r.code) == wanted for r in load(kind))


def load(kind: str) -> list[Row]:
    """Return the rows of earlier runs."""
    path = store(kind)
    return [Row(**entry) for entry in json.loads(path.read_text())] if path.exists() else []


def save(kind: str, rows: Iterable[Row]) -> None:
    """Merge rows into the file: a new row replaces one of the same set, learner and seed."""
    made = [replace(r, code=digest(kind, r.ours)) for r in rows]
    kept = {(r.kind, r.set, r.learner, r.seed): r for r in [*load(kind), *made]}
    lines = [json.dumps(asdict(kept[key])) for key in sorted(kept)]
    store(kind).write_text("[\n" + ",\n".join(lines) + "\n]\n")


def table(rows: Iterable[Row], kind: str) -> dict[str, dict[str, tuple[float, float, float, int]]]:
    """Return score, seconds, size and rank (1 is best) of each learner on each set, as means over seeds."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.kind == kind:
            found[row.set][row.learner].append(row)
    result = {}
    for name, learners in found.items():
        means = {
            learner: (mean(r.score for r in own), mean(r.seconds for r in own), mean(r.size for r in own))
            for learner, own in learners.items()
        }
        scores = [value[0] for value in means.values()]
        result[name] = {
            learner: (*value, 1 + sum(s > value[0] + 5e-5 for s in scores)) for learner, value in means.items()
        }
    return result


def show(rows: list[Row], kind: str) -> None:
    """Print score (rank) and seconds, one line per set, and the means over sets that do not overlap."""
    found = table(rows, kind)
    learners = sorted({r.learner for r in rows if r.kind == kind}, key=lambda n: (not _ours(rows, n), n))
    counts = {r.set for r in rows if r.kind == kind and r.counts}
    print(f"\n{kind}: score (rank), CPU seconds, weights kept")
    print(f"  {'':<22}" + "".join(f"{name[:24]:>26}" for name in learners))
    for name in sorted(found):
        cells = "".join(f"{_cell(found[name].get(learner)):>26}" for learner in learners)
        print(f"  {name + ('' if name in counts else ' *'):<22}{cells}")
    means = []
    for learner in learners:
        own = [found[s][learner] for s in found if s in counts and learner in found[s]]
        full = len(own) == len([s for s in found if s in counts])
        means.append(f"{mean(c[0] for c in own):.4f} {mean(c[3] for c in own):.1f}" if own and full else "-")
    print(f"  {'mean score, rank':<22}" + "".join(f"{text:>26}" for text in means))
    print("  (* overlaps with another set: left out of the means)")


def _ours(rows: list[Row], learner: str) -> bool:
    return any(r.ours for r in rows if r.learner == learner)


def _cell(value: tuple[float, float, float, int] | None) -> str:
    if value is None:
        return "-"
    score, seconds, size, rank = value
    return f"{score:.4f} ({rank}) {seconds:.3g}s {size:.0f}"


def _runs(kind: str, sets: str, learner: str) -> Iterator[Row]:
    module = importlib.import_module(f"benchmarks.defaults.{KINDS[kind]}")
    yield from module.run(kind, sets, learner)


def main(part: str = "") -> None:
    """Run all kinds, or `kind/set/learner` (a set or a learner may be the prefix of a name), and print the table.

    Stored rows of the current code are not run again, unless `SPOM_AGAIN=1`.
    `show` only prints stored rows.
    """
    kind, _, rest = part.partition("/")
    sets, _, learner = rest.partition("/")
    for name in KINDS if kind in ("", "show") else [kind]:
        if name not in KINDS:
            raise ValueError(f"there is no kind {name!r}; there are: {', '.join(KINDS)}")
        if kind != "show":
            for row in _runs(name, sets, learner):
                save(name, [row])
        show(load(name), name)
