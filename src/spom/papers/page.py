"""One page with all results: self-contained HTML, and reStructuredText for the documentation."""

from __future__ import annotations

import base64
import html as escaping
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from spom.papers.catalogue import find, list_experiments
from spom.papers.experiment import PAPERS
from spom.papers.result import Result
from spom.papers.tables import EXPLAINED, HEADER, cells

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0 } td, th { padding: .25rem .6rem; text-align: left;
border-bottom: 1px solid #ddd; vertical-align: top } tr.missed td { color: #a00 } img { max-width: 100% }
details { font-size: 13px } pre { white-space: pre-wrap } nav a { margin-right: 1em } .note { color: #666 }
"""


def html(results: Sequence[Result], failed: Mapping[str, str], folder: Path) -> str:
    """Return the page; figures are read from `folder` and embedded."""
    by_id = {result.id: result for result in results}
    parts = []
    for experiment in list_experiments():
        if experiment.id in by_id:
            parts.append(_section(by_id[experiment.id], folder / f"{experiment.id}.png"))
        elif experiment.id in failed:
            why = escaping.escape(failed[experiment.id])
            parts.append(f'<h2 id="{experiment.id}">{experiment.id}</h2>\n<p class="note">Not run: {why}</p>')
    claims = "".join(f"<li>{escaping.escape(claim)}</li>" for claim in not_held(results))
    first = f"<h2>Claims that do not hold here</h2>\n<ul>{claims}</ul>\n" if claims else ""
    columns = "".join(f"<li>{escaping.escape(text)}</li>" for text in EXPLAINED)
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in [*by_id, *failed])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>spom: the papers' tables and figures</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<h1>The papers' tables and figures, run again</h1>\n<nav>{links}</nav>\n{first}"
        f"<p>Columns:</p><ul>{columns}</ul>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def not_held(results: Sequence[Result]) -> list[str]:
    """Return the claims of the papers that do not hold in these results, one line each."""
    return [f"{result.id}: {row.what}: {row.ours} (paper: {row.paper})" for result in results for row in result.missed]


def _section(result: Result, image: Path) -> str:
    e = escaping.escape
    rows = ["<tr>" + "".join(f"<th>{e(name)}</th>" for name in HEADER) + "</tr>"]
    for row in result.table:
        mark = ' class="missed"' if row.met is False else ""
        rows.append(f"<tr{mark}>" + "".join(f"<td>{e(cell)}</td>" for cell in cells(row)) + "</tr>")
    picture = ""
    if image.exists():
        code = base64.b64encode(image.read_bytes()).decode()
        picture = f'<img alt="{e(result.title)}" src="data:image/png;base64,{code}">'
    kind = "Quick run" if result.quick else "Full run"
    about = json.dumps({"settings": result.settings, "versions": result.versions}, indent=1, default=str)
    return (
        f'<h2 id="{result.id}">{result.id}: {e(result.title)}</h2>\n'
        f'<p class="note">{e(PAPERS[result.paper])}, {e(result.part)}. {kind}, seed {result.seed}, '
        f"{result.seconds:.0f} s of CPU.</p>\n{picture}\n<table>\n" + "\n".join(rows) + "\n</table>\n"
        f"<details><summary>Settings and versions</summary><pre>{e(about)}</pre></details>"
    )


# --- the documentation ---------------------------------------------------------------------------------


def _rst(text: str) -> str:
    # A single dash would be a list item.
    text = "\N{EN DASH}" if text == "-" else text
    for sign in "\\*`|_":
        text = text.replace(sign, "\\" + sign)
    return text


def rst(results: Sequence[Result], images: str) -> str:
    """Return the page for the documentation; `images` is the folder of the figures, relative to the page."""
    title = "The papers' tables and figures"
    lines = [
        title,
        "=" * len(title),
        "",
        "Every experiment below is a command: ``spom reproduce list`` shows the ids, ``spom reproduce ID`` runs one",
        "and writes ``ID.json`` (settings, seeds, versions, every number) and ``ID.png``, and ``--quick`` takes less",
        "than two minutes. Shown here are full runs. Seconds are CPU seconds of one thread on the machine that ran",
        "them. Steps and strengths of every method in a comparison are chosen by the same code, on data that the",
        "figure does not show; the notes name the grid and what was chosen.",
        "",
    ]
    claims = not_held(results)
    if claims:
        lines += ["**Claims of the papers that do not hold here:**", "", *(f"- {_rst(claim)}" for claim in claims), ""]
    lines += ["The columns of the tables:", "", *(f"- {_rst(text)}" for text in EXPLAINED), ""]
    for result in results:
        lines += _rst_section(result, images)
    return "\n".join(lines)


def _rst_section(result: Result, images: str) -> list[str]:
    name = f"{result.id}: {result.title}"
    kind = "Quick run" if result.quick else "Full run"
    commit = result.versions.get("commit") or result.versions.get("spom", "")
    note = (
        f"{PAPERS[result.paper]}, {result.part}. {kind}, seed {result.seed}, {result.seconds:.0f} s of CPU, {commit}."
    )
    data = ", ".join(find(result.id).data) or "synthetic"
    lines = [_rst(name), "-" * (2 * len(name)), "", f"{_rst(note)} Data: {data}.", ""]
    lines += [f".. image:: {images}/{result.id}.png", f"   :alt: {result.title}", "   :width: 100%", ""]
    lines += [".. list-table::", "   :header-rows: 1", "   :widths: 24 14 20 6 36", ""]
    for row in (HEADER, *(cells(row) for row in result.table)):
        lines += [f"   {'*' if i == 0 else ' '} - {_rst(cell)}" for i, cell in enumerate(row)]
    chosen = ", ".join(f"{key} = {value}" for key, value in result.settings.items())
    return [*lines, "", f"Settings: {_rst(chosen)}.", ""]
