"""Which epoch of each stage was kept, and why a run ended, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# What the stages of a parser do.
STAGES = {
    "arcs": "heads of words",
    "second stage": "heads again, with the first trees as features",
    "relations": "relations of the trees",
    "largest weights": "the largest weights, learnt again alone",
}


def stage_of(entry: dict[str, Any]) -> str:
    """The stage of an epoch; empty where a run has one only."""
    return str(entry.get("stage") or "")


def in_stages(history: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """(stage, its epochs), in their order; a count that starts again is another stage.

    >>> [(name, len(epochs)) for name, epochs in in_stages([{"epoch": 1}, {"epoch": 2}, {"epoch": 1}])]
    [('', 2), ('', 1)]
    """
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for entry in history:
        name = stage_of(entry)
        if not found or found[-1][0] != name or entry.get("epoch", 0) <= found[-1][1][-1].get("epoch", 0):
            found.append((name, []))
        found[-1][1].append(entry)
    return found


def kept_epochs(history: Sequence[dict[str, Any]], stopped: str) -> list[str]:
    """One line per stage that was scored on development data: which epoch was kept, and whether it ended early.

    >>> kept_epochs([{"epoch": 1, "dev": 0.5}, {"epoch": 2, "dev": 0.75}, {"epoch": 3, "dev": 0.7}], "converged")
    ['epoch 2 of 3 kept (dev 0.7500): no better score after it, so training stopped early']
    """
    stages, lines = in_stages(history), []
    for name, epochs in stages:
        label = f"{name} ({STAGES[name]}): " if name in STAGES else f"{name}: " if name else ""
        scored = [entry for entry in epochs if entry.get("dev") is not None]
        if scored:
            best = max(scored, key=lambda entry: float(entry["dev"]))
            kept = f"epoch {best['epoch']} of {epochs[-1]['epoch']} kept (dev {float(best['dev']):.4f})"
        elif label:
            kept = f"{len(epochs)} epochs"
        else:
            continue
        early = stopped == "converged" and bool(scored) and best is not epochs[-1]
        lines.append(label + kept + (": no better score after it, so training stopped early" if early else ""))
    return lines
