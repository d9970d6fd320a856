"""The kernels that each job calls, so that they are compiled together on all cores instead of one after another.

`jobs.json` lists them by job and step (fitting, predicting, ...), in the order of their first calls.
`tools/kernel_jobs.py` writes it from the calls of small runs. An outdated list costs only time: a kernel that it lacks
is compiled at its first call, and a name that no longer exists is skipped.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# A job counts as running if its module has been imported.
MODULES = {
    "tagger": "spom.estimators.tagger.tagger",
    "parser": "spom.estimators.parser.parser",
    "mkl": "spom.estimators.mkl.classifier",
    "classifier": "spom.estimators.linear.online",
    "proximal": "spom.estimators.linear.proximal",
    "pipeline": "spom.estimators.pipeline.pipeline",
    "demo": "spom.cli.demo_words",
}
_FILE = Path(__file__).with_name("jobs.json")


def kernels_of(job: str) -> list[Any]:
    """Return the kernels of all steps of a job."""
    return _named(sorted({name for step in json.loads(_FILE.read_text())[job] for name in step}))


def together_with(name: str) -> list[Any]:
    """Return the kernels of one step of the running jobs: the step that calls this kernel earliest."""
    listed: dict[str, list[list[str]]] = json.loads(_FILE.read_text())
    steps = [step for job, steps in listed.items() if MODULES[job] in sys.modules for step in steps if name in step]
    if not steps:
        return []
    earliest = min(steps, key=lambda step: step.index(name))
    return _named(earliest)


def all_kernels() -> list[Any]:
    """Return all kernels of the package, sorted by name."""
    import spom
    from spom.core.jit import Kernel

    found = {}
    for module in pkgutil.walk_packages(spom.__path__, "spom."):
        if module.name.split(".")[-1] == "__main__":
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel) and value.own_text() is None and value.is_ours():
                found[value.name] = value
    return [found[name] for name in sorted(found)]


def _named(names: Iterable[str]) -> list[Any]:
    from spom.core.jit import Kernel

    found = []
    for name in names:
        module, _, function = name.partition(":")
        try:
            kernel = getattr(importlib.import_module(module), function, None)
        except ImportError:
            continue
        if isinstance(kernel, Kernel):
            found.append(kernel)
    return found
