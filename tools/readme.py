# ruff: noqa: E402 - benchmarks/ is imported from the root of the checkout
"""Fill the blocks of the README and of docs/benchmarks.md from stored results: `python tools/readme.py`.

`--check` only compares.

A block is the text between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.defaults.rows import load, table
from benchmarks.defaults.tables import TABLES

from spom.papers.catalogue import list_experiments
from spom.papers.result import Result
from spom.papers.running import again

README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
PAPERS, BENCHMARKS = ROOT / "docs" / "papers" / "results", ROOT / "benchmarks" / "results"


def claims() -> tuple[int, list[tuple[Result, Any]]]:
    """Return how many claims of the papers can be decided by numbers, and those that do not hold here."""
    paths = (PAPERS / f"{experiment.id}.json" for experiment in list_experiments())
    results = [again(Result.load(path)) for path in paths if path.exists()]
    decided = [(result, row) for result in results for row in result.table if row.met is not None]
    return len(decided), [(result, row) for result, row in decided if not row.met]


def count() -> str:
    """Return a sentence on how many of the papers' claims hold here."""
    decided, against = claims()
    return f"{decided - len(against)} of the {decided} claims that numbers can decide hold here."


def papers() -> str:
    """Return how many of the papers' claims hold here, and each that does not."""
    lines = [f"{count()} These do not:", "", "| experiment | claim | paper | spom |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{result.id}` | {_cell(row.what)} | {_cell(row.paper)} | {_cell(row.ours)} |" for result, row in claims()[1]
    ]
    missing = [f"`{one.id}`" for one in list_experiments() if not (PAPERS / f"{one.id}.json").exists()]
    if missing:
        lines += ["", f"Not run with this version of the code: {', '.join(missing)}."]
    return "\n".join(lines)


def words() -> str:
    """Return the rows of the handwritten words, from Table 1 of SPOM."""
    runs = Result.load(PAPERS / "spom-table1.json").numbers["runs"]
    rows = [
        "| ten folds, C by cross-validation in each | accuracy per letter | seconds | the paper |",
        "| --- | --- | --- | --- |",
    ]
    names = {"MKL L, Q, G": "87.5", "Sum L+Q+G": "", "Quadratic (Q)": "85.5", "Gaussian (G)": "84.1"}
    for name, paper in names.items():
        found = runs[name]["dual averaging"]
        accuracy, seconds = ([run[key] for run in found] for key in ("accuracy", "seconds"))
        rows.append(f"| {name}, dual averaging | {100 * np.mean(accuracy):.1f} ± {100 * np.std(accuracy):.1f} % | "
                    f"{np.mean(seconds):.2f} | {paper} |")  # fmt: skip
    return "\n".join(rows)


# The learners' names on the page on defaults, and those in the README.
_NAMES = {
    "columns": "`SequenceTagger()`, columns",
    "dicts": "`SequenceTagger()`, CRFsuite's own features",
    "columns, pruned": 'the same, columns, `prune="auto"`',
    "dicts, pruned": 'the same, CRFsuite\'s features, `prune="auto"`',
    "pruned": 'the same, `prune="auto"`',
    "MKLClassifier, pruned": 'the same, `prune="auto"`',
    "MKLRegressor, pruned": 'the same, `prune="auto"`',
}


def defaults() -> str:
    """Return one row per learner over the sets of the page on defaults: mean difference, and where it is behind."""
    lines = ["| spom | compared with | sets | mean difference | worst | worse by more than .005 |", "| --- " * 6 + "|"]
    for kind, (_, ours, peers, _) in TABLES.items():
        found = table(load(kind), kind)
        for learner in ours:
            gaps = sorted(
                (values[learner][0] - max(values[peer][0] for peer in peers if peer in values), name)
                for name, values in found.items()
                if learner in values and any(peer in values for peer in peers)
            )
            if gaps:
                behind = ", ".join(f"{name} {gap:+.4f}" for gap, name in gaps if gap < -0.005) or "none"
                mean = f"{np.mean([gap for gap, _ in gaps]):+.4f} | {gaps[0][0]:+.4f}"
                shown, best = _NAMES.get(learner, f"`{learner}()`"), "best of " * (len(peers) > 1) + ", ".join(peers)
                lines.append(f"| {shown} | {best} | {len(gaps)} | {mean} | {behind} |")
    return "\n".join(lines)


def _tables() -> list[dict[str, Any]]:
    """Return the stored tables of `benchmarks/beside.py`."""
    paths = sorted(BENCHMARKS.glob("beside-*.json"))
    return [table for path in paths for table in json.loads(path.read_text(encoding="utf-8"))["tables"]]


def beside() -> str:
    """Return the stored tables of `benchmarks/beside.py`, with the settings of both sides below each."""
    lines: list[str] = []
    for found in _tables():
        make = _by_peer if _has_peers(found) else _plain
        lines += [*make(found["title"], found["rows"]), "", found["settings"].replace("Ours:", "spom:"), ""]
    return "\n".join(lines).rstrip("\n")


def summary() -> str:
    """Return one row per task of `benchmarks/beside.py`: ours and the best of the others by the first measure."""
    lines = ["| task | spom | best of the others |", "| --- | --- | --- |"]
    for found in filter(_has_peers, _tables()):
        mine, tools = _measured(found["rows"])
        score = next(iter(mine))
        cost = next(measure for measure in mine if "CPU seconds" in measure)
        name, best = max(tools, key=lambda tool: float(tool[1][score]))
        ours, theirs = (f"{_figure(values[score])}, {_figure(values[cost])} s" for values in (mine, best))
        lines.append(f"| {_cell(found['title'])} ({score}) | {ours} | {_cell(name)}: {theirs} |")
    return "\n".join(lines)


def _has_peers(found: dict[str, Any]) -> bool:
    """Tell whether the rows are "measure; tool"."""
    return any("; " in row[0] for row in found["rows"])


def _plain(title: str, rows: list[list[str]]) -> list[str]:
    """Return one row per figure."""
    head = [f"| {_cell(title)} | spom | other |", "| --- | --- | --- |"]
    return head + [f"| {_cell(what)} | {_figure(ours)} | {_figure(theirs)} |" for what, ours, theirs, *_ in rows]


def _measured(rows: list[list[str]]) -> tuple[dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Return our figures by measure, and each tool's; rows are "measure; tool", then its other measures, indented."""
    mine: dict[str, str] = {}
    tools: list[tuple[str, dict[str, str]]] = []
    for what, ours, theirs, *_ in rows:
        measure, _, tool = what.strip().partition("; ")
        if tool:
            tools.append((tool, {}))
        mine[measure], tools[-1][1][measure] = ours, theirs
    return mine, tools


def _by_peer(title: str, rows: list[list[str]]) -> list[str]:
    """Return one row per tool."""
    mine, tools = _measured(rows)
    lines = [f"| {_cell(title)} | {' | '.join(mine)} |", "| --- " * (len(mine) + 1) + "|"]
    for name, values in [("spom", mine), *tools]:
        lines.append(f"| {_cell(name)} | {' | '.join(_figure(values.get(measure, '')) for measure in mine)} |")
    return lines


def _figure(text: str) -> str:
    """Format a number for reading.

    >>> _figure("2.663e+05"), _figure("0.9417"), _figure("6.003"), _figure("-")
    ('266,300', '0.9417', '6.003', '')
    """
    if text in ("-", ""):
        return ""
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:,.0f}" if abs(number) >= 1000 else text


def prox() -> str:
    """Return the ratios of `benchmarks/prox.py`, proximal operators on a million numbers, one row per operator."""
    rows = json.loads((BENCHMARKS / "prox.json").read_text(encoding="utf-8"))["tables"][0]["rows"]
    found: dict[str, list[str]] = {}
    for what, _, _, ratio, *_ in rows:
        name, peer = what.split(" | ")
        if peer in ("pyproximal", "spams", "a copy of the vector"):
            found.setdefault(name, []).append(f"{peer} {float(f'{float(ratio):.2g}'):g}")
    lines = ["| operator | time of the other over time of spom (above 1: spom is faster) |", "| --- | --- |"]
    return "\n".join(lines + [f"| {name} | {', '.join(peers)} |" for name, peers in found.items()])


PIPELINES = {
    "spom": "spom",
    "udpipe": "UDPipe 1",
    "tagger": "UDPipe 1, tokenizer and tagger",
    "tokenizer": "UDPipe 1, tokenizer alone",
}


def pipelines() -> str:
    """Return results from raw text to trees on test sets: ours, in italics if worse, and UDPipe 1 if trained here."""
    done = json.loads((BENCHMARKS / "pipeline.json").read_text(encoding="utf-8"))
    shown = ("words", "sentences", "upos", "xpos", "feats", "lemmas", "uas", "las")
    lines = [f"| treebank | | {' | '.join(shown)} | CPU s | MB | words/s |", "| --- " * (len(shown) + 5) + "|"]
    for name, found in done.items():
        peer = next((found[name] for name in ("udpipe", "tagger", "tokenizer") if name in found), {}).get("test", {})
        for learner, run in sorted(found.items()):
            cells = []
            for key in shown:
                score = run["test"].get(key)
                worse = learner == "spom" and score is not None and score < peer.get(key, 0.0)
                cells.append("" if score is None else f"*{score:.2f}*" if worse else f"{score:.2f}")
            cells += [
                f"{run['seconds']:.0f}" if "seconds" in run else "",
                f"{run['bytes'] / 1e6:.1f}" if "bytes" in run else "",
            ]
            cells += [f"{run['words_per_second']:,}" if "words_per_second" in run else ""]
            lines.append(f"| {name} | {PIPELINES[learner]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


BLOCKS: dict[Path, dict[str, Callable[[], str]]] = {
    README: {"summary": summary, "defaults": defaults, "papers": count},
    PAGE: {"beside": beside, "pipelines": pipelines, "prox": prox, "papers": papers, "words": words},
}


def filled(path: Path) -> str:
    """Return the text of a page with every block renewed."""
    text = path.read_text(encoding="utf-8")
    for name, block in BLOCKS[path].items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{path.name} has no block {name!r}")
        content = block()
        text = pattern.sub(lambda found, content=content: f"{found[1]}{content}\n{found[2]}", text)
    return text


def main() -> int:
    """Write the pages, or tell whether they match the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = 0
    for path in BLOCKS:
        new = filled(path)
        if not check:
            path.write_text(new, encoding="utf-8")
        elif new != path.read_text(encoding="utf-8"):
            print(f"{path.name} is stale: run python tools/readme.py")
            stale = 1
        else:
            print(f"{path.name} is what the results give")
    return stale


if __name__ == "__main__":
    sys.exit(main())
