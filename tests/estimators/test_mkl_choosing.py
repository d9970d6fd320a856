"""The strength of `MKLClassifier`, from held-out rows, and its default kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spom import MKLClassifier
from spom.estimators.mkl.choosing import COSTS, DEFAULT
from spom.kernels import Gaussian, Linear
from spom.penalties import GroupLasso, SparseMKL

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
KERNELS = [Linear(normalize=True), Gaussian(1.0)]


def cost(y: object, **params: object) -> float:
    model = MKLClassifier(KERNELS, random_state=0, epochs=10, **params).fit(X, y)
    return 1.0 / (model.penalty_.strength * len(X))


def test_noisy_labels_get_a_stronger_penalty() -> None:
    noisy = np.where(RNG.random(120) < 0.3, 1 - Y, Y)
    assert cost(noisy) < cost(Y)
    assert min(abs(np.log(cost(noisy) / c)) for c in COSTS) < 0.01


def test_the_default_is_kept_where_rows_are_too_few_to_hold_some_out() -> None:
    model = MKLClassifier(KERNELS, random_state=0).fit(X[:8], Y[:8])
    assert model.penalty_.strength == pytest.approx(1.0 / (DEFAULT * 8), rel=0.01)


def test_a_name_gets_a_strength_and_an_object_keeps_its_own() -> None:
    named = MKLClassifier(KERNELS, penalty="group-lasso", random_state=0, epochs=5).fit(X, Y).penalty_
    assert isinstance(named, GroupLasso)
    given = MKLClassifier(KERNELS, penalty=SparseMKL(0.123), random_state=0, epochs=5).fit(X, Y).penalty_
    assert given.strength == 0.123


def test_a_class_with_one_row_is_learnt_from() -> None:
    y = np.array(["a", "b"])[Y].astype(object)
    y[5] = "c"
    assert MKLClassifier(KERNELS, random_state=0, epochs=5).fit(X, y).classes_.tolist() == ["a", "b", "c"]


def test_sparse_rows_have_no_laplacian_kernel() -> None:
    names = [type(k).__name__ for k in MKLClassifier(random_state=0, epochs=2).fit(X, Y).blocks_]
    assert names == ["Linear", "Polynomial", "Gaussian", "Polynomial", "Laplacian"]
    model = MKLClassifier(random_state=0, epochs=2).fit(sparse.csr_array(X), Y)
    assert [type(k).__name__ for k in model.blocks_] == names[:4]


def test_a_model_with_the_three_default_kernels_of_before_loads() -> None:
    model = MKLClassifier(random_state=0, epochs=2)
    before = MKLClassifier(model._given(3), random_state=0, epochs=2).fit(X, Y)
    state, arrays = before.model_state()
    again = MKLClassifier.from_model_state({**state, "params": model.get_params(deep=False)}, arrays)
    assert len(again.blocks_) == 3
    np.testing.assert_array_equal(again.decision_function(X), before.decision_function(X))


def test_with_many_kernels_the_strength_is_not_tried_out() -> None:
    model = MKLClassifier([Gaussian(float(v)) for v in range(1, 23)], random_state=0, epochs=2).fit(X, Y)
    assert model.penalty_.strength == pytest.approx(1.0 / (2.0 * 120))
