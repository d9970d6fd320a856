"""Callbacks of the online estimators: what they are given, and how they end a run."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from spom import OnlineClassifier, OnlineRegressor
from spom.penalties import L1, GroupLasso

X, Y = load_iris(return_X_y=True)


class Watcher:
    def __init__(self, stop_at: int = 99) -> None:
        self.epochs: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.stop_at = stop_at

    def on_epoch(self, info: dict[str, Any]) -> bool:
        self.epochs.append(info)
        return len(self.epochs) >= self.stop_at

    def on_end(self, info: dict[str, Any]) -> None:
        self.ends.append(info)


@pytest.mark.parametrize("penalty", [L1(0.01), GroupLasso(0.1)])
def test_each_epoch_is_told_and_the_last_is_the_model(penalty: Any) -> None:
    watcher = Watcher()
    model = OnlineClassifier(penalty=penalty, epochs=4, random_state=0, callbacks=watcher).fit(X, Y)
    assert [info["epoch"] for info in watcher.epochs] == [1, 2, 3, 4]
    last = watcher.epochs[-1]
    assert last["nonzeros"] == np.count_nonzero(model.coef_)
    assert last["blocks_kept"] == model.selected_.size
    np.testing.assert_allclose(last["block_weights"], model.block_weights_, atol=1e-12)
    assert last["loss"] == model.history_.loss[-1]
    assert [end["stopped"] for end in watcher.ends] == ["end"]
    assert watcher.ends[0]["epoch"] == 4


def test_a_callback_ends_the_run_with_what_was_learnt() -> None:
    watcher = Watcher(stop_at=2)
    stopped = OnlineClassifier(epochs=9, random_state=0, callbacks=[watcher]).fit(X, Y)
    assert (len(stopped.history_), stopped.converged_) == (2, False)
    assert watcher.ends[0]["stopped"] == "callback"
    assert stopped.score(X, Y) > 0.8


def test_looking_on_changes_nothing() -> None:
    alone = OnlineRegressor(epochs=3, random_state=0).fit(X, Y)
    watched = OnlineRegressor(epochs=3, random_state=0, callbacks=Watcher()).fit(X, Y)
    np.testing.assert_array_equal(alone.coef_, watched.coef_)


def test_a_rule_that_ends_the_run_is_named() -> None:
    watcher = Watcher()
    OnlineClassifier(epochs=200, tol=0.5, n_iter_no_change=1, random_state=0, callbacks=watcher).fit(X, Y)
    assert watcher.ends[0]["stopped"] == "converged"
    held = Watcher()
    OnlineClassifier(epochs=3, early_stopping=True, random_state=0, callbacks=held).fit(X, Y)
    assert all(info["validation_loss"] > 0 for info in held.epochs)


def test_streams_tell_of_their_blocks_and_errors_are_told() -> None:
    watcher = Watcher()
    blocks = [(X[i::3], Y[i::3]) for i in range(3)]
    OnlineClassifier(epochs=1, callbacks=watcher).fit(blocks, classes=[0, 1, 2])
    assert len(watcher.epochs) == 3
    broken = Watcher()
    broken.on_epoch = lambda info: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        OnlineClassifier(callbacks=broken).fit(X, Y)
    assert broken.ends[0]["stopped"] == "error"


def test_what_is_no_callback_is_refused_before_any_work() -> None:
    model = OnlineClassifier(callbacks=print)
    with pytest.raises(TypeError, match="needs a method on_epoch"):
        model.fit(X, Y)
    assert not hasattr(model, "coef_")
    assert clone(OnlineClassifier(callbacks=[Watcher()])).callbacks is not None


def test_the_log_tells_of_epochs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="spom"):
        OnlineClassifier(epochs=2, random_state=0).fit(X, Y)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[0].startswith("OnlineClassifier: epoch 1, loss ")
    assert lines[2].startswith("OnlineClassifier: over (end), epoch 2")
