"""The classifier with several kernels: scikit-learn's checks, its SVC as an oracle, budgets, files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import spom
from spom import MKLClassifier
from spom.errors import DataError, Unsupported
from spom.estimators.mkl.training import grams_of
from spom.kernels import BSpline, Function, Gaussian, Linear, Nystroem, Polynomial
from spom.kernels.gram import DenseGram
from spom.penalties import ElasticNetMKL, GroupLasso, LqMKL, SparseMKL, SquaredL2
from spom.solvers.mkl.store import stacked

DIGITS = load_digits(return_X_y=True)
X, Y = DIGITS[0][:400] / 16.0, DIGITS[1][:400]
X_TEST, Y_TEST = DIGITS[0][400:900] / 16.0, DIGITS[1][400:900]
KERNELS = [Linear(normalize=True), Polynomial(2, normalize=True), Gaussian(5.0)]


@parametrize_with_checks([MKLClassifier(epochs=4), MKLClassifier(loss="log", output="average", epochs=4)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("solver", ["online", "frank-wolfe"])
@pytest.mark.parametrize("labels", [np.array([f"digit {d}" for d in range(10)]), np.arange(10) * 7 - 3])
def test_as_good_as_a_support_vector_machine_and_labels_come_back(solver: str, labels: Any) -> None:
    model = MKLClassifier(KERNELS, solver=solver, random_state=0).fit(X, labels[Y])
    assert model.score(X_TEST, labels[Y_TEST]) > SVC(gamma=0.1).fit(X, Y).score(X_TEST, Y_TEST) - 0.015
    assert set(model.predict(X_TEST)) <= set(labels)
    assert model.predict(X_TEST).dtype.kind == labels.dtype.kind
    assert model.block_weights_.sum() == pytest.approx(1.0)
    assert model.converged_
    assert model.history_[-1]["loss"] < model.history_[0]["loss"] or solver == "frank-wolfe"
    np.testing.assert_array_equal(model.selected_, np.flatnonzero(model.block_weights_))


@pytest.mark.parametrize("penalty", [LqMKL(1e-3), ElasticNetMKL(1e-3), GroupLasso(1e-2), SquaredL2(1e-3), "sparse-mkl"])
def test_every_penalty_of_blocks(penalty: Any) -> None:
    model = MKLClassifier(KERNELS, penalty=penalty, random_state=0).fit(X, Y)
    assert model.score(X_TEST, Y_TEST) > 0.86


def test_precomputed_matrices_give_what_the_kernels_give() -> None:
    options = {"random_state": 1, "epochs": 5, "precision": "double", "penalty": SparseMKL(1e-3)}
    rows = MKLClassifier(KERNELS, **options)
    # Without the merging of equal rows the order is that of the data, as it is for matrices.
    several = np.vstack([X, X_TEST, X + 0.01])[:1200]
    y = np.concatenate([Y, Y_TEST, Y])[:1200]
    rows.fit(several, y)
    grams = [kernel.block(several) for kernel in KERNELS]
    given = MKLClassifier("precomputed", **options).fit(grams, y)
    tests = [kernel.block(X_TEST, several) for kernel in KERNELS]
    np.testing.assert_allclose(given.decision_function(tests), rows.decision_function(X_TEST), atol=1e-8)
    np.testing.assert_array_equal(given.predict(tests), rows.predict(X_TEST))


def test_parts_of_larger_matrices_are_copied_once_into_one_array() -> None:
    X, _ = load_iris(return_X_y=True)
    whole = [kernel.block(X, X) for kernel in (Linear(), Gaussian(2.0))]
    blocks = grams_of([K[:60, :60] for K in whole])
    first, second = (gram.values for gram in blocks.grams if isinstance(gram, DenseGram))
    assert first.base is second.base
    assert first.base.shape == (2, 60, 60)
    assert stacked(blocks.grams, 60, np.dtype(np.float64)).base is first.base
    assert np.array_equal(second, whole[1][:60, :60])
    # Matrices of different types stay as they are.
    mixed = grams_of([whole[0], whole[1].astype(np.float32)])
    assert [gram.dtype for gram in mixed.grams] == [np.float64, np.float32]


def test_only_what_carries_weight_is_kept() -> None:
    model = MKLClassifier([*KERNELS, Gaussian(1e-6)], random_state=0).fit(X, Y)
    assert model.n_support_ == model._model.support.shape[0] < 400
    assert model._model.coef.any(axis=(0, 2)).all()
    assert model._model.kept.tolist() == model.selected_.tolist()
    assert len(model._model.kernels) == model.selected_.size


def test_a_useless_kernel_is_switched_off() -> None:
    noise = Function(_noise)
    model = MKLClassifier([Gaussian(5.0), noise], penalty=SparseMKL(0.02), random_state=0).fit(X, Y)
    assert model.block_weights_[0] > 0.9


def _noise(A: Any, B: Any) -> Any:
    """Return a kernel of one corner pixel, which carries no information about digits."""
    return A[:, :1] @ B[:, :1].T


@pytest.mark.parametrize("memory", ["1GB", "2MB", "3MB"])
def test_every_form_within_the_budget_learns_the_same(memory: str, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, logger="spom.kernels"):
        model = MKLClassifier([Gaussian(5.0), Polynomial(2)], memory=memory, random_state=0, epochs=4).fit(X, Y)
    assert model.memory_plan_ in caplog.text
    whole = MKLClassifier([Gaussian(5.0), Polynomial(2)], random_state=0, epochs=4).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X_TEST), whole.decision_function(X_TEST), rtol=1e-3, atol=1e-3)
    assert ("kept" if memory == "1GB" else "rows") in model.memory_plan_


def test_features_where_nothing_else_fits() -> None:
    many, y = np.repeat(X, 20, axis=0) + 1e-6 * np.arange(20 * 400)[:, None], np.repeat(Y, 20)
    model = MKLClassifier([Gaussian(5.0)], memory="6MB", random_state=0, epochs=3).fit(many, y)
    assert "Nystroem" in model.memory_plan_
    assert model.score(X_TEST, Y_TEST) > 0.8
    mixed = MKLClassifier([Nystroem(Gaussian(5.0), 100), Linear()], random_state=0).fit(X, Y)
    assert mixed.score(X_TEST, Y_TEST) > 0.85
    assert mixed.block_weights_.shape == (2,)
    with pytest.raises(DataError, match="too small"):
        MKLClassifier([Gaussian(5.0)], memory="50KB").fit(X, Y)


def test_weights_and_sparse_rows() -> None:
    weight = np.where(Y < 5, 1.0, 0.0)
    half = MKLClassifier(KERNELS, random_state=0).fit(X, Y, sample_weight=weight)
    assert set(half.predict(X_TEST)) <= set(range(5))
    dense = MKLClassifier(KERNELS, random_state=0, epochs=3).fit(X, Y)
    listed = MKLClassifier(KERNELS, random_state=0, epochs=3).fit(sparse.csr_array(X), Y)
    assert (dense.predict(X_TEST) == listed.predict(sparse.csr_matrix(X_TEST))).mean() > 0.97
    balanced = MKLClassifier(KERNELS, random_state=0, class_weight="balanced").fit(X, Y)
    assert balanced.score(X_TEST, Y_TEST) > 0.88


def test_probabilities() -> None:
    x, y = load_iris(return_X_y=True)
    model = MKLClassifier([Gaussian(1.0), Linear()], loss="log", random_state=0).fit(x, y)
    p = model.predict_proba(x)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p.argmax(axis=1) == y).mean() > 0.95
    assert -np.log(p[np.arange(y.size), y]).mean() < 0.25
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = MKLClassifier().predict_proba


def test_same_seed_same_bits_and_parameters_reach_inside() -> None:
    one, two = (MKLClassifier(KERNELS, random_state=3, epochs=3).fit(X, Y) for _ in range(2))
    assert one.decision_function(X_TEST).tobytes() == two.decision_function(X_TEST).tobytes()
    search = GridSearchCV(
        MKLClassifier([Gaussian(5.0)], penalty=SparseMKL(0.01), epochs=3, random_state=0),
        {"penalty__strength": [0.1, 1e-4]},
    )
    assert search.fit(X[:150], Y[:150]).best_params_ == {"penalty__strength": 1e-4}
    assert clone(one).get_params()["kernels"] is not None


@pytest.mark.parametrize(
    "kernels",
    [KERNELS, [BSpline(zeros=0.9), Linear()], [Nystroem(Gaussian(5.0), 60), Linear()], [Nystroem(Gaussian(5.0), 60)]],
)
def test_a_file_gives_the_same_model(tmp_path: Path, kernels: Any) -> None:
    model = MKLClassifier(kernels[:], random_state=0, epochs=3).fit(X, np.array(list("abcdefghij"))[Y])
    model.save(tmp_path / "model")
    again = spom.load_model(tmp_path / "model")
    assert again.decision_function(X_TEST).tobytes() == model.decision_function(X_TEST).tobytes()
    assert again.predict(X_TEST).tolist() == model.predict(X_TEST).tolist()
    np.testing.assert_array_equal(again.selected_, model.selected_)


def test_a_callback_stops_the_run() -> None:
    class Three:
        seen = 0

        def on_epoch(self, info: dict[str, Any]) -> bool:
            self.seen += 1
            return bool(info["epoch"] == 3)

        def on_end(self, info: dict[str, Any]) -> None:
            assert info["epoch"] == 3

    callback = Three()
    model = MKLClassifier(KERNELS, callbacks=[callback], random_state=0).fit(X, Y)
    assert callback.seen == len(model.history_) == 3


def test_bad_input_has_one_clear_error() -> None:
    eye = np.eye(3)
    with pytest.raises(DataError, match="must be square"):
        MKLClassifier("precomputed").fit([np.ones((3, 2))], [0, 1, 1])
    with pytest.raises(DataError, match="not positive semidefinite"):
        MKLClassifier("precomputed").fit([eye - 2.0], [0, 1, 1])
    with pytest.raises(DataError, match=r"same size; theirs are \[3, 2\]"):
        MKLClassifier("precomputed").fit([eye, np.eye(2)], [0, 1, 1])
    model = MKLClassifier("precomputed", random_state=0).fit([eye, eye], [0, 1, 1])
    with pytest.raises(DataError, match="1 Gram blocks, but the model was fitted with 2"):
        model.predict([eye])
    with pytest.raises(DataError, match="a column for each of the 3"):
        model.predict([eye, eye[:, :2]])
    with pytest.raises(DataError, match="'z' at entry 1, which was not there in fit"):
        MKLClassifier(random_state=0).fit(X[:20], np.array(list("ab") * 10)).score(X[:2], np.array(["a", "z"]))
    with pytest.raises(Unsupported, match="solver must be one of"):
        MKLClassifier(solver="newton").fit(X, Y)
    with pytest.raises(Unsupported, match="takes loss='hinge'"):
        MKLClassifier(loss="log", solver="frank-wolfe").fit(X, Y)
    with pytest.raises(ValueError, match="a kernel must be"):
        MKLClassifier([3]).fit(X, Y)
    with pytest.raises(ValueError, match="precision must be"):
        MKLClassifier(precision="half").fit(X, Y)
