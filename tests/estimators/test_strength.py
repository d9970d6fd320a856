"""`penalty="auto"`: what it chooses, stores and warns of; scikit-learn and least squares are the oracles."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from spom import OnlineClassifier, OnlineRegressor, ProximalClassifier, ProximalRegressor
from spom.errors import DataError, Unsupported
from spom.estimators.checking import merged
from spom.estimators.linear.leaving_out import errors_left_out
from spom.estimators.linear.scaling import common
from spom.estimators.linear.strength import Examples, Judges, held_out
from spom.losses import Logistic, PowerHinge
from spom.penalties import L1, SquaredL2, Zero

RNG = np.random.default_rng(3)
X = RNG.standard_normal((240, 8))
SCORE = X[:, :3] @ [2.0, -1.0, 1.0]
Y = SCORE + 0.5 * RNG.standard_normal(240) + 4.0
TWO = np.where(SCORE + 0.5 * RNG.standard_normal(240) > 0, "yes", "no")
THREE = np.array(["low", "mid", "top"])[np.digitize(Y, [3.0, 5.0])]
# Units from millionths to millions, far from zero.
UNITS = 10.0 ** np.array([-6, -4, -2, 0, 1, 3, 5, 6])
BAD = (X + np.arange(8.0)) * UNITS
CLASSIFIERS = [OnlineClassifier(random_state=0), ProximalClassifier()]
REGRESSORS = [OnlineRegressor(random_state=0), ProximalRegressor()]


def named(models):
    return pytest.mark.parametrize("model", models, ids=lambda model: type(model).__name__)


def target(model):
    return Y if isinstance(model, OnlineRegressor | ProximalRegressor) else TWO


@named(CLASSIFIERS + REGRESSORS)
def test_the_chosen_penalty_is_stored_and_gives_the_same_model(model):
    chosen = clone(model).fit(X, target(model))
    assert chosen.penalty == "auto"
    assert chosen.penalty_.strength > 0.0
    again = clone(model).set_params(penalty=chosen.penalty_, scale=True)
    if isinstance(model, OnlineRegressor):
        # The choice knows the optimum; with a penalty object the passes have to reach it.
        again.set_params(epochs=300)
    again.fit(X, target(model))
    assert repr(again.penalty_) == repr(chosen.penalty_)
    np.testing.assert_allclose(again.coef_, chosen.coef_, rtol=1e-3, atol=1e-3)


@named(REGRESSORS)
def test_the_choice_is_near_the_best_of_cross_validation(model):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((120, 80))
    y = wide @ rng.standard_normal(80) + 8.0 * rng.standard_normal(120)
    held = rng.standard_normal((2000, 80))
    best = RidgeCV(np.geomspace(1e-2, 1e4, 25)).fit(wide, y).predict(held)
    none = LinearRegression().fit(wide, y).predict(held)
    ours = clone(model).fit(wide, y).predict(held)
    assert np.mean((ours - best) ** 2) < 0.5 * np.mean((none - best) ** 2)


@named(REGRESSORS)
def test_none_is_no_penalty(model):
    fitted = clone(model).set_params(penalty=None).fit(X, Y)
    assert isinstance(fitted.penalty_, Zero)
    np.testing.assert_allclose(fitted.coef_, LinearRegression().fit(X, Y).coef_, atol=0.05)


@named(CLASSIFIERS)
def test_none_is_no_penalty_for_classes_and_has_no_strength(model):
    fitted = clone(model).set_params(penalty=None).fit(X, TWO)
    assert isinstance(fitted.penalty_, Zero)
    with pytest.raises(ValueError, match="penalty=None has no strength"):
        clone(model).set_params(penalty=None).set_params(penalty__strength=1.0)


@named(CLASSIFIERS + REGRESSORS)
def test_grid_search_over_the_strength_from_the_default_estimator(model):
    search = GridSearchCV(clone(model), {"penalty__strength": [1e-3, 100.0]}, cv=2).fit(BAD, target(model))
    assert search.best_params_ == {"penalty__strength": 1e-3}
    assert repr(search.best_estimator_.penalty_) == repr(SquaredL2(1e-3))


@named(CLASSIFIERS + REGRESSORS)
def test_badly_scaled_columns_learn_as_standardised_ones(model):
    # More than 1,000 rows: fewer are put in an order of their bytes, so that other units hold out other rows.
    rng = np.random.default_rng(5)
    plain = rng.standard_normal((1100, 8))
    score = plain[:, :3] @ [2.0, -1.0, 1.0] + 0.5 * rng.standard_normal(1100)
    y = score + 4.0 if target(model) is Y else np.where(score > 0, "yes", "no")
    rows = (plain + np.arange(8.0)) * UNITS
    scaler = StandardScaler().fit(rows)
    raw, scaled = clone(model).fit(rows, y), clone(model).fit(scaler.transform(rows), y)
    assert repr(raw.penalty_) == repr(scaled.penalty_)
    given = raw.predict if target(model) is Y else raw.decision_function
    oracle = scaled.predict if target(model) is Y else scaled.decision_function
    np.testing.assert_allclose(given(rows), oracle(scaler.transform(rows)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows @ np.ravel(raw.coef_) + raw.intercept_, given(rows), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(raw.coef_ * scaler.scale_, scaled.coef_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(raw.scale_, scaler.scale_, rtol=1e-9)


@named(CLASSIFIERS + REGRESSORS)
@pytest.mark.parametrize("intercept", [True, False])
def test_columns_that_are_often_zero_are_measured_where_they_are_not(model, intercept):
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((400, 3)) * (rng.random((400, 3)) < [1.0, 0.5, 0.05])
    y = rows[:, 0] if target(model) is Y else np.where(rows[:, 0] > 0, "yes", "no")
    size = rows.std(axis=0) if intercept else np.sqrt((rows**2).mean(axis=0))
    if target(model) is not Y:
        size = size * np.sqrt(400 / np.count_nonzero(rows, axis=0))
    found = clone(model).set_params(fit_intercept=intercept, scale=True).fit(rows, y)
    np.testing.assert_allclose(found.scale_, size, rtol=1e-9)


@named(CLASSIFIERS + REGRESSORS)
def test_sparse_input_stays_sparse(model, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("made dense")

    large = sparse.csr_matrix(np.linspace(1.0, 2000.0, 200)[:, None])
    words = sparse.random(200, 5000, density=0.002, random_state=0, format="csr")
    rows = sparse.csr_matrix(sparse.hstack([large, words]))
    y = np.linspace(-1.0, 1.0, 200) if target(model) is Y else np.repeat(["a", "b"], 100)
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, refuse)
    fitted = clone(model).fit(rows, y)
    assert fitted.score(rows, y) > 0.8
    # The column of large numbers is scaled, none is centred.
    assert fitted.scale_[0] > 100.0


@named(CLASSIFIERS + REGRESSORS)
def test_all_zero_weights_warn_and_say_what_to_do(model):
    with pytest.warns(UserWarning, match=r"every weight is zero: L1\(.*lower its strength, or use penalty='auto'"):
        fitted = clone(model).set_params(penalty=L1(1e3)).fit(X, target(model))
    assert not np.any(fitted.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.any(clone(model).fit(X, target(model)).coef_)


@named(CLASSIFIERS + REGRESSORS)
def test_same_seed_same_bits(model):
    y = THREE if target(model) is TWO else Y
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    assert repr(first.penalty_) == repr(second.penalty_)
    assert first.coef_.tobytes() == second.coef_.tobytes()
    assert np.asarray(first.intercept_).tobytes() == np.asarray(second.intercept_).tobytes()


@named(CLASSIFIERS)
@pytest.mark.parametrize("rare", [1, 2])
def test_classes_that_the_held_out_rows_lack(model, rare):
    y = np.array(["common"] * 240, dtype=object)
    y[:rare] = "rare"
    fitted = clone(model).fit(X + 5.0 * (y == "rare")[:, None], y)
    assert list(fitted.classes_) == ["common", "rare"]
    assert np.isfinite(fitted.coef_).all()
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_held_out_rows_leave_a_row_of_each_class():
    y = np.r_[np.zeros(100), np.ones(1), np.full(40, 2.0)]
    for seed in range(20):
        parts = held_out(Examples(np.zeros((141, 1)), y, None, 3, True), seed)
        assert len(parts) == 6
        assert np.unique(np.concatenate(parts)).size == sum(part.size for part in parts)
        for held in parts:
            assert 15 <= held.size <= 22
            assert 100 not in held
            assert {0.0, 2.0} <= set(np.delete(y, held))


@pytest.mark.parametrize(("rows", "parts"), [(9, 0), (10, 5), (100, 6), (500, 2), (1000, 1), (100_000, 1)])
def test_fewer_rows_are_held_out_in_more_parts(rows, parts):
    found = held_out(Examples(np.zeros((rows, 1)), np.arange(rows) % 2.0, None, None, True), 0)
    assert len(found) == parts
    assert all(part.size <= 10_000 for part in found)


@named(CLASSIFIERS + REGRESSORS)
def test_constant_columns_beside_others_have_no_say(model):
    y = target(model)
    plain = clone(model).fit(X, y)
    fitted = clone(model).fit(np.column_stack([X, np.full(240, 1e9 / 3.0), np.zeros(240)]), y)
    assert np.ravel(fitted.coef_)[8:].tolist() == [0.0, 0.0]
    if y is TWO:
        assert np.array_equal(
            fitted.predict(np.column_stack([X, np.full(240, 1e9 / 3.0), np.zeros(240)])), plain.predict(X)
        )


@named(CLASSIFIERS + REGRESSORS)
def test_constant_columns_alone_predict_a_constant_and_warn(model):
    y = np.repeat([1.0, 2.0], [60, 180]) if target(model) is Y else np.repeat(["a", "b"], [60, 180])
    with pytest.warns(UserWarning, match="every weight is zero: the features do not predict"):
        fitted = clone(model).fit(np.full((240, 3), 7.0), y)
    found = fitted.predict(np.full((2, 3), 7.0))
    if target(model) is Y:
        np.testing.assert_allclose(found, y.mean(), atol=0.05)
    else:
        assert list(found) == ["b", "b"]


@named(CLASSIFIERS + REGRESSORS)
def test_a_name_alone_gets_a_strength(model):
    fitted = clone(model).set_params(penalty="l1").fit(X, target(model))
    assert isinstance(fitted.penalty_, L1)
    assert 0.0 < fitted.penalty_.strength < 1.0
    assert {0, 1, 2} <= set(np.flatnonzero(np.ravel(fitted.coef_)))


def test_a_name_on_a_stream_needs_an_object():
    with pytest.raises(Unsupported, match="give an object, such as L1"):
        OnlineClassifier(penalty="l1").fit(iter([(X, TWO)]))


@named(CLASSIFIERS + REGRESSORS)
def test_a_change_of_units_changes_neither_held_out_rows_nor_the_model(model):
    units = 2.0 ** np.array([-20, -7, -1, 0, 1, 4, 12, 30])
    one = clone(model).fit(X, target(model))
    two = clone(model).fit(X * units, target(model))
    # Powers of two round nothing: all but the units is the same to the bit.
    assert repr(one.penalty_) == repr(two.penalty_)
    np.testing.assert_array_equal(one.coef_, two.coef_ * units)


def test_few_rows_are_sorted_by_their_numbers_whatever_holds_them():
    rng = np.random.default_rng(0)
    rows = rng.integers(-2, 3, (200, 4)).astype(float)
    y = rng.integers(0, 2, 200).astype(float)
    expected = sorted({(label, *row) for label, row in zip(y.tolist(), rows.tolist(), strict=True)})
    for kind in (np.asarray, sparse.csr_matrix):
        found, labels, weight = merged(kind(rows), y, None)
        found = found.toarray() if sparse.issparse(found) else found
        assert [(b, *r) for b, r in zip(labels.tolist(), found.tolist(), strict=True)] == expected
        assert weight.sum() == 200


@named(REGRESSORS)
def test_targets_far_from_zero_are_learnt_as_those_near_it(model):
    near, far = clone(model).fit(X, Y), clone(model).fit(X + 1e3, Y + 1e8)
    assert near.score(X, Y) > 0.9
    # At 1e8 a target has eight digits left, which may tip the choice of a strength.
    assert far.score(X + 1e3, Y + 1e8) == pytest.approx(near.score(X, Y), abs=1e-2)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=0.2)


def test_a_warm_start_knows_the_mean_of_the_targets():
    model = OnlineRegressor(warm_start=True, random_state=0, epochs=3)
    first = clone(model).fit(X, Y + 1e6)
    before = first.score(X, Y + 1e6)
    assert first.fit(X, Y + 1e6).score(X, Y + 1e6) == pytest.approx(before, abs=1e-2)


@pytest.mark.parametrize("penalty", ["auto", SquaredL2(0.1)])
def test_more_passes_over_many_dense_rows_of_several_classes(penalty):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1001, 3))
    three, two = np.arange(1001) % 3, np.arange(1001) % 2

    def passes(rows, y, **params):
        return len(OnlineClassifier(penalty=penalty, random_state=0, **params).fit(rows, y).history_.loss)

    assert passes(rows, three) == 20
    assert passes(rows, three, epochs=3) == 3
    assert passes(rows[1:], three[1:]) == passes(rows, two) == passes(sparse.csr_matrix(rows), three) == 10
    assert len(OnlineRegressor(penalty=SquaredL2(0.1)).fit(rows, rows[:, 0]).history_.loss) == 10
    with pytest.raises(ValueError, match='epochs must be a whole number >= 1, or "auto"'):
        OnlineClassifier(epochs="some").fit(rows, two)


def test_weights_that_leave_nothing_to_learn_from_are_an_error():
    y = np.arange(1200.0) % 2
    weight = np.zeros(1200)
    (held,) = held_out(Examples(np.zeros((1200, 1)), y, None, None, True), 0)
    weight[held] = 1.0
    judges = Judges(Examples(np.ones((1200, 1)), 2.0 * y - 1.0, weight, None, True), [held])
    with pytest.raises(DataError, match="give more rows a weight"):
        next(judges.scores(None, Logistic(), SquaredL2(1.0), (1.0,), 0))


# --- one scale for all columns --------------------------------------------------------------------------


def alike(rows, noise=36):
    """Draw rows of four informative columns, and of many uninformative ones that vary a sixth as much."""
    rng = np.random.default_rng(11)
    told = rng.standard_normal((rows, 4))
    y = np.where(told.sum(axis=1) + 0.3 * rng.standard_normal(rows) > 0, "yes", "no")
    return np.hstack([told, rng.standard_normal((rows, noise)) / 6.0]) + 5.0, y


@named(CLASSIFIERS)
def test_few_rows_of_columns_that_are_alike_get_one_scale_where_it_is_better(model):
    rows, y = alike(60)
    held, gold = (part[60:] for part in alike(1060))
    found = clone(model).fit(rows, y)
    np.testing.assert_allclose(found.scale_, np.sqrt(rows.var(axis=0).mean()), rtol=1e-9)
    np.testing.assert_allclose(held @ found.coef_[0] + found.intercept_, found.decision_function(held), rtol=1e-9)
    scaler = StandardScaler().fit(rows)
    plain = clone(model).fit(scaler.transform(rows), y)
    assert found.score(held, gold) > plain.score(scaler.transform(held), gold)


@named(CLASSIFIERS)
def test_many_rows_given_scales_and_other_penalties_keep_a_scale_for_each_column(model):
    rows, y = alike(60)
    for params in ({"scale": True}, {"penalty": "l1"}, {"fit_intercept": False}):
        assert np.ptp(clone(model).set_params(**params).fit(rows, y).scale_) > 0.0
    assert np.ptp(clone(model).fit(*alike(1100)).scale_) > 0.0


@named(CLASSIFIERS)
def test_columns_of_different_units_keep_their_own_scales(model):
    rows, y = alike(60)
    units = 2.0 ** np.where(np.arange(40) % 2, 7.0, 0.0)
    assert np.ptp(clone(model).fit(rows * units, y).scale_) > 0.0


@named(REGRESSORS)
def test_real_targets_keep_a_scale_for_each_column(model):
    rows, y = alike(60)
    assert np.ptp(clone(model).fit(rows, np.where(y == "yes", 1.0, 0.0)).scale_) > 0.0


def topics(rows, share=0.5):
    """Draw texts of two classes: 60 frequent words that say nothing, and two of 300 rare words of the row's class."""
    rng = np.random.default_rng(12)
    y = np.arange(rows) < share * rows
    X = np.hstack([rng.random((rows, 60)) < 0.5, np.zeros((rows, 600))])
    for i in range(rows):
        X[i, 60 + 300 * y[i] + rng.integers(0, 300, 2)] = 1.0
    return sparse.csr_matrix(X), y


@named(CLASSIFIERS)
def test_two_frequent_classes_of_texts_may_get_larger_weights_of_rare_words(model):
    X, y = topics(1200)
    rows, held, labels, gold = X[::3], X[1::3], y[::3], y[1::3]
    found, plain = clone(model).fit(rows, labels), clone(model).set_params(scale=False).fit(rows, labels)
    size = np.sqrt(np.asarray(rows.multiply(rows).mean(axis=0))).reshape(-1)
    np.testing.assert_allclose(found.scale_, np.where(size > 0.0, np.sqrt(size), 1.0), rtol=1e-9)
    np.testing.assert_allclose(held @ found.coef_[0] + found.intercept_, found.decision_function(held), rtol=1e-9)
    assert found.score(held, gold) > plain.score(held, gold)


@named(CLASSIFIERS)
def test_rare_and_several_classes_given_scales_and_other_penalties_keep_the_size_of_words(model):
    X, y = topics(500)
    assert clone(model).fit(X, y).scale_ is not None
    for params in ({"scale": True}, {"penalty": "l1"}, {"scale": False}):
        assert clone(model).set_params(**params).fit(X, y).scale_ is None
    assert clone(model).fit(X, y.astype(int) + (np.arange(500) % 4 == 0)).scale_ is None
    assert clone(model).fit(*topics(500, share=0.2)).scale_ is None
    assert clone(model).fit(X[:, ::3], y).scale_ is None


def test_one_scale_ignores_constant_columns_and_rows_without_weight():
    rows = np.array([[0.0, 3.0, 0.0], [2.0, 3.0, 4.0], [1e6, 3.0, 0.0]])
    found = common(rows, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(found.scale, np.sqrt((1.0 + 4.0) / 2.0))
    np.testing.assert_allclose(found.apply(rows)[:2, 1], 0.0)
    assert common(rows, None) is None
    assert common(rows[:, :2], np.array([1.0, 1.0, 0.0])) is None
    assert common(sparse.csr_matrix(rows), None) is None


@pytest.mark.parametrize(("rows", "columns"), [(30, 5), (8, 12)])
@pytest.mark.parametrize("intercept", [True, False])
def test_errors_of_rows_left_out_are_those_of_models_without_them(rows, columns, intercept):
    rng = np.random.default_rng(rows)
    A, y, weight = rng.standard_normal((rows, columns)), rng.standard_normal(rows) + 3.0, rng.uniform(0.5, 2.0, rows)
    strengths = np.array([0.01, 0.5])
    found = errors_left_out(Examples(A, y, weight, None, intercept), strengths, np.arange(rows))
    with_one = np.column_stack([A, np.ones(rows)]) if intercept else A
    for strength, errors in zip(strengths, found, strict=True):
        ridge = np.diag([strength] * columns + [0.0] * intercept)
        for i in range(rows):
            share = weight / weight.sum()
            share[i] = 0.0
            theta = np.linalg.solve(with_one.T @ (share[:, None] * with_one) + ridge, with_one.T @ (share * y))
            assert errors[i] == pytest.approx(y[i] - with_one[i] @ theta, abs=1e-9)


@named(REGRESSORS)
def test_least_squares_leave_out_each_row_where_data_are_dense(model):
    chosen = clone(model).fit(X, Y)
    best = RidgeCV(np.geomspace(1e-3, 1e3, 13)).fit(StandardScaler().fit_transform(X), Y)
    assert chosen.penalty_.strength * len(Y) < 30.0 * max(best.alpha_, 1.0)
    # Nearly collinear columns want far less than the least strength of the path of held-out rows.
    rng = np.random.default_rng(0)
    smooth = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 40)) + 1e-3 * rng.standard_normal((150, 40))
    y = smooth[:, 0] - smooth[:, 1] + (smooth[:, 2] - smooth[:, 3] + smooth[:, 4]) * 0.5
    assert (
        clone(model).fit(smooth, y).penalty_.strength
        < 1e-3 * clone(model).fit(smooth, RNG.permutation(y)).penalty_.strength
    )


@named(CLASSIFIERS)
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("penalty", ["auto", "l1", "group-lasso"])
def test_columns_without_entries_change_neither_the_choice_nor_the_weights(model, y, penalty):
    rng = np.random.default_rng(4)
    words = sparse.csr_matrix(np.where(rng.random((240, 40)) < 0.2, np.abs(np.tile(X, 5)), 0.0))
    empty = sparse.csr_matrix((240, 260))
    model = clone(model).set_params(penalty=penalty)
    few = model.fit(sparse.hstack([words, empty]).tocsr(), y)
    strength, loss, coef = few.penalty_.strength, repr(few.loss_), few.coef_
    # Empty columns in front: the others are found at their own places.
    many = clone(model).fit(sparse.hstack([empty, empty, words, empty]).tocsr(), y)
    assert (many.penalty_.strength, repr(many.loss_)) == (strength, loss)
    np.testing.assert_allclose(many.coef_[:, 520:560], coef[:, :40], rtol=1e-2, atol=1e-3)
    assert not many.coef_[:, :520].any()
    assert not many.coef_[:, 560:].any()


def test_online_passes_end_at_the_optimum_where_columns_are_nearly_collinear():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((80, 3)) @ rng.standard_normal((3, 40)) + 1e-3 * rng.standard_normal((80, 40))
    y = x @ rng.standard_normal(40) + 0.01 * rng.standard_normal(80)
    online, batch = OnlineRegressor(random_state=0).fit(x, y), ProximalRegressor(tol=1e-10).fit(x, y)
    assert repr(online.penalty_) == repr(batch.penalty_)
    np.testing.assert_allclose(online.predict(x), batch.predict(x), rtol=1e-4, atol=1e-4 * y.std())


@named(CLASSIFIERS)
def test_two_classes_take_the_squared_hinge_if_features_outnumber_rows_and_one_is_rare(model):
    rng = np.random.default_rng(0)
    # Each row has one of 600 words, which is always of the same class.
    words = rng.integers(0, 600, 500)
    X, rare = sparse.csr_matrix((np.ones(500), (np.arange(500), words)), shape=(500, 600)), words % 8 == 0
    found = clone(model).fit(X, rare)
    assert isinstance(found.loss_, PowerHinge)
    shares = found.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares.argmax(axis=1), found.predict(X))
    few = sparse.random(500, 100, 0.1, "csr", random_state=0)
    for params, rows, y in (({"loss": "logistic"}, X, rare), ({}, few, rare), ({}, X, words % 2)):
        assert isinstance(clone(model).set_params(**params).fit(rows, y).loss_, Logistic)


@named(CLASSIFIERS)
@pytest.mark.parametrize("penalty", ["auto", "l1", "l2"])
def test_columns_without_entries_change_nothing(model, penalty):
    few = sparse.random(90, 40, 0.2, "csr", random_state=0)
    wide = sparse.csr_matrix((few.data, 3 * few.indices + 1, few.indptr), shape=(90, 130))
    labels = few @ np.sin(np.arange(40.0)) > 0.0
    one, other = (clone(model).set_params(penalty=penalty).fit(rows, labels) for rows in (few, wide))
    for _ in range(2):
        assert other.scale_ is None
        np.testing.assert_allclose(other.coef_[:, 1:121:3], one.coef_, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(np.delete(other.coef_, np.s_[1:121:3], axis=1), 0.0)
        np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=1e-9, atol=1e-9)
        one, other = (m.set_params(warm_start=True).fit(x, labels) for m, x in ((one, few), (other, wide)))


def test_weights_say_whether_a_class_is_rare():
    X, y = sparse.csr_matrix((40, 60)), np.where(np.arange(40) < 10, 1.0, -1.0)
    model = OnlineClassifier()
    model.loss_ = Logistic()
    weight = np.where(y > 0.0, 3.0, 1.0)
    for weights, kind in ((None, PowerHinge), (weight, Logistic)):
        (loss,) = model._losses(Examples(X, y, weights, None, True))
        assert isinstance(loss, kind)
