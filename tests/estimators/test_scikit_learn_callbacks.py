"""scikit-learn's callbacks on our estimators, and ours on scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")

from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from tests.estimators.test_protocol import BANK, SENTENCES, TAGS, X

from spom import DependencyParser, MKLClassifier, MKLRegressor, OnlineClassifier, OnlineRegressor, SequenceTagger
from spom.estimators.training.scikit_learn import ForScikitLearn
from spom.kernels import Linear
from spom.penalties import SquaredL2

ESTIMATORS = {
    "OnlineClassifier": (OnlineClassifier(epochs=4), (X, X[:, 0] > 0), ["epochs"]),
    "OnlineRegressor": (OnlineRegressor(epochs=4), (X, X[:, 0]), ["epochs"]),
    "SequenceTagger": (SequenceTagger(epochs=4), (SENTENCES, TAGS), ["epochs"]),
    "DependencyParser": (
        DependencyParser(epochs=4, label_epochs=4, min_count=1, second_stage=True, folds=2),
        (BANK,),
        ["arcs", "second stage", "relations"],
    ),
    "MKLClassifier": (MKLClassifier([Linear()], epochs=4), (X, X[:, 0] > 0), ["epochs"]),
    "MKLRegressor": (MKLRegressor([Linear()], SquaredL2(1e-3), epochs=4, tol=0.0), (X, X[:, 0]), ["epochs"]),
}


class Recorder:
    """What scikit-learn's protocol asks for."""

    max_propagation_depth = None

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.calls: list[tuple[str, str, int]] = []
        self.metadata: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.calls.append(("setup", context.task_name, 0))

    def teardown(self, estimator: Any, context: Any) -> None:
        self.calls.append(("teardown", context.task_name, 0))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.calls.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: Any = None) -> bool:
        self.calls.append(("end", context.task_name, context.task_id))
        if context.task_name == "epoch":
            self.metadata.append(metadata)
        return self.stop_after is not None and len(self.metadata) >= self.stop_after


@pytest.mark.parametrize("name", ESTIMATORS)
def test_tasks_are_a_fit_its_stages_and_their_epochs(name: str) -> None:
    model, data, stages = ESTIMATORS[name]
    model, recorder = clone(model).set_params(verbose=0), Recorder()
    model.set_callbacks(recorder).fit(*data)
    kinds = [(what, task) for what, task, _ in recorder.calls]
    assert kinds[:2] == [("setup", "fit"), ("begin", "fit")]
    assert kinds[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert [task for what, task in kinds if what == "begin" and task not in ("fit", "epoch")] == stages
    assert kinds.count(("end", "epoch")) == kinds.count(("begin", "epoch")) == len(model.history_)
    assert [info["epoch"] for info in recorder.metadata][:4] == [1, 2, 3, 4]
    plain = clone(ESTIMATORS[name][0]).set_params(verbose=0)
    assert not hasattr(plain, "_skl_callbacks")
    assert not hasattr(model, "_callback_fit_ctx")


@pytest.mark.parametrize("name", ["OnlineClassifier", "SequenceTagger", "MKLClassifier"])
def test_a_callback_of_theirs_ends_a_run(name: str) -> None:
    model, data, _ = ESTIMATORS[name]
    model = clone(model).set_params(verbose=0).set_callbacks(Recorder(stop_after=2)).fit(*data)
    assert len(model.history_) == 2
    model.predict(data[0])


def test_an_error_tears_down() -> None:
    recorder = Recorder()

    class Broken:
        def on_epoch(self, info: dict[str, Any]) -> None:
            raise RuntimeError("no")

    model = OnlineClassifier(epochs=3, callbacks=Broken(), verbose=0).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="no"):
        model.fit(X, X[:, 0] > 0)
    assert recorder.calls[-1][0] == "teardown"


def test_a_search_passes_its_callbacks_on() -> None:
    recorder = Recorder()
    search = GridSearchCV(OnlineClassifier(epochs=3, verbose=0), {"penalty": ["l1", "squared-l2"]}, cv=2)
    search.set_callbacks(recorder).fit(X, X[:, 0] > 0)
    # Two penalties, two parts, and the fit of the best one.
    assert len(recorder.metadata) == 5 * 3
    OnlineClassifier(epochs=2, verbose=0).set_callbacks(ProgressBar()).fit(X, X[:, 0] > 0)


class Watch:
    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.epochs: list[dict[str, Any]] = []
        self.ends = 0

    def on_epoch(self, info: dict[str, Any]) -> bool:
        self.epochs.append(info)
        return len(self.epochs) == self.stop_after

    def on_end(self, info: dict[str, Any]) -> None:
        self.ends += 1


def test_ours_watch_their_estimators() -> None:
    watch = Watch()
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(ForScikitLearn(watch)).fit(X, X[:, 0] > 0)
    assert watch.ends == 1
    assert len(watch.epochs) >= 4
    assert all({"epoch", "task", "seconds"} <= set(info) for info in watch.epochs)
    again = Watch()
    LogisticRegression(max_iter=20, tol=0.0).set_callbacks(ForScikitLearn(again)).fit(X, X[:, 0] > 0)
    numbers = [info["epoch"] for info in again.epochs]
    assert numbers == sorted(numbers)
    assert again.ends == 1
    with pytest.raises(TypeError, match="a callback needs a method"):
        ForScikitLearn(np.zeros(3))
