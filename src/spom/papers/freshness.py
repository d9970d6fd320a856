"""Check whether a stored result still matches the code.

A full run takes minutes, so results are stored in files. A stored result is stale if

- the files of the experiment changed: the digest of its module and of the modules of `spom.papers` that it imports
  differs (except comments, docstrings, imports, tables and drawings, which are rebuilt from the numbers);
- the library gives other numbers: a run of about a second (the settings `TINY` of the experiment), whose numbers were
  stored with the result, is repeated and compared.

Unlike a digest of the whole library, the second check needs no new run for a change that keeps every number, and it
notices a change of behaviour wherever it was made.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spom.papers.progress import Bar
from spom.papers.result import Numbers, plain, restored

if TYPE_CHECKING:
    from spom.papers.experiment import Experiment
    from spom.papers.result import Result

# Modules of the package that all experiments share and that compute nothing.
_FRAME = (
    "catalogue",
    "command",
    "experiment",
    "figures",
    "freshness",
    "page",
    "progress",
    "result",
    "running",
    "tables",
)
_SHOWN = ("compare", "draw")
PROBE_SEED = 3
# The number of values kept of a tiny run: enough to notice a change, few enough to store.
_MOST = 200
# Numbers that differ more between processors: the end of a short Frank-Wolfe run on ill-conditioned kernels.
_BY_MACHINE = {"spom-fig2": "optimum."}


def digest(code: Any) -> str:
    """Return the digest of an experiment's module and of the modules of its package that it imports."""
    total = hashlib.sha256()
    for name in sorted(_imported(code.__name__, set())):
        total.update(name.encode() + b"\0" + _meaning(_source(name)).encode())
    return total.hexdigest()[:16]


def _source(module: str) -> ast.Module:
    file = importlib.import_module(module).__file__
    return ast.parse(Path(str(file)).read_text(encoding="utf-8"))


def _imported(module: str, seen: set[str]) -> set[str]:
    seen.add(module)
    for node in ast.walk(_source(module)):
        name = node.module if isinstance(node, ast.ImportFrom) else None
        if name and name.startswith("spom.papers.") and name.split(".")[2] not in _FRAME and name not in seen:
            _imported(name, seen)
    return seen


def _meaning(tree: ast.Module) -> str:
    """Return the code without comments, docstrings, imports, and the functions that only show numbers.

    Moving a library module changes imports but no numbers; the probe finds modules that give other numbers.
    """
    tree.body = [node for node in tree.body if getattr(node, "name", "") not in _SHOWN]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            del body[0]
        body[:] = [part for part in body if not isinstance(part, ast.Import | ast.ImportFrom)]
    return ast.dump(tree)


def probe(experiment: Experiment) -> Numbers:
    """Return the numbers of a tiny run, by place."""
    code = experiment.code
    settings = experiment.settings(quick=True, **code.TINY)
    return leaves(restored(plain(code.compute(settings, PROBE_SEED, Bar(experiment.id, False)))))


def lasting_probe(experiment: Experiment) -> Numbers:
    """Return the numbers on which two tiny runs agree; seconds and values that depend on them are left out."""
    one, two = probe(experiment), probe(experiment)
    kept = [place for place in one if place in two and _same(one[place], two[place])]
    step = max(1, math.ceil(len(kept) / _MOST))
    return {place: one[place] for place in kept[::step]}


def leaves(value: Any, place: str = "") -> Numbers:
    """Return all numbers in nested lists and dicts, by place.

    >>> leaves({"a": [1.0, {"b": 2.0}]})
    {'a.0': 1.0, 'a.1.b': 2.0}
    """
    if not isinstance(value, (dict, list)):
        return {place: float(value)} if isinstance(value, (int, float)) else {}
    found: Numbers = {}
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        found |= leaves(item, f"{place}.{key}" if place else str(key))
    return found


def _same(a: float, b: float) -> bool:
    # Machines differ in the last digits, and long runs amplify the differences.
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-9)


def stale(experiment: Experiment, result: Result, now: Numbers) -> str | None:
    """Return why the result must be computed again, or None; `now` is the current `probe`."""
    if result.code.get("files") != digest(experiment.code):
        return "the files of the experiment changed since it was run"
    kept = result.code.get("probe") or {}
    if not kept:
        return "it was stored without the numbers of a tiny run"
    for place, number in restored(kept).items():
        if place.startswith(_BY_MACHINE.get(experiment.id, "\0")):
            continue
        if place not in now:
            return f"a tiny run has no number {place} any more"
        if not _same(number, now[place]):
            return f"a tiny run gives {now[place]:.6g} for {place}, and {number:.6g} when the result was stored"
    return None
