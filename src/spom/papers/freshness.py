"""Whether a stored result is still what the code gives.

A full run takes minutes, so results are kept in a file. A kept result is stale when

- the files of the experiment changed: the digest of its module and of the modules of `spom.papers` that it imports
  differs (comments, docstrings and imports apart, and tables and drawings, which are rebuilt from the numbers);
- the library behind it gives other numbers: a run of a second or so (the settings `TINY` of the experiment), whose
  numbers were kept beside the result, is made again and compared.

The second is stricter and milder than a digest of the whole library: a change that keeps every number needs no new
run, and a change of behaviour is noticed wherever it was made.
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

# The parts of the package that all experiments share, and that compute nothing.
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
# Numbers kept of a tiny run: enough to notice a change, few enough to store.
_MOST = 200
# Places that differ by more between processors: where a Frank-Wolfe run of few passes ends on ill-conditioned kernels.
_BY_MACHINE = {"spom-fig2": "optimum."}


def digest(code: Any) -> str:
    """The digest of an experiment's module and of those of its package that it imports."""
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
    """The code without comments, docstrings, imports, and the functions that only show numbers.

    A module of the library that moves changes an import and no number; one that gives other numbers is the probe's.
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
    """The numbers of a tiny run, by their place."""
    code = experiment.code
    settings = experiment.settings(quick=True, **code.TINY)
    return leaves(restored(plain(code.compute(settings, PROBE_SEED, Bar(experiment.id, False)))))


def lasting_probe(experiment: Experiment) -> Numbers:
    """The numbers that two tiny runs agree in: seconds and what depends on them are left out."""
    one, two = probe(experiment), probe(experiment)
    kept = [place for place in one if place in two and _same(one[place], two[place])]
    step = max(1, math.ceil(len(kept) / _MOST))
    return {place: one[place] for place in kept[::step]}


def leaves(value: Any, place: str = "") -> Numbers:
    """All numbers in nested lists and dicts, by their place.

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
    # Machines differ in the last digits, and a run of many steps makes more of them.
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-9)


def stale(experiment: Experiment, result: Result, now: Numbers) -> str | None:
    """Why the result must be made again, or None; `now` is the `probe` of today."""
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
