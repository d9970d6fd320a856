"""Writes docs/generated/ before Sphinx reads: the operators, the reference of each package, the pictures."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import architecture
import catalogue
import usage

# The packages of the reference in the order of reading; one that does not exist yet, or has no names yet, is left out.
PACKAGES = (
    "estimators",
    "solvers",
    "penalties",
    "losses",
    "mirror",
    "norms",
    "kernels",
    "decoders",
    "features",
    "data",
    "models",
    "metrics",
    "theory",
    "scale",
    "report",
    "core",
    "errors",
)
# Modules of a package whose names are for users, and that are too many for the package itself.
EXTRA = {
    "solvers": ("spom.solvers.iterate", "spom.solvers.steps"),
    "core": (
        *("spom.core.protocols", "spom.core.registry", "spom.core.state", "spom.core.callbacks"),
        "spom.core.jit",
    ),
    "report": ("spom.report.contents",),
    "features": ("spom.features.arc_sets",),
    "metrics": ("spom.metrics.conll2018", "spom.metrics.phrases"),
}


def _write(path: Path, text: str) -> None:
    """Only where it changes, so that Sphinx rebuilds only that."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def reference(package: str) -> str | None:
    """The page of a package: its public names, with what their docstrings say."""
    if not architecture.is_there(package):
        return None
    module = importlib.import_module(f"spom.{package}")
    own = getattr(module, "__all__", None)
    extra = [name for name in EXTRA.get(package, ()) if importlib.util.find_spec(name)]
    if not own and not extra and package != "errors":
        return None
    name = f"spom.{package}"
    lines = [name, "=" * len(name), "", *_automodule(name, own)]
    for other in extra:
        lines += [other, "-" * len(other), "", *_automodule(other, None)]
    return "\n".join(lines)


def _automodule(name: str, names: list[str] | None) -> list[str]:
    """The directive for a module: the names given, or the public classes and functions that it defines."""
    module = vars(importlib.import_module(name))
    own = [n for n, what in module.items() if not n.startswith("_") and _home(what) == name]
    members = f"   :members: {', '.join(own if names is None else names)}"
    return [f".. automodule:: {name}", members, "   :show-inheritance:", ""]


def _home(what: Any) -> str:
    function = inspect.isclass(what) or inspect.isfunction(what)
    return str(what.__module__) if function else ""


def write_all(folder: Path) -> None:
    """Everything that is written from the code."""
    _write(folder / "operators.rst", catalogue.page())
    _write(folder / "command.rst", usage.page())
    _write(folder / "packages.inc", architecture.packages())
    _write(folder / "flow.inc", architecture.flow())
    pages = {package: text for package in PACKAGES if (text := reference(package))}
    for package, text in pages.items():
        _write(folder / "api" / f"{package}.rst", text)
    listed = "\n".join(f"   api/{package}" for package in pages)
    intro = "The public names of each package."
    _write(folder / "reference.rst", f"Reference\n=========\n\n{intro}\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n")


def setup(app: Any) -> dict[str, bool]:
    """Write before the source files are listed."""
    app.connect("builder-inited", lambda app: write_all(Path(app.srcdir) / "generated"), priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
