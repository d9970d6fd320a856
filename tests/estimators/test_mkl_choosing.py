"""The strength of `MKLClassifier`, from held-out rows, and its default kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spom import MKLClassifier
from spom.estimators.mkl import choosing
from spom.estimators.mkl.choosing import COSTS, DEFAULT
from spom.kernels import Gaussian, Laplacian, Linear, Polynomial
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
    assert names == ["Polynomial", "Polynomial", "Gaussian", "Polynomial", "Laplacian"]
    model = MKLClassifier(random_state=0, epochs=2).fit(sparse.csr_array(X), Y)
    assert [type(k).__name__ for k in model.blocks_] == names[:4]


def test_a_model_with_the_three_default_kernels_of_before_loads() -> None:
    model = MKLClassifier(random_state=0, epochs=2)
    before = MKLClassifier(model._given(3, 1), random_state=0, epochs=2).fit(X, Y)
    state, arrays = before.model_state()
    del state["default_kernels_"]
    again = MKLClassifier.from_model_state({**state, "params": model.get_params(deep=False)}, arrays)
    assert [type(k).__name__ for k in again.blocks_] == ["Linear", "Polynomial", "Gaussian"]
    np.testing.assert_array_equal(again.decision_function(X), before.decision_function(X))


def test_with_many_kernels_the_strength_is_not_tried_out() -> None:
    model = MKLClassifier([Gaussian(float(v)) for v in range(1, 23)], random_state=0, epochs=2).fit(X, Y)
    assert model.penalty_.strength == pytest.approx(1.0 / (2.0 * 120))


# The second looks at the first column alone.
KERNELS_ALONE = [Gaussian(60.0), Laplacian([1.0] + [1e6] * 59), Polynomial(2, 1.0, normalize=True)]


def noisy_rows() -> tuple[object, object]:
    """Draw rows where one column of sixty decides, and a tenth of the labels are wrong."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 60))
    return rows, np.where(rng.random(300) < 0.1, rows[:, 0] < 0, rows[:, 0] > 0).astype(int)


def test_a_kernel_alone_is_the_machine_with_this_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "ALONE", -100.0)
    rows, y = noisy_rows()
    model = MKLClassifier(KERNELS_ALONE, solver="online", random_state=0).fit(rows, y)
    assert model.selected_.tolist() == [1]
    assert model.block_norms_.size == len(model.history_[-1]["block_norms"]) == 3
    twin = MKLClassifier(KERNELS_ALONE[1:2], penalty=model.penalty_, random_state=0).fit(rows, y)
    np.testing.assert_array_equal(model.decision_function(rows), twin.decision_function(rows))
    state, arrays = model.model_state()
    again = MKLClassifier.from_model_state({**state, "params": model.get_params(deep=False)}, arrays)
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))


def test_a_gram_matrix_alone_is_read_from_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "ALONE", -100.0)
    rows, y = noisy_rows()
    model = MKLClassifier("precomputed", solver="online", random_state=0).fit([k.block(rows) for k in KERNELS_ALONE], y)
    assert model.selected_.tolist() == [1]
    blocks = [np.full((5, 300), np.nan), KERNELS_ALONE[1].block(rows[:5], rows), np.full((5, 300), np.nan)]
    assert np.isfinite(model.decision_function(blocks)).all()


def test_kernels_stay_together_where_one_alone_is_not_surely_better() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 4))
    y = (2.0 * rows[:, 0] + np.cos(3.0 * rows[:, 1]) > 0).astype(int)
    model = MKLClassifier([Linear(), Gaussian(0.5)], random_state=0).fit(rows, y)
    assert model.selected_.size == 2
