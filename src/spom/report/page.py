"""Write the page of a run as one self-contained HTML file."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

from spom.core.atomic import replacing
from spom.errors import Unsupported
from spom.report.charts import figures
from spom.report.contents import Contents
from spom.report.tables import by_label, confusions, epoch_table, number, smaller, tile_columns, tiles, tree

# More rows, labels or sentences than these make a page slow; the page says what it omits.
MOST_ROWS, MOST_LABELS, MOST_SENTENCES = 2000, 60, 20


def write_page(run: Any, path: str | Path) -> Path:
    """Write the page of a run to `path`, and return the path.

    `run` is a model file or the record beside it (`M.run.json`), as a path; a fitted estimator; or `Contents`. The
    file holds its charts, data and the code that draws them (mostly plotly, five megabytes); a browser needs
    no network to show it. It is written under a temporary name and moved, so a failure leaves the old file as it was.

    >>> import tempfile
    >>> from spom.report import Contents
    >>> path = write_page(Contents("empty"), Path(tempfile.mkdtemp()) / "page.html")
    >>> path.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    html = page_html(as_contents(run))
    with replacing(path) as file:
        file.write(html.encode("utf-8", errors="replace"))
    return Path(path)


def as_contents(run: Any) -> Contents:
    """Return contents as they are, read them from a file, or extract them from a fitted estimator."""
    if isinstance(run, Contents):
        return run
    if isinstance(run, (str, Path)):
        from spom.report.runs import contents_from_run

        return contents_from_run(run)
    from spom.report.fitted import contents_of

    return contents_of(run)


def page_html(page: Contents) -> str:
    """Return the page as text."""
    page = _cut(page)
    shown = figures(page)
    plotly = str(_needed("plotly.offline").get_plotlyjs()) if shown else ""
    trees = [tree(sentence) for sentence in page.sentences]
    jinja = _needed("jinja2")
    markup = _needed("markupsafe").Markup
    template = jinja.Environment(autoescape=True, undefined=jinja.StrictUndefined).from_string(_asset("page.html"))
    values = {
        **_values(page, shown),
        "trees": trees,
        "trees_json": markup(_json([asdict(t.sentence) for t in trees])),
        "figures_json": markup(_json(shown)),
        "css": markup(_asset("page.css")),
        "theme": markup(_asset("theme.js")),
        "script": markup(_asset("page.js")),
        "plotly": markup(plotly.replace("</script", "<\\/script")),
    }
    return str(template.render(values))


def _values(page: Contents, shown: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the template, except for the texts that are inserted unescaped."""
    from spom import __version__

    sections = _sections(page, shown)
    rows = sorted(page.blocks, key=lambda b: -b.weight)[:MOST_ROWS]
    return {
        "page": page,
        "version": __version__,
        "sections": sections,
        "names": dict(sections),
        "number": number,
        "tiles": tiles(page),
        "tile_columns": tile_columns(len(tiles(page))),
        "figures": shown,
        "panels": [name for name in shown if name.startswith("run-")],
        "has_seconds": any(t.get("seconds") for f in shown.values() for t in f["data"]),
        "epoch_table": epoch_table(page.epochs),
        "block_rows": rows,
        "kept": page.kept_blocks or 0,
        "total": page.total_blocks,
        "largest": max((b.weight for b in rows), default=1.0) or 1.0,
        "has_sizes": any(b.size is not None for b in rows),
        "has_nonzeros": any(b.nonzeros is not None for b in rows),
        "by_label": by_label(page.confusion) if page.confusion else [],
        "confusions": confusions(page.confusion) if page.confusion else [],
    }


def _sections(page: Contents, shown: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (id, name) of the sections that are not empty."""
    found = [
        ("run", "Run", bool(page.epochs)),
        ("blocks", f"{page.block.capitalize()}s", bool(page.blocks or page.pruning) or "paths" in shown),
        ("features", "Features", bool(page.features)),
        ("confusion", "Confusion", page.confusion is not None),
        ("transitions", "Transitions", page.transitions is not None),
        ("sentences", "Sentences", bool(page.sentences)),
        ("facts", "What was used", any(page.facts.values())),
    ]
    return [(name, title) for name, title, there in found if there]


def _cut(page: Contents) -> Contents:
    """Reduce matrices to as many labels as a screen can show; drop empty ones; add notes about what is omitted."""
    notes = list(page.notes)
    found: dict[str, Any] = {}
    for name in ("confusion", "transitions"):
        matrix = getattr(page, name)
        if matrix is None or not matrix.rows or not matrix.columns:
            found[name] = None
            continue
        found[name] = smaller(matrix, MOST_LABELS)
        if len(matrix.rows) > MOST_LABELS:
            notes.append(f"The matrix of {name} shows {MOST_LABELS} of {len(matrix.rows)} labels, the largest.")
    return replace(page, notes=notes, sentences=page.sentences[:MOST_SENTENCES], **found)


# --- parts of the page --------------------------------------------------------------------------------


def _json(value: Any) -> str:
    """Return JSON for a script element, without `<`, so that nothing in the data can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return (resources.files("spom.report") / "template" / name).read_text(encoding="utf-8")


def _needed(name: str) -> Any:
    """Import a package of the extra `report`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise Unsupported(f"a page needs {package}, which is not installed: pip install spom[report]") from None
