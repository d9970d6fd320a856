"""The summary of a model: its blocks, the top features of its labels, its transitions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from spom.report.contents import Block, Contents, Features, Matrix

# A linear model may have millions of blocks; at most this many, the largest, are listed.
MOST_BLOCKS = 2000
# The maximum number of labels whose features are listed.
MOST_LABELS = 60
# The features of a label are selected from this many times the number shown.
WIDER = 20


def described(model: Any, top: int = 12, name_of: Callable[[int], str] | None = None) -> Contents:
    """Return the contents for a model; `name_of` names the features of a model without feature names."""
    if hasattr(model, "coef_"):
        return _linear(model, top, name_of or (lambda i: f"x{i}"))
    if hasattr(model, "chain_"):
        return _tagger(model, top) if model.kernels is None else _kernel_tagger(model)
    if hasattr(model, "arcs_"):
        return _parser(model)
    if getattr(model, "parser_", None) is not None:
        # A pipeline shows the templates of its parser; those of tags and lemmas have no shares.
        return _parser(model.parser_)
    if hasattr(model, "block_weights_"):
        blocks = _named_blocks(model)
        return Contents("", block="kernel", blocks=blocks, scores=_counts(sum(block.kept for block in blocks)))
    return Contents("")


def _counts(kept: Any, nonzeros: Any = None) -> dict[str, float]:
    return {**({} if nonzeros is None else {"nonzeros": float(nonzeros)}), "blocks_kept": float(kept)}


def _named_blocks(model: Any, nonzeros: dict[str, int] | None = None) -> list[Block]:
    """Return the blocks of a model whose blocks have names."""
    names = [f"kernel {b}" if isinstance(b, int) else str(b) for b in model.blocks_]
    pairs = zip(names, np.asarray(model.block_weights_).tolist(), strict=True)
    if nonzeros is None:
        return [Block(str(name), weight) for name, weight in pairs]
    return [Block(str(name), weight, nonzeros=nonzeros.get(str(name), 0)) for name, weight in pairs]


# --- linear models ------------------------------------------------------------------------------------


def _linear(model: Any, top: int, name_of: Callable[[int], str]) -> Contents:
    names = getattr(model, "feature_names_in_", None)
    named = name_of if names is None else (lambda i: str(names[i]))
    coef = sparse.csr_matrix(np.atleast_2d(model.coef_) if not sparse.issparse(model.coef_) else model.coef_)
    coef.eliminate_zeros()
    weights, members = np.asarray(model.block_weights_), model.blocks_
    counts = np.bincount(coef.indices, minlength=coef.shape[1])
    # If all fit, keep their order, which is also that of the history; else take the largest.
    few = weights.size <= MOST_BLOCKS
    order = np.arange(weights.size) if few else np.argsort(-weights, kind="stable")[:MOST_BLOCKS]
    blocks = []
    for m in order.tolist():
        own = np.asarray(members[m])
        blocks.append(Block(_joined(own, named), float(weights[m]), own.size * coef.shape[0], int(counts[own].sum())))
    return Contents(
        "",
        block="feature" if isinstance(members, np.ndarray) or all(len(m) == 1 for m in members) else "group",
        blocks=blocks,
        block_count=int(weights.size),
        scores=_counts(np.count_nonzero(weights), coef.nnz),
        features=[_top(label, coef[k], named, top) for k, label in enumerate(_labels(model, coef.shape[0]))],
    )


def _joined(members: Any, named: Callable[[int], str]) -> str:
    shown = [named(int(i)) for i in members[:4]]
    return " + ".join(shown) + (f" + {len(members) - 4} more" if len(members) > 4 else "")


def _labels(model: Any, rows: int) -> list[str]:
    """Return a label per row of weights; for two classes the second, which a positive weight supports."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return ["target"] if rows == 1 else [f"target {k + 1}" for k in range(rows)]
    return [str(c) for c in (classes if rows > 1 else classes[1:])]


def _top(label: str, row: Any, named: Callable[[int], str], top: int) -> Features:
    order = np.argsort(-np.abs(row.data), kind="stable")[: WIDER * top]
    return Features(label, balanced([(named(int(row.indices[j])), float(row.data[j])) for j in order.tolist()], top))


def balanced(sorted_weights: list[tuple[str, float]], top: int) -> list[tuple[str, float]]:
    """Select `top` weights of a list sorted by size: those for the label first, and at least a third against it.

    >>> balanced([("a", -4.0), ("b", -3.0), ("c", 2.0), ("d", 1.0), ("e", 0.5)], 3)
    [('c', 2.0), ('d', 1.0), ('a', -4.0)]
    """
    plus, minus = [w for w in sorted_weights if w[1] > 0], [w for w in sorted_weights if w[1] < 0]
    against = min(len(minus), max(top // 3, top - len(plus)))
    return [*plus[: top - against], *minus[:against]]


# --- structured models ----------------------------------------------------------------------------------


def _tagger(model: Any, top: int) -> Contents:
    left = model._features.blocks
    counts = np.asarray((model.weights_ != 0).sum(axis=1)).reshape(-1)
    nonzeros = {
        name: int(counts[a:b].sum())
        for name, (a, b) in zip(left.names, pairwise(np.asarray(left.starts).tolist()), strict=True)
    }
    labels = model.classes_.tolist()[:MOST_LABELS]
    features = [
        Features(str(label), balanced([(name, weight) for name, _, weight in model.features(label, WIDER * top)], top))
        for label in labels
    ]
    return Contents(
        "",
        block="template",
        blocks=_named_blocks(model, nonzeros),
        scores=_counts(model.selected_.size, model.nonzeros_),
        features=[one for one in features if one.weights],
        transitions=_chain(model),
        pruning="" if model.pruning_ is None else str(model.pruning_),
    )


def _kernel_tagger(model: Any) -> Contents:
    """Return the contents for a tagger with kernels, without features; with templates, blocks are of both kinds."""
    return Contents(
        "",
        # Besides the kernels there may be one block of transitions; any further blocks are templates.
        block="kernel" if len(model.blocks_) <= len(model.kernels) + 1 else "block",
        blocks=_named_blocks(model),
        scores=_counts(model.selected_.size),
        transitions=_chain(model),
    )


def _chain(model: Any) -> Matrix | None:
    """Return the scores from the start and each label to each label and the end; None if labels are independent."""
    chain = np.asarray(model.chain_, dtype=float)
    if not chain.any():
        return None
    labels = [str(label) for label in model.classes_.tolist()]
    k = len(labels)
    allowed = np.where(np.isneginf(model._forbidden), np.nan, chain)
    whole = np.full((k + 1, k + 1), np.nan)
    whole[0, :k], whole[1:, :k], whole[1:, k] = allowed[k], allowed[:k], allowed[k + 1]
    values = [[None if np.isnan(v) else v for v in row] for row in whole.tolist()]
    return Matrix(["(start)", *labels], [*labels, "(end)"], values)


def _parser(model: Any) -> Contents:
    stages = (model.arcs_, model.second_, model.labels_)
    return Contents(
        "",
        block="template",
        blocks=_named_blocks(model),
        scores=_counts(model.selected_.size, sum(np.count_nonzero(s.weights) for s in stages if s is not None)),
        pruning="" if model.pruning_ is None else str(model.pruning_.table()),
    )
