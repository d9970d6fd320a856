"""Which templates, kernels or features a model kept, and how their weights moved while it learnt."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.errors import Unsupported
from spom.plot.axes import axes, horizontal_bars


def blocks(model: Any, count: int = 20, ax: Any = None) -> Any:
    """Draw the weight of each block of a fitted model, the largest first."""
    weights = np.asarray(model.block_weights_)
    order = np.argsort(-weights, kind="stable")[:count].tolist()
    ax = axes(ax, height=0.6 + 0.25 * len(order))
    horizontal_bars(ax, [_name(model, i) for i in order], weights[order].tolist())
    ax.set_xlabel("share of the block")
    ax.set_title(f"{int(np.count_nonzero(weights))} of {weights.size} blocks kept")
    return ax


def blocks_over_epochs(model: Any, count: int = 10, ax: Any = None) -> Any:
    """Draw the weights of the `count` largest blocks after each epoch."""
    history = getattr(model, "history_", None)
    entries = [entry for entry in history if "block_weights" in entry] if isinstance(history, list) else []
    if not entries:
        raise Unsupported("this model has no history of its blocks: taggers and parsers have one right after fit")
    table = np.array([entry["block_weights"] for entry in entries])
    ax = axes(ax)
    for i in np.argsort(-table[-1], kind="stable")[:count].tolist():
        ax.plot([entry["epoch"] for entry in entries], table[:, i], label=_name(model, i), marker=".")
    ax.set_xlabel("epoch")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel("share of the block")
    ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax


def _name(model: Any, i: int) -> str:
    names = getattr(model, "feature_names_in_", None)
    block = model.blocks_[i]
    if isinstance(block, str):
        return block
    members = np.atleast_1d(block)
    if members.dtype.kind not in "iu":
        return str(block)
    shown = [str(names[j]) if names is not None else f"x{j}" for j in members[:3].tolist()]
    return "+".join(shown) + ("+..." if members.size > 3 else "")
