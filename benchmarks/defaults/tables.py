"""The tables of the page on defaults, from the stored results: `python -m benchmarks.defaults.tables`.

It writes `docs/guide/defaults-tables.rst`, which the page includes. Cells are means over seeds; losses are not left
out.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from benchmarks.defaults.rows import Row, load, table

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "defaults-tables.rst"
# kind: (title, our learners, peers that ours are compared with, other peers)
TABLES: dict[str, tuple[str, list[str], list[str], list[str]]] = {
    "classification": (
        "Accuracy on test rows",
        ["OnlineClassifier", "ProximalClassifier"],
        ["SGDClassifier", "LogisticRegression", "LinearSVC", "vw"],
        ["grid: SGDClassifier", "grid: LinearSVC", "grid: vw", "LogisticRegressionCV"],
    ),
    "regression": (
        "R2 on test rows",
        ["OnlineRegressor", "ProximalRegressor"],
        ["Ridge", "scaler, Ridge"],
        ["Lasso"],
    ),
    "tagging": (
        "F1 of phrases or accuracy on test sentences",
        ["columns", "columns, pruned", "dicts", "dicts, pruned"],
        ["CRFsuite, grid"],
        [],
    ),
    "parsing": ("LAS on test sentences, gold tags", ["DependencyParser", "pruned"], ["UDPipe 1"], []),
    "kernels": (
        "Accuracy on test rows, standardised columns",
        ["MKLClassifier", "MKLClassifier, pruned"],
        ["SVC, best kernel"],
        [],
    ),
    "kernel-numbers": (
        "R2 on test rows, standardised columns",
        ["MKLRegressor", "MKLRegressor, pruned"],
        ["KernelRidge, best kernel"],
        [],
    ),
}


def cell(values: dict[str, tuple[float, float, float, int]], learner: str) -> str:
    """Return score and CPU seconds, with the best of the row in bold."""
    if learner not in values:
        return "not run"
    score, seconds, _, rank = values[learner]
    text = f"{score:.4f}" if score > -10 else f"{score:.0e}"
    return f"{'**' + text + '**' if rank == 1 else text} ({seconds:.2f} s)"


def losses(found: dict[str, dict[str, tuple[float, float, float, int]]], learner: str, peers: list[str]) -> str:
    """Return the sets on which a learner is worse than the best peer, by how much, and the mean difference."""
    gaps = {}
    for name, values in found.items():
        scores = [values[peer][0] for peer in peers if peer in values]
        if learner in values and scores:
            gaps[name] = values[learner][0] - max(scores)
    if not gaps:
        return ""
    behind = sorted((gap, name) for name, gap in gaps.items() if gap <= -0.00005)
    mean = sum(gaps.values()) / len(gaps)
    against = " and ".join(f"``{peer}``" for peer in peers) if len(peers) < 3 else "the best of " + ", ".join(peers)
    text = f"``{learner}`` compared with {against}: {mean:+.4f} on the mean of {len(gaps)} sets"
    if not behind:
        return f"{text}, and worse on none."
    return f"{text}; worse on {len(behind)}: {', '.join(f'{name} by {-gap:.4f}' for gap, name in behind)}."


def pruned(found: dict[str, dict[str, tuple[float, float, float, int]]], learner: str) -> str:
    """Return the effect of pruning on the score and the number of weights."""
    small, rows = "pruned" if learner == "DependencyParser" else f"{learner}, pruned", []
    for name, values in found.items():
        if learner in values and small in values:
            a, b = values[learner], values[small]
            rows.append((b[0] - a[0], b[2] / max(a[2], 1), b[1] / max(a[1], 1e-9), name))
    if not rows:
        return ""
    worst, count = min(rows), len(rows)
    change, share = (sum(row[k] for row in rows) / count for k in (0, 1))
    most, slowest = max(row[1] for row in rows), max(row[2] for row in rows)
    what = "kernel values per prediction" if learner.startswith("MKL") else "weights"
    return (
        f'``{learner}`` with ``prune="auto"`` on {count} sets: on the mean {100 * (1 - share):.0f} % fewer {what} and '
        f"a change of the score of {change:+.4f}, worst {worst[0]:+.4f} ({worst[3]}). The set pruned least keeps "
        f"{most:.2f} of them; CPU seconds are at most {slowest:.1f} times those without pruning."
    )


def settings_of(rows: list[Row], learner: str) -> str:
    """Return the settings of a peer whose rows were not all made with the same ones, set by set."""
    found = sorted((row.note.partition("; ")[2], row.set) for row in rows if row.learner == learner)
    parts = [f"{how} ({', '.join(name for _, name in own)})" for how, own in groupby(found, lambda pair: pair[0])]
    return f"Settings of ``{learner}``: {'; '.join(parts)}."


def lines(kind: str) -> list[str]:
    """Return one table and its summary, as reStructuredText."""
    title, ours, peers, more = TABLES[kind]
    rows = load(kind)
    found = table(rows, kind)
    counts = {len({row.seed for row in rows if row.set == name and row.learner == ours[0]}) for name in found} - {0}
    seeds = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else f"{max(counts)}"
    learners = [name for name in [*ours, *peers, *more] if any(name in values for values in found.values())]
    out = [f".. list-table:: {title}, {seeds} seed{'s' * (seeds != '1')}, and CPU seconds of ``fit``"]
    out += ["   :header-rows: 1", "", "   * - data set"]
    out += [f"     - {name}" for name in learners]
    for name in sorted(found):
        out += [f"   * - {name}", *(f"     - {cell(found[name], learner)}" for learner in learners)]
    out += [""]
    for text in [*(losses(found, name, peers) for name in ours), *(pruned(found, name) for name in ours)]:
        out += [text, ""] if text else []
    return [*out, settings_of(rows, peers[0]), ""] if kind == "parsing" else out


def main() -> None:
    """Write the page."""
    out = [".. Written by ``python -m benchmarks.defaults.tables``; do not edit.", ""]
    for kind, name in {
        "classification": "Classes",
        "regression": "Numbers",
        "tagging": "Taggers",
        "parsing": "Parsers",
        "kernels": "Kernels",
        "kernel-numbers": "Kernels, numbers",
    }.items():
        out += [name, "~" * len(name), "", *lines(kind)]
    PAGE.write_text("\n".join(out).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
