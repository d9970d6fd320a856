"""Taggers with kernels on the vectors of tokens, alone or together with templates: training and scores of tokens.

A fitted tagger reads rows of features and weights. Here the features of a token are its scores, one for each label,
and the weights are the identity, so everything that a tagger does with its rows works with these.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are first used
from sklearn.utils import check_random_state

from spom.core.arrays import Floats, Ints, checked_csr, is_sparse, offsets_of, under
from spom.errors import DataError, ModelFileError, Unsupported
from spom.estimators.checking import operator
from spom.estimators.mkl.model import KernelModel
from spom.estimators.mkl.training import (
    SOLVERS,
    UPDATES,
    KernelFit,
    Making,
    Options,
    as_kernels,
    blocks_of,
    fit_kernels,
)
from spom.estimators.tagger.defaults import chosen_constraints, chosen_templates, is_auto
from spom.estimators.tagger.inputs import as_columns, check_labels_fit, features_of, label_names, make_features
from spom.estimators.tagger.weights import check_sample_weight, is_per_token, sentence_weights
from spom.estimators.training import Trainer, described, digest
from spom.features.rows import Blocks, Rows
from spom.kernels.base import as_vectors
from spom.models.loading import Encoder, decode
from spom.solvers.mkl.problem import ExplicitBlock, KernelProblem, chosen_penalty
from spom.solvers.structured.chains.data import check_sentence_weights, padded
from spom.solvers.structured.chains.solver import forbidden_scores


class KernelScores:
    """Feature y of a token is the score of label y by kernels on its vector, and by templates, if there are any."""

    kind = "kernels"

    def __init__(self, model: KernelModel, labels: int, features: Any = None, weights: Floats | None = None) -> None:
        self.model, self.labels, self.features = model, labels, features
        self.weights = np.zeros((0, labels)) if weights is None else weights

    @property
    def blocks(self) -> Blocks:
        """One block: the scores."""
        return Blocks(("scores",), np.array([0, self.labels], dtype=np.int64))

    def fit(self, X: Any) -> Rows:
        """Raise an error: scores of a fitted machine cannot be learnt again."""
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
        """Return (names, their parts of the score of each label) per token: kernels, then features of templates."""
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
        """Return the name of a label's score."""
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
        spec = json.loads(np.asarray(arrays["spec"]).tobytes())
        if spec["version"] > 1:
            raise ModelFileError(f"kernels of version {spec['version']} need a newer version of spom")
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
    """Return (sentences, vectors): a pair has both, else X is the vectors; with templates X must be a pair."""
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
                f"sentence {i}: kernels need a matrix with a vector for each token, not {type(part).__name__}; "
                "features of other kinds go beside them, as a pair (sentences, matrices)"
            )
    listed = [part if hasattr(part, "shape") else np.asarray(part, dtype=np.float64) for part in listed]
    widths = {part.shape[1]: i for i, part in reversed(list(enumerate(listed))) if part.shape[0]}
    if len(widths) > 1:
        first, other = sorted(widths.items(), key=lambda item: item[1])[:2]
        raise DataError(f"sentence {other[1]} has {other[0]} features per token; expected {first[0]}")
    offsets = offsets_of([part.shape[0] for part in listed])
    full = [part for part in listed if part.shape[0]]
    if not full:
        return np.zeros((0, max((part.shape[1] for part in listed), default=0))), offsets
    full = [checked_csr(part) if is_sparse(part) else part for part in full]
    listing = any(is_sparse(part) for part in full)
    return as_vectors(scipy.sparse.vstack(full, format="csr") if listing else np.concatenate(full)), offsets


def _shape(part: Any) -> tuple[int, ...]:
    """Return the shape of nested lists of numbers; () for anything else."""
    try:
        return np.asarray(part, dtype=np.float64).shape
    except (TypeError, ValueError):
        return ()


def check_same(one: Ints, other: Ints) -> None:
    """Raise an error if sentences and vectors differ in length."""
    if one.shape != other.shape or (one != other).any():
        raise DataError("the sentences and the vectors do not have the same numbers of tokens")


def template_blocks(rows: Rows, blocks: Blocks) -> list[ExplicitBlock]:
    """Return one block of explicit features per template."""
    token = np.repeat(np.arange(rows.n_tokens), np.diff(rows.indptr))
    of = blocks.of(rows.indices)
    found = []
    for m in range(len(blocks.names)):
        here = of == m
        indptr = offsets_of(np.bincount(token[here], minlength=rows.n_tokens))
        values = rows.values[here] if rows.values.size else rows.values
        indices = (rows.indices[here] - blocks.starts[m]).astype(np.int32)
        found.append(ExplicitBlock(indptr, indices, int(blocks.sizes[m]), values))
    return found


# --- learning ----------------------------------------------------------------------------------------


def check_options_of_kernels(tagger: Any) -> None:
    """Raise an error for settings that have no meaning with kernels."""
    if tagger.solver not in ("auto", *SOLVERS):
        raise Unsupported(f"unknown solver {tagger.solver!r} for kernels; available: {', '.join(SOLVERS)}")
    for name in ("prune", "max_weights"):
        if getattr(tagger, name, None) is not None:
            raise Unsupported(f"{name}= is for templates only: with kernels the penalty chooses blocks")
    if tagger.update not in ("auto", *UPDATES):
        raise Unsupported(f"unknown update {tagger.update!r} for kernels; available: {', '.join(UPDATES)}")


def fit_with_kernels(tagger: Any, data: tuple[Any, Any, Any], classes: Any, dev: Any, watch: dict[str, Any]) -> None:
    """Learn from (X, y, sample_weight), and set the attributes of a fitted tagger; `dev` chooses the best pass."""
    X, y, sample_weight = data
    if y is None:
        raise ValueError("y is missing: with kernels X has vectors, and y the labels of each sentence")
    named = not (tagger.templates is None or is_auto(tagger.templates))
    sentences, parts = split_pair(X, named)
    both = sentences is not None
    vectors, offsets = stacked(parts)
    if vectors.shape[0] == 0:
        raise DataError("there are no tokens to learn from: X has no sentence with one")
    codes, labels = tagger._labels(y, offsets, classes)
    if (codes < 0).any():
        raise Unsupported("unknown labels (None) are for templates only: with kernels every label must be known")
    weight = _weights(sample_weight, offsets)
    tagger.classes_, k = labels, labels.size
    check_labels_fit(k, vectors.shape[0])
    tagger.templates_, features, rows, blocks = "kernels", None, None, None
    if both:
        sentences = as_columns(tagger.templates, sentences)
        templates, tagger.templates_ = chosen_templates(tagger.templates, sentences, label_names(y))
        features = make_features(templates, sentences)
        rows = features.fit(sentences)
        check_same(rows.offsets, offsets)
        blocks = features.blocks
    tagger._allowed = chosen_constraints(tagger.constraints, labels, codes, offsets)
    tagger._forbidden = forbidden_scores(tagger._allowed.constraints, k)
    tagger.constraints_ = tagger._allowed.scheme

    def contents() -> dict[str, Any]:
        kept = digest(vectors, offsets, *([] if rows is None else [rows.indptr, rows.indices, rows.values]))
        return {
            "data": {"sentences": offsets.size - 1, "tokens": int(offsets[-1]), "digest": kept},
            "targets": digest(codes),
            **({} if weight is None else {"weights": digest(weight)}),
            "labels": described(labels.tolist()),
            "templates": list(blocks.names) if blocks is not None else [],
            "dev": None if dev is None else digest(*_dev_parts(dev, both)),
        }

    def score(found: KernelFit) -> float:
        model = copy.copy(tagger)
        _keep(model, found, features, blocks)
        return float(model.score(*dev))

    trainer = Trainer(tagger, contents, **watch)
    with trainer.running():
        options = _options(tagger, trainer, both)
        longest = int(np.diff(offsets).max(initial=1))
        making = Making(tagger.memory, k, longest=longest, verbose=int(trainer.verbose), label=trainer.label)
        made = blocks_of(as_kernels(tagger.kernels), vectors, making)
        explicit = [*made.explicit, *([] if rows is None or blocks is None else template_blocks(rows, blocks))]
        chain = options.transitions != "none"
        problem = KernelProblem.of(made.grams, codes, k, offsets, chain, explicit, weight=weight, check=False)
        count = problem.n_blocks + (options.transitions == "learnt")
        tagger.penalty_ = chosen_penalty(options.penalty, count, max(1, problem.n_sequences))
        options = replace(options, penalty=tagger.penalty_, transitions=options.transitions if chain else "fixed")
        found = fit_kernels(made, problem, vectors, trainer, options, None if dev is None else score)
    _keep(tagger, found, features, blocks)


def _weights(sample_weight: Any, offsets: Ints) -> Floats | None:
    """Return one weight per sentence, with mean one."""
    if sample_weight is None:
        return None
    found = check_sample_weight(sample_weight, offsets)
    if is_per_token(found):
        raise Unsupported("weights of single tokens are for templates only: with kernels give one for each sentence")
    return check_sentence_weights(sentence_weights(found), len(found))


def _options(tagger: Any, trainer: Trainer, both: bool) -> Options:
    """Return the options of a tagger; `"auto"` is the hinge loss and 20 passes, 40 with templates and kernels."""
    simple = tagger.penalty is None or isinstance(tagger.penalty, str)
    penalty = tagger.penalty if simple else operator("penalty", tagger.penalty)
    output = "auto" if tagger.average == "auto" else "average" if tagger.average else "last"
    tagger.loss_ = "hinge" if is_auto(tagger.loss) else tagger.loss
    tagger.cost_ = 1.0 if is_auto(tagger.cost) else tagger.cost
    tagger.epochs_ = (40 if both else 20) if is_auto(tagger.epochs) else tagger.epochs
    options = Options(
        solver=tagger.solver,
        update=tagger.update,
        loss=tagger.loss_,
        penalty=penalty,
        transitions=tagger.transitions or "none",
        step=tagger.step,
        epochs=tagger.epochs_,
        output=output,
        cost=tagger.cost_,
        # With templates the first half of the passes chooses blocks.
        choosing=tagger.epochs_ // 2 if both else 0,
        seed=trainer.seed(lambda: int(check_random_state(tagger.random_state).randint(2**31 - 1))),
    ).chosen()
    tagger.solver_, tagger.update_ = options.solver, options.update
    return options


def _dev_parts(dev: Any, both: bool) -> list[Any]:
    sentences, parts = split_pair(dev[0], both)
    vectors, offsets = stacked(parts)
    return [vectors, offsets, repr(sentences), repr(dev[1])]


def _keep(tagger: Any, found: KernelFit, features: Any, blocks: Any) -> None:
    """Store the result of training."""
    k, weights = tagger.classes_.size, None
    if features is not None:
        whole = np.concatenate(found.explicit_weights)
        used = np.flatnonzero(whole.any(axis=1))
        features, weights = features.compact(used), whole[used]
    tagger._features = KernelScores(found.model, k, features, weights)
    tagger.weights_ = np.eye(k, padded(k), dtype=np.float32)
    tagger.chain_ = np.concatenate([found.transitions, np.zeros((2, k))])
    names = blocks.names if blocks is not None else ()
    tagger.blocks_ = (*(repr(kernel) for kernel in as_kernels(tagger.kernels)), *names)
    tagger.block_norms_, tagger.step_, tagger.pruning_ = found.block_norms, tagger.step, None
    tagger.history_, tagger.converged_ = found.history, found.converged
    tagger.n_epochs_, tagger._going, tagger.memory_plan_ = len(found.history), None, found.message
