"""The base of fitted estimators with kernels: the kernels that they kept, and their entries in a model file."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Arrays, Floats, Ints
from spom.core.callbacks import TakesCallbacks
from spom.core.container import check_shape, take
from spom.core.registry import TakesPenalty
from spom.errors import ModelFileError
from spom.estimators.mkl.model import KernelModel
from spom.estimators.mkl.pruning import KernelPruning
from spom.estimators.saving import Saving
from spom.kernels.base import Kernel


class KernelEstimator(TakesPenalty, TakesCallbacks, Saving, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A `KernelModel` with the norm and the weight of each kernel."""

    # The attributes in a model file besides the model itself, and the entries omitted from the last one of the history.
    _saved: ClassVar[tuple[str, ...]]
    _unsaved: ClassVar[tuple[str, ...]] = ("seconds", "per_second")

    blocks_: list[Any]
    block_norms_: Floats
    block_weights_: Floats
    history_: list[dict[str, Any]]
    n_features_in_: int
    n_support_: int
    pruning_: KernelPruning | None
    _model: KernelModel

    @property
    def selected_(self) -> Ints:
        """The kernels with non-zero weight, as indices into `blocks_`."""
        check_is_fitted(self)
        return np.flatnonzero(self.block_norms_)

    @property
    def kernels_(self) -> list[Kernel]:
        """The selected kernels as they were learnt with: with a width, where the data chose it."""
        check_is_fitted(self)
        return list(self._model.kernels)

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state and arrays that `spom.models` writes."""
        check_is_fitted(self)
        state, arrays = self._model.packed()
        state |= {name: vars(self)[name] for name in self._saved if name in vars(self)}
        arrays |= {"block_norms_": self.block_norms_, "block_weights_": self.block_weights_}
        state["history"] = [{k: v for k, v in entry.items() if k not in self._unsaved} for entry in self.history_[-1:]]
        return state, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """Return the estimator restored from a model file."""
        model = cls(**state["params"])
        model.__dict__.update({name: state[name] for name in cls._saved if name in state})
        model.block_norms_ = take(arrays, "block_norms_", "f")
        shape = model.block_norms_.shape
        model.block_weights_ = check_shape(take(arrays, "block_weights_", "f"), shape, "block_weights_")
        count = model.block_norms_.size
        model.history_, model.blocks_ = state["history"], model._blocks_among(count)
        model.pruning_ = None
        model._model = found = KernelModel.unpacked(state, arrays)
        width = found.support.shape[1] if found.support is not None else model.n_features_in_
        fits = len(model.blocks_) == count and width == model.n_features_in_ and not (found.kept >= count).any()
        if not fits or not model._fits(found):
            raise ModelFileError("the coefficients do not fit the kernels, targets and features: the file is damaged")
        return model

    def _blocks_among(self, count: int) -> list[Any]:
        """Return the kernels that `kernels=` means, if a model file has `count` of them."""
        raise NotImplementedError

    def _fits(self, found: KernelModel) -> bool:
        """Return whether a model from a file fits the other attributes."""
        raise NotImplementedError

    def _auto_penalty(self) -> str:
        return "sparse-mkl"

    def _training(self) -> dict[str, Any]:
        kept = int(self.selected_.size)
        return {"blocks_kept": kept, "blocks": int(self.block_norms_.size), "support": self.n_support_}
