"""A tagger as a model file: labels, the features that have a weight, and the weights that are not zero."""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import is_sparse
from spom.estimators.saving import Arrays, Saving, kept_epoch, last_entry
from spom.estimators.tagger.parts import TaggerParts, chain_arrays
from spom.models.checks import check_shape, take
from spom.solvers.structured.chains.data import entries
from spom.solvers.structured.chains.predict import compacted

# What `fit` leaves behind besides arrays.
_FITTED = ("blocks_", "converged_", "n_epochs_", "penalty_")
# The same, since settings can be chosen by the data; older files have none of them.
_CHOSEN = {"templates_": "as given", "loss_": "log", "epochs_": 0, "constraints_": None}


class SavingTagger(Saving):
    """`model_state` and `from_model_state` of a tagger."""

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """What `spom.models` writes."""
        check_is_fitted(self)
        held = vars(self)
        classes = held["classes_"]
        source, W = held["_source"], held["weights_"][:, : classes.size]
        if held["_going"] is not None:
            # After partial_fit every feature is still there: only those with a weight are written.
            used, W = compacted(W)
            source = source.compact(used)
        rows, columns = W.nonzero()
        arrays: Arrays = {f"features.{name}": a for name, a in source.features.arrays().items()}
        arrays["weights.values"] = np.asarray(W[rows, columns]).reshape(-1)
        arrays["weights.labels"] = columns.astype(np.int32)
        arrays["weights.starts"] = np.searchsorted(rows, np.arange(W.shape[0] + 1)).astype(np.int64)
        arrays |= chain_arrays(held["chain_"], held["_forbidden"], is_sparse(W))
        arrays["block_norms"] = held["block_norms_"]
        last = last_entry(held["history_"])
        state = {name: held[name] for name in (*_FITTED, *_CHOSEN)}
        # Without its times: the same seed must give the same bytes.
        pruned = None if held["pruning_"] is None else re.sub(r" in [\d.]+ s\b", "", str(held["pruning_"]))
        return {**state, "classes_": classes, "kind": source.features.kind, "history": last, "pruned": pruned}, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """The tagger again."""
        model, parts = cls(**state["params"]), TaggerParts.of(state, arrays)
        norms = check_shape(take(arrays, "block_norms", "f"), (len(state["blocks_"]),), "block_norms")
        vars(model).update({name: state[name] for name in _FITTED})
        vars(model).update({name: state.get(name, before) for name, before in _CHOSEN.items()})
        vars(model).update(
            classes_=parts.classes,
            blocks_=tuple(state["blocks_"]),
            weights_=parts.weights,
            chain_=parts.chain,
            block_norms_=np.array(norms),
            history_=state["history"],
            pruning_=state["pruned"],
            _forbidden=parts.forbidden,
            _source=parts.source,
            _going=None,
        )
        return model

    def _training(self) -> dict[str, Any]:
        held = vars(self)
        entry = kept_epoch(held["history_"])
        told: dict[str, Any] = {key: float(value) for key, value in entry.items() if key in ("loss", "dev")}
        kept = {key: value for key, value in told.items() if np.isfinite(value)}
        W, k = held["weights_"], held["classes_"].size
        selected = int(np.count_nonzero(held["block_norms_"]))
        nonzeros = int(np.count_nonzero(entries(W, 0, W.shape[0])))
        return {**kept, "nonzeros": nonzeros, "weights": W.shape[0] * k, "blocks_kept": selected}
