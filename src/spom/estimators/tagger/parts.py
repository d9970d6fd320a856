"""What a tagger needs to tag, from the arrays of a model file: features, weights and labels, without scikit-learn.

Its import takes longer than tagging most files, and the command tags without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints, under
from spom.core.container import check_indices, check_offsets, check_shape, take
from spom.errors import ModelFileError
from spom.estimators.tagger.inputs import Source, features_of
from spom.solvers.structured.chains.data import as_tokens, padded
from spom.solvers.structured.chains.predict import tag


@dataclass(frozen=True)
class TaggerParts:
    """The features, the weights (one row per feature), the scores of the chain, and the labels."""

    source: Source
    weights: Any
    chain: Floats
    forbidden: Floats
    classes: NDArray[Any]

    @classmethod
    def of(cls, state: dict[str, Any], arrays: dict[str, Any]) -> TaggerParts:
        """The parts of a model file, checked: compiled code trusts them."""
        classes, kind = np.asarray(state["classes_"]), state["kind"]
        features = features_of(kind)
        if features is None:
            raise ModelFileError(f"there are no features of the kind {kind!r} in this spom")
        source, k = Source(features.from_arrays(under(arrays, "features."))), classes.size
        count = source.blocks.total
        values = take(arrays, "weights.values", "f")
        columns = check_shape(check_indices(take(arrays, "weights.labels", "i"), k, "weights"), values.shape, "weights")
        starts = check_shape(take(arrays, "weights.starts", "i"), (count + 1,), "weights")
        starts = check_offsets(starts, values.size, "weights")
        if "chain" not in arrays:
            from scipy.sparse import csr_matrix

            many = csr_matrix((values.astype(np.float32), columns, starts), shape=(count, k))
            return cls(source, many, *chain_from(arrays, k), classes)
        weights = np.zeros((count, padded(k)), dtype=np.float32)
        weights[np.repeat(np.arange(count), np.diff(starts)), columns] = values
        chain = check_shape(take(arrays, "chain", "f", 2), (k + 2, k), "chain")
        forbidden = check_shape(take(arrays, "forbidden", "f", 2, finite=False), (k + 2, k), "forbidden")
        if not bool(((forbidden == 0.0) | (forbidden == -np.inf)).all()):
            raise ModelFileError("the array 'forbidden' has entries besides 0 and -inf: the file is damaged")
        return cls(source, weights, np.array(chain), np.array(forbidden), classes)

    def codes(self, X: Any) -> Ints:
        """The number of the best label of each token."""
        tokens = as_tokens(self.source.transform(X), self.weights.shape[0])
        return tag(tokens, self.weights, np.asarray(self.chain + self.forbidden))


def chain_arrays(chain: Floats, forbidden: Floats, many: bool) -> dict[str, Any]:
    """Scores of the chain and what it forbids; of many labels only what is not zero."""
    if not many:
        return {"chain": chain, "forbidden": forbidden}
    places, never = np.flatnonzero(chain), np.flatnonzero(forbidden)
    return {"chain.places": places, "chain.values": chain.reshape(-1)[places], "forbidden.places": never}


def chain_from(arrays: dict[str, Any], k: int) -> tuple[Floats, Floats]:
    """What `chain_arrays` gave for many labels, checked."""
    chain, forbidden = np.zeros((k + 2, k)), np.zeros((k + 2, k))
    places = check_indices(take(arrays, "chain.places", "i"), chain.size, "chain")
    chain.reshape(-1)[places] = check_shape(take(arrays, "chain.values", "f"), places.shape, "chain")
    forbidden.reshape(-1)[check_indices(take(arrays, "forbidden.places", "i"), chain.size, "forbidden")] = -np.inf
    return chain, forbidden
