"""What every registered estimator must do, whatever it learns."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import spom
from spom.core import registry
from spom.penalties import GroupLasso

ESTIMATORS = registry.entries("estimator")


@pytest.mark.parametrize("entry", ESTIMATORS, ids=lambda entry: entry.name)
class TestEveryEstimator:
    def test_is_a_public_name(self, entry: registry.Entry) -> None:
        assert getattr(spom, entry.cls.__name__) is entry.cls

    def test_keeps_its_parameters_as_given(self, entry: registry.Entry) -> None:
        for estimator in entry.examples():
            names = set(inspect.signature(type(estimator).__init__).parameters) - {"self"}
            params: dict[str, Any] = estimator.get_params(deep=False)
            assert set(params) == names
            assert all(getattr(estimator, name) is value for name, value in params.items())
            assert clone(estimator).get_params(deep=False).keys() == params.keys()
            assert type(estimator).__name__ in repr(estimator)

    def test_means_the_same_by_the_same_names(self, entry: registry.Entry) -> None:
        names = set(inspect.signature(entry.cls.__init__).parameters)
        # The stages of a pipeline have penalties of their own.
        assert names >= ({"parser", "verbose"} if entry.cls is spom.Pipeline else {"penalty", "verbose"})

    def test_the_default_penalty_is_auto_and_takes_a_strength(self, entry: registry.Entry) -> None:
        if entry.cls is spom.Pipeline:
            return
        default = entry.cls()
        assert default.penalty == "auto"
        given = clone(default).set_params(penalty__strength=0.25)
        assert given.penalty.strength == given.get_params()["penalty__strength"] == 0.25
        named = entry.cls(penalty="group-lasso").set_params(penalty__strength=0.5)
        assert repr(named.penalty) == repr(GroupLasso(0.5))
        assert default.set_params(penalty="l1", penalty__strength=2.0).penalty.strength == 2.0
        with pytest.raises(ValueError, match="penalty=None has no strength"):
            entry.cls(penalty=None).set_params(penalty__strength=0.5)

    def test_says_that_it_is_not_fitted(self, entry: registry.Entry) -> None:
        for estimator in entry.examples():
            with pytest.raises(NotFittedError):
                estimator.predict([[0.0]])

    def test_saves_nothing_before_it_is_fitted(self, entry: registry.Entry, tmp_path: Any) -> None:
        for estimator in entry.examples():
            with pytest.raises(NotFittedError):
                estimator.save(tmp_path / "model.spom")
        assert list(tmp_path.iterdir()) == []
