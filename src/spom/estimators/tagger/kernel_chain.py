"""Kernels on the tokens of sequences, alone or beside templates: how a tagger learns with them, and scores tokens.

A fitted tagger reads rows of features and weights. Here the features of a token are its scores, one for each label,
and the weights are the identity: all that a tagger can do with its rows, it can do with these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are first used

from spom.core.arrays import Floats, Ints, checked_csr, is_sparse, under
from spom.errors import DataError, ModelFileError, Unsupported
from spom.estimators.mkl.model import KernelModel
from spom.estimators.mkl.training import KernelFit, Making, Options, as_kernels, blocks_of, fit_kernels
from spom.estimators.training import Trainer
from spom.features.rows import Blocks, Rows
from spom.kernels.base import as_vectors
from spom.models.loading import Encoder, decode
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem, chosen_penalty


class KernelScores:
    """Feature y of a token is the score of label y by kernels on its vector, and by templates where there are some."""

    kind = "kernels"

    def __init__(self, model: KernelModel, labels: int, features: Any = None, weights: Floats | None = None) -> None:
        self.model, self.labels, self.features = model, labels, features
        self.weights = np.zeros((0, labels)) if weights is None else weights

    @property
    def blocks(self) -> Blocks:
        """One block: the scores."""
        return Blocks(("scores",), np.array([0, self.labels], dtype=np.int64))

    def fit(self, X: Any) -> Rows:
        """Raise: scores of a fitted machine are not learnt again."""
        raise Unsupported("a tagger with kernels learns from all sentences at once: use fit")

    def transform(self, X: Any) -> Rows:
        """Return the scores of each token."""
        sentences, parts = split_pair(X, self.features is not None)
        V, offsets = stacked(parts)
        scores = self.model.scores(V)
        if self.features is not None:
            rows = self.features.transform(sentences)
            check_same(rows.offsets, offsets)
            scores += rows.to_csr(self.weights.shape[0]) @ self.weights
        n, k = scores.shape
        ids = np.tile(np.arange(k, dtype=np.int32), n)
        return Rows(np.arange(n + 1, dtype=np.int64) * k, ids, scores.reshape(-1), offsets)

    def emissions(self, X: Any, blocks: Sequence[str]) -> list[tuple[list[str], Floats]]:
        """(names, what each adds to the score of each label) for each token: kernels, then features of templates."""
        sentences, parts = split_pair(X, self.features is not None)
        V, _ = stacked(parts)
        numbers, by_kernel = self.model.by_block(V)
        names = [blocks[m] if m >= 0 else f"explicit features {-1 - m}" for m in numbers]
        found = [(list(names), by_kernel[:, t]) for t in range(V.shape[0])]
        if self.features is None:
            return found
        rows = self.features.transform(sentences)
        for t, (own, scores) in enumerate(found):
            at = slice(int(rows.indptr[t]), int(rows.indptr[t + 1]))
            values = rows.values[at][:, None] if rows.values.size else 1.0
            own += [self.features.name(int(j)) for j in rows.indices[at]]
            found[t] = (own, np.concatenate([scores, self.weights[rows.indices[at]] * values]))
        return found

    def compact(self, used: Any) -> KernelScores:
        """Return the same scores: every label keeps its own."""
        return self

    def name(self, feature: int) -> str:
        """Return the score of a label."""
        return f"score[{feature}]"

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        state, arrays = self.model.packed()
        own: dict[str, Any] = {f"model.{name}": a for name, a in arrays.items()}
        encoder = Encoder(own, "state.")
        spec = {"version": 1, "labels": self.labels, "state": {k: encoder.encode(v, k) for k, v in state.items()}}
        if self.features is not None:
            spec["kind"] = self.features.kind
            own |= {f"source.{name}": a for name, a in self.features.arrays().items()}
            own["weights"] = self.weights
        return {**own, "spec": np.frombuffer(json.dumps(spec).encode(), dtype=np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> KernelScores:
        """Read the arrays that `arrays()` returns."""
        from spom.estimators.tagger.inputs import features_of

        spec = json.loads(np.asarray(arrays["spec"]).tobytes())
        if spec["version"] > 1:
            raise ModelFileError(f"kernels of version {spec['version']} need a newer spom")
        state = {name: decode(value, arrays) for name, value in spec["state"].items()}
        model = KernelModel.unpacked(state, under(arrays, "model."))
        if "kind" not in spec:
            return cls(model, spec["labels"])
        features = features_of(spec["kind"]).from_arrays(under(arrays, "source."))
        return cls(model, spec["labels"], features, np.asarray(arrays["weights"]))


def is_pair(X: Any) -> bool:
    """Return whether X is (sentences, one matrix of vectors for each sentence).

    >>> is_pair(([["a", "b"]], [np.zeros((2, 3))])), is_pair([np.zeros((1, 3)), np.zeros((2, 3))])
    (True, False)
    """
    if not isinstance(X, (tuple, list)) or len(X) != 2 or not hasattr(X[0], "__len__"):
        return False
    if any(hasattr(part, "shape") and len(part.shape) == 2 for part in X):
        return False
    return not isinstance(X[1], (str, dict)) and all(len(getattr(part, "shape", ())) == 2 for part in X[1])


def split_pair(X: Any, templates: bool) -> tuple[Any, Any]:
    """Return (sentences, vectors): a pair has both, else X has the vectors alone; with templates X must be a pair."""
    if is_pair(X):
        return X[0], X[1]
    if templates:
        raise DataError("with templates and kernels X is a pair: (sentences, a matrix of vectors for each sentence)")
    return None, X


def stacked(parts: Any) -> tuple[Any, Ints]:
    """Return (all vectors, offsets of sentences); matrices may be dense or sparse."""
    listed = list(parts)
    for i, part in enumerate(listed):
        shape = part.shape if hasattr(part, "shape") else _shape(part)
        if len(shape) != 2:
            raise DataError(
                f"sentence {i}: kernels take a matrix with a vector for each token, not {type(part).__name__}; "
                "features of other kinds go beside them, as a pair (sentences, matrices)"
            )
    listed = [part if hasattr(part, "shape") else np.asarray(part, dtype=np.float64) for part in listed]
    widths = {part.shape[1]: i for i, part in reversed(list(enumerate(listed))) if part.shape[0]}
    if len(widths) > 1:
        first, other = sorted(widths.items(), key=lambda item: item[1])[:2]
        raise DataError(f"sentence {other[1]} has {other[0]} features per token; expected {first[0]}")
    offsets = np.concatenate([[0], np.cumsum([part.shape[0] for part in listed])]).astype(np.int64)
    full = [part for part in listed if part.shape[0]]
    if not full:
        return np.zeros((0, max((part.shape[1] for part in listed), default=0))), offsets
    full = [checked_csr(part) if is_sparse(part) else part for part in full]
    listing = any(is_sparse(part) for part in full)
    return as_vectors(scipy.sparse.vstack(full, format="csr") if listing else np.concatenate(full)), offsets


def _shape(part: Any) -> tuple[int, ...]:
    """Return the shape of nested lists of numbers; () where they are not that."""
    try:
        return np.asarray(part, dtype=np.float64).shape
    except (TypeError, ValueError):
        return ()


def check_same(one: Ints, other: Ints) -> None:
    """Raise where sentences and vectors differ in length."""
    if one.shape != other.shape or (one != other).any():
        raise DataError("the sentences and the vectors do not have the same numbers of tokens")


def template_blocks(rows: Rows, blocks: Blocks) -> list[ExplicitBlock]:
    """Return a block of explicit features for each template."""
    token = np.repeat(np.arange(rows.n_tokens), np.diff(rows.indptr))
    of = blocks.of(rows.indices)
    found = []
    for m in range(len(blocks.names)):
        here = of == m
        indptr = np.concatenate([[0], np.cumsum(np.bincount(token[here], minlength=rows.n_tokens))]).astype(np.int64)
        values = rows.values[here] if rows.values.size else rows.values
        indices = (rows.indices[here] - blocks.starts[m]).astype(np.int32)
        found.append(ExplicitBlock(indptr, indices, int(blocks.sizes[m]), values))
    return found


@dataclass(frozen=True)
class Words:
    """Tokens in sentences: vectors for kernels, label numbers, and perhaps rows of features with their blocks."""

    vectors: Any
    offsets: Ints
    codes: Ints
    labels: int
    rows: Rows | None = None
    blocks: Blocks | None = None
    weight: Floats | None = None


def fit_kernel_chain(
    kernels: Any,
    words: Words,
    options: Options,
    trainer: Trainer,
    memory: Any = "2GB",
    dev: Callable[[KernelFit], float] | None = None,
) -> tuple[KernelFit, Any]:
    """Learn from vectors of tokens (and rows of template features): (what was learnt, the penalty that was used).

    The blocks are the kernels in their order, then the templates. With `options.transitions` "none"
    labels do not depend on each other.
    """
    longest = int(np.diff(words.offsets).max(initial=1))
    making = Making(memory, words.labels, longest=longest, verbose=int(trainer.verbose), label=trainer.label)
    made = blocks_of(as_kernels(kernels), words.vectors, making)
    rows, blocks = words.rows, words.blocks
    extra = [] if rows is None or blocks is None else template_blocks(rows, blocks)
    chain = options.transitions != "none"
    problem = KernelProblem.of(
        made.grams,
        words.codes,
        words.labels,
        words.offsets,
        chain,
        [*made.explicit, *extra],
        weight=words.weight,
        check=False,
    )
    count = problem.n_blocks + (options.transitions == "learnt")
    found = chosen_penalty(options.penalty, count, max(1, problem.n_sequences))
    # Beside templates the first half of the passes chooses blocks.
    choosing = options.epochs // 2 if extra else 0
    transitions = options.transitions if chain else "fixed"
    options = replace(options, penalty=found, transitions=transitions, choosing=choosing)
    return fit_kernels(made, problem, words.vectors, trainer, options, dev), found


def block_names(kernels: Sequence[Any], templates: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the blocks: the kernels as they are written, then the templates."""
    return (*(repr(kernel) for kernel in as_kernels(kernels)), *templates)
