"""The result of an experiment: settings, seeds, versions, every number, and the table, as one JSON file."""

from __future__ import annotations

import json
import math
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from spom.core.atomic import replacing
from spom.errors import DataError

Settings = dict[str, Any]
Numbers = dict[str, Any]

FORMAT = 1
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "highspy", "cvxpy", "matplotlib")


@dataclass(frozen=True)
class Row:
    """A row of the table: quantity, the paper's figure or claim, ours, a note, and whether the claim holds here.

    `met` is None if the paper claims nothing that a number could decide.
    """

    what: str
    paper: str
    ours: str
    word: str = ""
    met: bool | None = None


@dataclass(frozen=True)
class Result:
    """The result of a run. Numbers are rounded to seven digits when they are written; everything else is kept."""

    id: str
    title: str
    paper: str
    part: str
    quick: bool
    seed: int
    settings: Settings
    numbers: Numbers
    table: list[Row]
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    code: dict[str, Any] = field(default_factory=dict)  # see `spom.papers.freshness`

    @property
    def missed(self) -> list[Row]:
        """The rows whose claim does not hold here."""
        return [row for row in self.table if row.met is False]

    def save(self, folder: str | Path) -> Path:
        """Write `ID.json`, under a temporary name first."""
        path = Path(folder) / f"{self.id}.json"
        text = json.dumps({"format": FORMAT, **plain(asdict(self))}, indent=1, allow_nan=False)
        # Each list of numbers takes one line.
        text = re.sub(r"\[[-+.\deE,\s]+\]", lambda found: " ".join(found[0].split()), text)
        write(path, text + "\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result that `save` wrote."""
        try:
            kept = json.loads(Path(path).read_text(encoding="utf-8"))
            if kept.pop("format") > FORMAT:
                raise DataError("written by a newer spom", source=str(path))
            rows = [Row(**row) for row in kept.pop("table")]
            return cls(table=rows, **restored(kept))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise DataError(f"not the result of an experiment ({error})", source=str(path)) from None


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages, the commit if there is one, and the kind of machine."""
    from spom import __version__

    found = {"spom": __version__, "commit": commit(), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**found, "machine": f"{platform.system()} {platform.machine()}"}


def commit() -> str:
    """Return the commit that the package was run from, with a + for later changes; empty outside of a checkout."""
    here = Path(__file__).resolve().parent
    git = ["git", "-C", str(here)]
    try:
        name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", str(here.parent)], capture_output=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return name.stdout.strip() + ("+" if changed.stdout.strip() else "") if name.returncode == 0 else ""


def plain(value: Any) -> Any:
    """Return lists, dicts, strings and numbers of seven digits; NaN and infinities as strings, since JSON has none."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    number = float(f"{float(value):.7g}")
    return number if math.isfinite(number) else str(number)


def restored(value: Any) -> Any:
    """Invert `plain` for NaN and infinities."""
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def write(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name in its folder, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
