# ruff: noqa: E402 - benchmarks/ is imported from the root of the checkout
"""Fill the blocks of the README that come from stored results: `python tools/readme.py` (`--check` only compares).

A block is what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.defaults.rows import load, table
from benchmarks.defaults.tables import TABLES

from spom.papers.catalogue import list_experiments
from spom.papers.result import Result
from spom.papers.running import again

README, PAPERS, BENCHMARKS = ROOT / "README.md", ROOT / "docs" / "papers" / "results", ROOT / "benchmarks" / "results"


def papers() -> str:
    """The papers' claims: how many hold here, and each that does not."""
    paths = {experiment.id: PAPERS / f"{experiment.id}.json" for experiment in list_experiments()}
    results = [again(Result.load(path)) for path in paths.values() if path.exists()]
    decided = [(result, row) for result in results for row in result.table if row.met is not None]
    against = [(result, row) for result, row in decided if not row.met]
    lines = [
        f"Of {len(decided)} claims that numbers can decide, {len(decided) - len(against)} hold here. These do not:",
        "",
    ]
    lines += ["| experiment | claim | paper | ours |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{result.id}` | {_cell(row.what)} | {_cell(row.paper)} | {_cell(row.ours)} |" for result, row in against
    ]
    missing = [f"`{id}`" for id, path in paths.items() if not path.exists()]
    if missing:
        lines += ["", f"Not run with this version of the code: {', '.join(missing)}."]
    return "\n".join(lines)


def words() -> str:
    """The rows of the handwritten words, from Table 1 of SPOM."""
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


# How the page on defaults names the learners, and how the README does.
_NAMES = {
    "columns": "`SequenceTagger()`, columns",
    "dicts": "`SequenceTagger()`, CRFsuite's own features",
    "columns, pruned": 'the same, columns, `prune="auto"`',
    "dicts, pruned": 'the same, CRFsuite\'s features, `prune="auto"`',
    "pruned": 'the same, `prune="auto"`',
}


def defaults() -> str:
    """One row per learner over the sets of the page on defaults: the mean difference, and where it is behind."""
    lines = ["| ours | beside | sets | mean | worst | behind by more than .005 |", "| --- " * 6 + "|"]
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


def beside() -> str:
    """The stored tables of `benchmarks/beside.py`, with the settings of both sides below each."""
    lines: list[str] = []
    for path in sorted(BENCHMARKS.glob("beside-*.json")):
        for found in json.loads(path.read_text(encoding="utf-8"))["tables"]:
            rows = found["rows"]
            lines += (
                _by_peer(found["title"], rows) if any("; " in row[0] for row in rows) else _plain(found["title"], rows)
            )
            lines += ["", found["settings"], ""]
    return "\n".join(lines).rstrip("\n")


def _plain(title: str, rows: list[list[str]]) -> list[str]:
    """One row per figure."""
    head = [f"| {_cell(title)} | ours | theirs |", "| --- | --- | --- |"]
    return head + [f"| {_cell(what)} | {_figure(ours)} | {_figure(theirs)} |" for what, ours, theirs, *_ in rows]


def _by_peer(title: str, rows: list[list[str]]) -> list[str]:
    """One row per tool: rows of a table are "measure; tool", then its other measures, indented."""
    measures: list[str] = []
    mine: dict[str, str] = {}
    tools: list[tuple[str, dict[str, str]]] = []
    for what, ours, theirs, *_ in rows:
        measure, _, tool = what.strip().partition("; ")
        if tool:
            tools.append((tool, {}))
        if measure not in measures:
            measures.append(measure)
        mine[measure], tools[-1][1][measure] = ours, theirs
    lines = [f"| {_cell(title)} | {' | '.join(measures)} |", "| --- " * (len(measures) + 1) + "|"]
    for name, values in [("ours", mine), *tools]:
        lines.append(f"| {_cell(name)} | {' | '.join(_figure(values.get(measure, '')) for measure in measures)} |")
    return lines


def _figure(text: str) -> str:
    """A number as people read it.

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
    """Proximal operators on a million numbers: the ratios of `benchmarks/prox.py`, one row per operator."""
    rows = json.loads((BENCHMARKS / "prox.json").read_text(encoding="utf-8"))["tables"][0]["rows"]
    found: dict[str, list[str]] = {}
    for what, _, _, ratio, *_ in rows:
        name, peer = what.split(" | ")
        if peer in ("pyproximal", "spams", "a copy of the vector"):
            found.setdefault(name, []).append(f"{peer} {float(f'{float(ratio):.2g}'):g}")
    lines = ["| | above 1: ours is faster than |", "| --- | --- |"]
    return "\n".join(lines + [f"| {name} | {', '.join(peers)} |" for name, peers in found.items()])


def pipelines() -> str:
    """Raw text to trees on test sets: ours and, where it was trained here, UDPipe 1."""
    done = json.loads((BENCHMARKS / "pipeline.json").read_text(encoding="utf-8"))
    shown = ("words", "sentences", "upos", "xpos", "lemmas", "uas", "las")
    lines = [f"| | | {' | '.join(shown)} | CPU s | MB |", "| --- " * (len(shown) + 4) + "|"]
    for name, found in done.items():
        for learner, run in sorted(found.items()):
            scores = " | ".join(f"{run['test'][key]:.1f}" if key in run["test"] else "" for key in shown)
            size = f"{run['bytes'] / 1e6:.1f}" if "bytes" in run else ""
            who = "ours" if learner == "spom" else "UDPipe 1"
            lines.append(f"| {name} | {who} | {scores} | {run['seconds']:.0f} | {size} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


BLOCKS: dict[str, Callable[[], str]] = {
    "papers": papers,
    "words": words,
    "defaults": defaults,
    "beside": beside,
    "prox": prox,
    "pipelines": pipelines,
}


def filled(text: str) -> str:
    """The text with every block made anew."""
    for name, block in BLOCKS.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md has no block {name!r}")
        content = block()
        text = pattern.sub(lambda found, content=content: f"{found[1]}{content}\n{found[2]}", text)
    return text


def main() -> int:
    """Write the README, or say whether it is what the results give."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    now = README.read_text(encoding="utf-8")
    new = filled(now)
    if check:
        print("README.md is what the results give" if new == now else "README.md is stale: run python tools/readme.py")
        return int(new != now)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
