"""`SequenceTagger.fit` with kernels: vectors of tokens, alone or beside sentences for templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from spom.core.callbacks import Callbacks
from spom.errors import DataError, Unsupported
from spom.estimators.checking import all_or_nothing, operator
from spom.estimators.mkl.training import SOLVERS
from spom.estimators.tagger.inputs import Source, make_source
from spom.estimators.tagger.kernel_chain import (
    KernelScores,
    block_names,
    check_same,
    fit_kernel_chain,
    split_pair,
    stacked,
)
from spom.solvers.structured.chains.data import padded
from spom.solvers.structured.chains.solver import forbidden_scores


def check_options(tagger: Any) -> None:
    """What has no meaning with kernels is refused before any work."""
    if tagger.solver not in SOLVERS:
        raise Unsupported(f"there is no solver {tagger.solver!r} for kernels; there are: {', '.join(SOLVERS)}")
    for name in ("prune", "max_weights"):
        if getattr(tagger, name, None) is not None:
            raise Unsupported(f"{name}= is for templates alone: with kernels the penalty chooses blocks")
    if tagger.update != "auto":
        raise Unsupported(f"update={tagger.update!r} is for templates alone; with kernels it is 'auto'")


def fit_with_kernels(
    tagger: Any,
    X: Any,
    y: Any,
    dev: Any,
    classes: Any,
    checkpoint: str | Path | None,
    checkpoint_every: int | float | str,
    resume: bool,
) -> None:
    """Learn, and leave behind what a fitted tagger has; `dev` is scored once, at the end."""
    if y is None:
        raise ValueError("y is missing: with kernels X has vectors, and y the labels of each sentence")
    both = tagger.templates is not None
    sentences, parts = split_pair(X, both)
    vectors, offsets = stacked(parts)
    if vectors.shape[0] == 0:
        raise DataError("there are no tokens to learn from: X has no sentence with one")
    watching = Callbacks(tagger.callbacks, type(tagger).__name__)
    with all_or_nothing(tagger):
        codes, labels = tagger._labels(y, offsets, classes)
        tagger.classes_, k = labels, labels.size
        source = make_source(tagger.templates, sentences) if both else None
        rows = source.fit(sentences) if source is not None else None
        if rows is not None:
            check_same(rows.offsets, offsets)
        blocks = source.blocks if source is not None else None
        tagger._forbidden = forbidden_scores(tagger._allowed(), k)
        try:
            found, penalty = fit_kernel_chain(
                tagger.kernels,
                vectors,
                offsets,
                codes,
                k,
                rows=rows,
                blocks=blocks,
                transitions=tagger.transitions,
                loss=tagger.loss,
                penalty=None if tagger.penalty is None else operator("penalty", tagger.penalty),
                solver=tagger.solver,
                step=tagger.step,
                epochs=tagger.epochs,
                output="average" if tagger.average is True else "last",
                cost=tagger.cost,
                memory=tagger.memory,
                seed=int(check_random_state(tagger.random_state).randint(2**31 - 1)),
                callbacks=watching,
                verbose=tagger.verbose,
                label=type(tagger).__name__,
                checkpoint=None if checkpoint is None else Path(checkpoint),
                checkpoint_every=checkpoint_every,
                resume=resume,
            )
        except BaseException as error:
            watching.end("interrupted" if isinstance(error, KeyboardInterrupt) else "error")
            raise
        weights = None
        if source is not None:
            whole = np.concatenate(found.explicit_weights)
            used = np.flatnonzero(whole.any(axis=1))
            source, weights = source.compact(used), whole[used]
        tagger._source = Source(KernelScores(found.model, k, source, weights))
        tagger.weights_ = np.eye(k, padded(k), dtype=np.float32)
        tagger.chain_ = np.concatenate([found.transitions, np.zeros((2, k))])
        tagger.blocks_ = block_names(tagger.kernels, blocks.names if blocks is not None else ())
        tagger.block_norms_, tagger._kept = found.block_norms, np.flatnonzero(found.block_norms)
        tagger.penalty_, tagger.step_, tagger.pruning_ = penalty, tagger.step, None
        tagger.history_, tagger.converged_ = found.history, found.converged
        tagger.n_epochs_, tagger._going, tagger.memory_plan_ = len(found.history), None, found.message
        if dev is not None:
            tagger.history_[-1]["dev"] = tagger.score(*dev)
        watching.end("end")
