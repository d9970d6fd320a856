"""partial_fit, streams, svmlight files, and what bad input gets."""

from __future__ import annotations

import gzip
import threading
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.preprocessing import scale

from spom import OnlineClassifier, OnlineRegressor
from spom.data import SvmlightFile, read_svmlight
from spom.errors import DataError, Unsupported
from spom.estimators.linear.stream import is_stream
from spom.estimators.training.streams import ahead
from spom.penalties import L1, Box, SquaredL1, SquaredL2

X, Y = scale(load_breast_cancer().data), load_breast_cancer().target
IRIS = scale(load_iris().data), load_iris().target_names[load_iris().target]


def in_blocks(X, y, size=100):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


# --- partial_fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"step": "adagrad"}, {"update": "dual-averaging"}, {"step": 0.05}], ids=str)
def test_partial_fit_is_the_stream(parameters):
    """Block after block by partial_fit is the same run as one stream of these blocks."""
    model = OnlineClassifier(**parameters, epochs=1, shuffle=False)
    streamed = clone(model).fit(in_blocks(X, Y))
    pieces = clone(model)
    for block in in_blocks(X, Y):
        pieces.partial_fit(*block, classes=[0, 1])
    np.testing.assert_allclose(pieces.coef_, streamed.coef_, rtol=1e-9, atol=1e-12)
    assert streamed.score(X, Y) > 0.93


def test_partial_fit_goes_on_after_fit():
    model = OnlineClassifier(random_state=0).fit(X, Y)
    before = model.coef_.copy()
    for _ in range(3):
        model.partial_fit(X, Y)
    assert model.score(X, Y) > 0.95
    assert not (model.coef_ == before).all()
    assert model.n_rounds_ > len(Y)


def test_partial_fit_with_announced_classes():
    data, labels = IRIS
    model = OnlineClassifier(random_state=0)
    for kind in ("setosa", "versicolor", "virginica") * 6:
        some = labels == kind
        model.partial_fit(data[some][:20], labels[some][:20], classes=["virginica", "setosa", "versicolor"])
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.coef_.shape == (3, 4)
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(data, labels, classes=["a", "b"])
    with pytest.raises(ValueError, match="'tulip'"):
        model.partial_fit(data[:2], np.array(["setosa", "tulip"]))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        OnlineClassifier().partial_fit(data, labels)


def test_parameters_may_change_between_blocks():
    model = OnlineClassifier(penalty=L1(1e-4), random_state=0).partial_fit(X, Y, classes=[0, 1])
    dense = np.count_nonzero(model.coef_)
    model.set_params(penalty__strength=0.5)
    for _ in range(5):
        model.partial_fit(X, Y)
    assert np.count_nonzero(model.coef_) < dense


def test_regressor_partial_fit():
    y = X @ np.arange(30.0) + 2.0
    model = OnlineRegressor(penalty=SquaredL2(1e-6))
    for _ in range(30):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.9


# --- streams ------------------------------------------------------------------------------------------


def test_what_is_a_stream():
    assert is_stream("file.svm", None)
    assert is_stream(iter([]), None)
    assert is_stream([(X, Y)], None)
    assert is_stream(((X[:2], Y[:2], np.ones(2)),), None)
    assert not is_stream(X, None)
    assert not is_stream(X.tolist(), None)
    assert not is_stream([(1.0, 2.0)], None)
    assert not is_stream(sparse.csr_matrix(X), None)
    assert not is_stream([(X, Y)], Y)


def test_a_list_gives_epochs_passes_and_an_iterator_one():
    blocks = in_blocks(X, Y)
    once = OnlineClassifier(epochs=5, random_state=0).fit(iter(blocks))
    again = OnlineClassifier(epochs=5, random_state=0).fit(blocks)
    assert once.n_rounds_ == len(Y)
    assert again.n_rounds_ == 5 * len(Y)
    assert again.score(X, Y) > 0.95


class Source:
    """A stream that can be read again, with weights, made while it is read."""

    def __iter__(self):
        for block in in_blocks(X, Y):
            yield (*block, np.ones(len(block[1])))


def test_streams_with_weights_and_frames():
    pd = pytest.importorskip("pandas")
    plain = OnlineClassifier(random_state=0, epochs=2).fit(in_blocks(X, Y))
    assert (OnlineClassifier(random_state=0, epochs=2).fit(Source()).coef_ == plain.coef_).all()
    frames = [(pd.DataFrame(a).rename(columns=str), pd.Series(b)) for a, b in in_blocks(X, Y)]
    model = OnlineClassifier(random_state=0, epochs=2).fit(frames)
    assert (model.coef_ == plain.coef_).all()
    assert model.feature_names_in_[1] == "1"
    twice = OnlineClassifier(random_state=0, epochs=1, class_weight={0: 2.0, 1: 1.0}).fit(in_blocks(X, Y))
    assert (twice.predict(X) == 0).sum() >= (plain.predict(X) == 0).sum()


def test_warm_start_of_a_stream():
    model = OnlineClassifier(epochs=1, warm_start=True, step="sqrt", random_state=0)
    rounds = [model.fit(in_blocks(X, Y)).n_rounds_ for _ in range(3)]
    assert rounds == [len(Y), 2 * len(Y), 3 * len(Y)]


@pytest.fixture
def svmlight(tmp_path):
    path = tmp_path / "cancer.svm"
    dump_svmlight_file(X, np.where(Y == 1, 1, -1), str(path), zero_based=False)
    return path


def test_an_svmlight_file_is_a_stream(svmlight, tmp_path):
    thin = sparse.csr_matrix(X)
    plain = OnlineClassifier(epochs=2, random_state=0).fit([(thin, np.where(Y == 1, 1.0, -1.0))])
    packed = tmp_path / "cancer.svm.gz"
    packed.write_bytes(gzip.compress(svmlight.read_bytes()))
    for source in (svmlight, str(svmlight), packed):
        model = OnlineClassifier(epochs=2, random_state=0).fit(source)
        # The file has 16 digits of each number, so that they differ by a unit in the last place here and there.
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
        assert model.classes_.tolist() == [-1.0, 1.0]
    given = SvmlightFile(svmlight, n_features=30)
    np.testing.assert_allclose(
        OnlineClassifier(epochs=2, random_state=0).fit(given, classes=[-1, 1]).coef_, plain.coef_, rtol=1e-9
    )
    assert not given.looked  # nothing had to be found out
    one = OnlineClassifier(random_state=0).fit(read_svmlight(svmlight, n_features=30, block_rows=200))
    assert one.n_rounds_ == len(Y)
    regression = OnlineRegressor(epochs=20, random_state=0).fit(svmlight)
    assert regression.score(X, np.where(Y == 1, 1, -1)) > 0.4


def test_classes_of_a_stream_are_announced_or_those_of_its_first_block():
    blocks = [(X[Y == 1][:50], Y[Y == 1][:50]), (X[Y == 0][:50], Y[Y == 0][:50])]
    with pytest.raises(ValueError, match="at least two classes"):
        OnlineClassifier().fit(blocks)
    model = OnlineClassifier(random_state=0).fit(blocks, classes=[0, 1])
    assert model.classes_.tolist() == [0, 1]


def test_memory_of_a_long_file_is_flat(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "long.svm"
    rows = []
    for i in range(500):
        at = np.sort(rng.choice(np.arange(1, 1001), 30, replace=False))
        rows.append(b"%d " % (1 if i % 2 else -1) + b" ".join(b"%d:%.3f" % (j, rng.random()) for j in at))
    part = b"\n".join(rows) + b"\n"
    model = OnlineClassifier(epochs=1, random_state=0)
    peaks = []
    for count in (150, 450):
        path.write_bytes(part * count)
        model.fit(path)
        tracemalloc.start()
        model.fit(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # three times the rows; the thread that reads ahead makes the peak vary


# --- bad input ----------------------------------------------------------------------------------------


def fitted_state(model):
    return {k: (v.copy() if isinstance(v, np.ndarray) else v) for k, v in vars(model).items()}


BAD = [
    ("nan", lambda: (np.where(np.arange(30) == 3, np.nan, X), Y), "NaN"),
    ("infinite", lambda: (np.where(np.arange(30) == 3, np.inf, X), Y), "infinity"),
    ("labels", lambda: (X, np.zeros(len(Y))), "at least two classes"),
    ("continuous", lambda: (X, np.linspace(0, 1, len(Y))), "Unknown label type"),
    ("length", lambda: (X, Y[:-1]), "one target per row"),
    ("empty", lambda: (X[:0], Y[:0]), "0 sample"),
    ("words", lambda: (np.array([["a"] * 30] * len(Y)), Y), "could not convert string"),
    ("missing labels", lambda: (X, np.where(Y == 1, np.nan, 0.0)), "NaN"),
]


@pytest.mark.parametrize(("make", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_bad_data_is_one_error_and_loses_nothing(make, message):
    model = OnlineClassifier(random_state=0).fit(X, Y)
    before = fitted_state(model)
    bad_X, bad_y = make()
    with pytest.raises(ValueError, match=message):
        model.fit(bad_X, bad_y)
    after = vars(model)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[k], after[k]) for k in before if isinstance(before[k], np.ndarray))
    assert model.score(X, Y) > 0.95


def test_bad_blocks_lose_nothing():
    model = OnlineClassifier(random_state=0).partial_fit(X, Y, classes=[0, 1])
    before = fitted_state(model)
    for block, message in (
        ((X[:, :5], Y), "5 features"),
        ((X * np.nan, Y), "NaN"),
        ((X, Y + 5), "not among the classes"),
        ((X, Y[:3]), "one target per row"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(*block)
        assert all(np.array_equal(before[k], getattr(model, k)) for k in ("coef_", "intercept_", "classes_"))
        assert model._resume is before["_resume"]
    with pytest.raises(ValueError, match="Negative values"):
        model.partial_fit(X, Y, sample_weight=np.full(len(Y), -1.0))
    with pytest.raises(ValueError, match="5 features"):
        OnlineClassifier().fit([(X, Y), (X[:, :5], Y)])
    with pytest.raises(ValueError, match="is a ndarray"):
        OnlineClassifier().fit(iter([X]), classes=[0, 1])
    with pytest.raises(DataError, match="no blocks"):
        OnlineClassifier().fit(iter([]), classes=[0, 1])
    with pytest.raises(ValueError, match="balanced"):
        OnlineClassifier(class_weight="balanced").fit([(X, Y)])


def test_a_malformed_line_names_file_and_line(svmlight):
    model = OnlineClassifier(random_state=0).fit(X, Y)
    before = model.coef_.copy()
    lines = svmlight.read_bytes().split(b"\n")
    lines[41] = b"1 2:0.5 x:3"
    svmlight.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"cancer.svm, line 42: expected a feature index.*'x:3'"):
        model.fit(svmlight)
    assert (model.coef_ == before).all()
    with pytest.raises(DataError, match="no such file"):
        model.fit("nowhere.svm")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "l7"}, "unknown penalty 'l7'; available"),
        ({"penalty": 3}, "penalty must be an instance"),
        ({"penalty": L1}, "penalty must be an instance"),
        ({"loss": "squared"}, "loss for regression"),
        ({"loss": "l2"}, "unknown loss"),
        ({"step": "fast"}, "unknown step"),
        ({"step": -1.0}, "eta0"),
        ({"update": "magic"}, "unknown update"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": 2.5}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"output": "best"}, "unknown output"),
        ({"mirror": "p-norm", "penalty": Box(-1.0, 1.0), "step": 0.1}, "no known closed form"),
        ({"early_stopping": True, "validation_fraction": 2.0}, "validation_fraction"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight must be finite and >= 0"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        OnlineClassifier(**parameters).fit(X, Y)


def test_a_penalty_without_a_lazy_update_is_refused_for_wide_sparse_data():
    wide = sparse.random(200, 50_000, density=1e-4, format="csr", random_state=0)
    y = np.arange(200) % 2
    with pytest.raises(Unsupported, match="no lazy update"):
        OnlineClassifier(penalty=SquaredL1(1e-3)).fit(wide, y)
    with pytest.raises(ValueError, match="loss for classification"):
        OnlineRegressor(loss="hinge").fit(X, Y)
    with pytest.raises(Unsupported, match="early_stopping"):
        OnlineClassifier(early_stopping=True).fit([(X, Y)])


def test_reading_ahead_forwards_errors_and_stops():
    def items():
        yield from range(3)
        raise DataError("broken")

    found = ahead(items())
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="broken"):
        next(found)
    count = threading.active_count()
    endless = ahead(iter(int, 1))
    next(endless)
    endless.close()
    assert threading.active_count() == count
