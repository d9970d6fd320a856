"""Every estimator that learns in epochs keeps the protocol of callbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spom import DependencyParser, MKLClassifier, OnlineClassifier, OnlineRegressor, SequenceTagger
from spom.core.callbacks import Callback
from spom.data import Treebank
from spom.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
SENTENCES = [["the", "cat", "sleeps"], ["dogs", "bark"]] * 5
TAGS = [["D", "N", "V"], ["N", "V"]] * 5
# Words that differ in their forms alone, so that there is something to learn.
TREES = [{"a": 2, "b": 0, "c": 2, "d": 3}, {"b": 3, "d": 3, "a": 0, "c": 3}, {"c": 0, "a": 1, "d": 4, "b": 2}]
BANK = Treebank.from_sentences(
    [{"form": w, "upos": "X", "head": h, "deprel": "dep" if h else "root"} for w, h in tree.items()] for tree in TREES
)

# (the estimator, what it is fitted to)
ESTIMATORS = {
    "OnlineClassifier": (OnlineClassifier(epochs=5), (X, X[:, 0] > 0)),
    "OnlineRegressor": (OnlineRegressor(epochs=5), (X, X[:, 0])),
    "SequenceTagger": (SequenceTagger(epochs=5), (SENTENCES, TAGS)),
    "DependencyParser": (DependencyParser(epochs=5, label_epochs=5, min_count=1), (BANK,)),
    "MKLClassifier": (MKLClassifier([Linear(), Gaussian(1.0)], epochs=5), (X, X[:, 0] > 0)),
}


class Watcher:
    def __init__(self, act: Any = None) -> None:
        self.act = act
        self.epochs: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []

    def on_epoch(self, info: dict[str, Any]) -> Any:
        self.epochs.append(dict(info))
        return None if self.act is None else self.act()

    def on_end(self, info: dict[str, Any]) -> None:
        self.ends.append(info)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_epochs_are_told_as_they_are_in_the_history(name: str) -> None:
    model, data = ESTIMATORS[name]
    first, second = Watcher(), Watcher()
    model.set_params(callbacks=[first, second], verbose=0, random_state=0).fit(*data)
    assert len(first.epochs) == len(second.epochs) == len(model.history_) >= 5
    for info in first.epochs:
        assert {"epoch", "loss", "seconds"} <= set(info)
        assert np.isfinite(info["loss"])
    seconds = [info["seconds"] for info in first.epochs]
    assert seconds == sorted(seconds)
    told = [info for info in first.epochs if "block_weights" in info]
    for info in told:
        weights = np.asarray(info["block_weights"])
        assert weights.sum() == pytest.approx(1.0)
        assert info["blocks_kept"] == np.count_nonzero(weights)
    assert told
    assert [end["stopped"] in ("end", "converged") for end in first.ends] == [True]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_true_ends_the_run_with_a_fitted_model(name: str) -> None:
    model, data = ESTIMATORS[name]
    stopper = Watcher(lambda: True)
    model.set_params(callbacks=stopper, verbose=0).fit(*data)
    stages = {info.get("stage") for info in stopper.epochs}
    assert len(stopper.epochs) == len(stages), "one epoch of each stage"
    assert [end["stopped"] for end in stopper.ends] == ["callback"]
    assert not model.converged_
    model.predict(data[0])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_errors_come_through_and_the_end_is_told(name: str) -> None:
    model, data = ESTIMATORS[name]
    broken = Watcher(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.set_params(callbacks=[broken], verbose=0).fit(*data)
    assert [end["stopped"] for end in broken.ends] == ["error"]
    with pytest.raises(TypeError, match="needs a method"):
        model.set_params(callbacks=[object()]).fit(*data)


def test_the_protocol_is_a_type() -> None:
    class Whole:
        def on_epoch(self, info: dict[str, Any]) -> bool | None:
            return None

        def on_checkpoint(self, path: Any) -> None: ...

        def on_end(self, info: dict[str, Any]) -> None: ...

    whole: Callback = Whole()
    OnlineClassifier(callbacks=whole).fit(X, X[:, 0] > 0)
