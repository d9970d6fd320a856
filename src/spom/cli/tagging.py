"""A tagger that only tags: read from a model file without scikit-learn, whose import takes longer than most files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Floats, Ints
from spom.errors import ModelFileError
from spom.estimators.tagger_input import KINDS, Source
from spom.models.checks import check_indices, check_offsets, check_shape, take
from spom.models.encoding import decode
from spom.models.files import Header, read_file
from spom.solvers.chains.data import as_tokens, padded
from spom.solvers.chains.predict import tag


@dataclass(frozen=True)
class Tagging:
    """The features, weights and labels of a tagger."""

    header: Header
    source: Source
    weights: Any
    chain: Floats
    classes: list[str]

    def codes(self, X: Any) -> Ints:
        """The number of the best label of each token."""
        return tag(as_tokens(self.source.transform(X), self.weights.shape[0]), self.weights, self.chain)


def load_tagging(path: str | Path) -> Tagging:
    """The tagger in a model file; `SequenceTagger.from_model_state` makes the same, as an estimator."""
    header, arrays = read_file(path)
    try:
        state = {name: decode(header.model["state"][name], arrays) for name in ("classes_", "kind")}
        return _made(header, state, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: a damaged model file, or one of another spom ({error})") from None


def _made(header: Header, state: dict[str, Any], arrays: dict[str, Any]) -> Tagging:
    kind, classes = state["kind"], [str(label) for label in np.asarray(state["classes_"]).tolist()]
    if kind not in KINDS:
        raise ModelFileError(f"there are no features of the kind {kind!r} in this spom")
    own = {n.removeprefix("features."): a for n, a in arrays.items() if n.startswith("features.")}
    source, k = Source(KINDS[kind].from_arrays(own)), len(classes)
    count = source.blocks.total
    values = take(arrays, "weights.values", "f")
    columns = check_shape(check_indices(take(arrays, "weights.labels", "i"), k, "weights"), values.shape, "weights")
    starts = check_shape(take(arrays, "weights.starts", "i"), (count + 1,), "weights")
    starts = check_offsets(starts, values.size, "weights")
    weights = np.zeros((count, padded(k)), dtype=np.float32)
    weights[np.repeat(np.arange(count), np.diff(starts)), columns] = values
    chain = check_shape(take(arrays, "chain", "f", 2), (k + 2, k), "chain")
    forbidden = check_shape(take(arrays, "forbidden", "f", 2), (k + 2, k), "forbidden")
    return Tagging(header, source, weights, np.asarray(chain + forbidden), classes)
