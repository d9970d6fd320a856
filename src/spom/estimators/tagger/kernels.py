"""`SequenceTagger.fit` with kernels: vectors of tokens, alone or beside sentences for templates."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from spom.core.arrays import Floats, Ints
from spom.errors import DataError, Unsupported
from spom.estimators.checking import operator
from spom.estimators.mkl.training import SOLVERS, UPDATES, KernelFit, Options
from spom.estimators.tagger.defaults import chosen_constraints, chosen_templates, is_auto
from spom.estimators.tagger.inputs import as_columns, check_labels_fit, label_names, make_features
from spom.estimators.tagger.kernel_chain import (
    KernelScores,
    Words,
    block_names,
    check_same,
    fit_kernel_chain,
    split_pair,
    stacked,
)
from spom.estimators.tagger.weights import check_sample_weight, is_per_token, sentence_weights
from spom.estimators.training import Trainer, described, digest
from spom.solvers.structured.chains.data import check_sentence_weights, padded
from spom.solvers.structured.chains.solver import forbidden_scores


def check_options(tagger: Any) -> None:
    """Raise for settings that have no meaning with kernels."""
    if tagger.solver not in ("auto", *SOLVERS):
        raise Unsupported(f"there is no solver {tagger.solver!r} for kernels; there are: {', '.join(SOLVERS)}")
    for name in ("prune", "max_weights"):
        if getattr(tagger, name, None) is not None:
            raise Unsupported(f"{name}= is for templates alone: with kernels the penalty chooses blocks")
    if tagger.update not in ("auto", *UPDATES):
        raise Unsupported(f"there is no update {tagger.update!r} for kernels; there are: {', '.join(UPDATES)}")


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
        raise Unsupported("unknown labels (None) are for templates alone: with kernels every label must be known")
    weight = _weights(sample_weight, offsets)
    tagger.classes_, k = labels, labels.size
    check_labels_fit(k, vectors.shape[0])
    tagger.templates_, features = "kernels", None
    if both:
        sentences = as_columns(tagger.templates, sentences)
        templates, tagger.templates_ = chosen_templates(tagger.templates, sentences, label_names(y))
        features = make_features(templates, sentences)
    rows = features.fit(sentences) if features is not None else None
    if rows is not None:
        check_same(rows.offsets, offsets)
    blocks = features.blocks if features is not None else None
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
        words = Words(vectors, offsets, codes, k, rows, blocks, weight)
        options = _options(tagger, trainer, both)
        found, tagger.penalty_ = fit_kernel_chain(
            tagger.kernels, words, options, trainer, tagger.memory, None if dev is None else score
        )
    _keep(tagger, found, features, blocks)


def _weights(sample_weight: Any, offsets: Ints) -> Floats | None:
    """Return one weight per sentence, with mean one."""
    if sample_weight is None:
        return None
    found = check_sample_weight(sample_weight, offsets)
    if is_per_token(found):
        raise Unsupported("weights of single tokens are for templates alone: with kernels give one for each sentence")
    return check_sentence_weights(sentence_weights(found), len(found))


def _options(tagger: Any, trainer: Trainer, both: bool) -> Options:
    """Return the options of a tagger; with kernels `"auto"` is the hinge loss and a penalty of kernels.

    There are 20 passes, and 40 with templates beside the kernels, as the first half of them chooses blocks.
    """
    simple = tagger.penalty is None or isinstance(tagger.penalty, str)
    penalty = tagger.penalty if simple else operator("penalty", tagger.penalty)
    output = "auto" if tagger.average == "auto" else "average" if tagger.average else "last"
    tagger.loss_ = "hinge" if is_auto(tagger.loss) else tagger.loss
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
        cost=tagger.cost,
        seed=trainer.seed(lambda: int(check_random_state(tagger.random_state).randint(2**31 - 1))),
    ).chosen()
    tagger.solver_, tagger.update_ = options.solver, options.update
    return options


def _dev_parts(dev: Any, both: bool) -> list[Any]:
    sentences, parts = split_pair(dev[0], both)
    vectors, offsets = stacked(parts)
    return [vectors, offsets, repr(sentences), repr(dev[1])]


def _keep(tagger: Any, found: KernelFit, features: Any, blocks: Any) -> None:
    """Store what was learnt."""
    k, weights = tagger.classes_.size, None
    if features is not None:
        whole = np.concatenate(found.explicit_weights)
        used = np.flatnonzero(whole.any(axis=1))
        features, weights = features.compact(used), whole[used]
    tagger._features = KernelScores(found.model, k, features, weights)
    tagger.weights_ = np.eye(k, padded(k), dtype=np.float32)
    tagger.chain_ = np.concatenate([found.transitions, np.zeros((2, k))])
    tagger.blocks_ = block_names(tagger.kernels, blocks.names if blocks is not None else ())
    tagger.block_norms_, tagger._kept = found.block_norms, np.flatnonzero(found.block_norms)
    tagger.step_, tagger.pruning_ = tagger.step, None
    tagger.history_, tagger.converged_ = found.history, found.converged
    tagger.n_epochs_, tagger._going, tagger.memory_plan_ = len(found.history), None, found.message
