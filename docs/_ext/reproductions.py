"""The page of the papers' tables and figures, rendered from the results that are kept in docs/papers/results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spom.papers.catalogue import list_experiments
from spom.papers.page import rst
from spom.papers.result import Result, write
from spom.papers.running import again, draw


def write_page(source: Path) -> None:
    """generated/papers.rst and its figures; what has not changed is not drawn again."""
    kept = source / "papers" / "results"
    images = source / "generated" / "papers"
    results = []
    for experiment in list_experiments():
        path = kept / f"{experiment.id}.json"
        if not path.exists():
            continue
        results.append(again(Result.load(path)))
        image = images / f"{experiment.id}.png"
        code = Path(str(experiment.code.__file__))
        newest = max(path.stat().st_mtime, code.stat().st_mtime)
        if not image.exists() or image.stat().st_mtime < newest:
            write(image, draw(results[-1], dpi=130))
    page, text = source / "generated" / "papers.rst", rst(results, "papers")
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        write(page, text)


def setup(app: Any) -> dict[str, bool]:
    """Write before the source files are listed."""
    app.connect("builder-inited", lambda app: write_page(Path(app.srcdir)), priority=110)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
