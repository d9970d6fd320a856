"""Model files: what comes back, what is refused, and what a failure leaves behind."""

from __future__ import annotations

import errno
import json
import os
import pickle
import runpy
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import spom
from spom import penalties as P
from spom.core import atomic, registry
from spom.core import container as files
from spom.data import Treebank
from spom.data.generated import ingredients
from spom.errors import Unsupported
from spom.losses import PowerHinge
from spom.mirror import PNorm
from spom.models import read_header, replacing
from spom.models.loading import Encoder, decode
from spom.solvers.steps import InverseSqrt

FIXTURES = Path(__file__).parent / "fixtures"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 8))
Y = np.where(X[:, 0] - X[:, 3] > 0.3, "größer", np.where(X[:, 1] > 0, "mid", "low"))
T = X[:, 0] * 2 - X[:, 5] + 1

MODELS: list[tuple[Any, Any]] = [
    (spom.OnlineClassifier(random_state=0, epochs=3), Y),
    (spom.OnlineClassifier("hinge", penalty=P.L1(0.1), random_state=0), Y == "mid"),
    (
        spom.OnlineClassifier(PowerHinge(1.5), mirror=PNorm(1.5), step=InverseSqrt(0.1), random_state=0),
        (X[:, 0] > 0) * 7,
    ),
    (spom.OnlineClassifier(penalty=P.GroupLasso(0.02, groups=[np.array([0, 1]), np.array([3])]), random_state=0), Y),
    (spom.OnlineClassifier("logistic", class_weight={0: 1.0, 1: 2.5}, random_state=0), (X[:, 0] > 0).astype(int)),
    (spom.ProximalClassifier(penalty=P.SparseGroupLasso(0.05, groups=2)), Y.astype(object)),
    (spom.ProximalClassifierCV(n_strengths=3, cv=2), X[:, 0] > 0),
    (spom.OnlineRegressor(penalty=P.Sum([P.L1(0.01), P.SquaredL2(0.1)]), random_state=np.random.RandomState(0)), T),
    (spom.OnlineRegressor(fit_intercept=False, random_state=0), T),
    (spom.ProximalRegressor(penalty=P.Box(np.full(8, -1.0), np.full(8, np.inf))), T),
    (spom.ProximalRegressorCV(n_strengths=3, cv=2), T),
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.spom"
    spom.OnlineClassifier(random_state=0).fit(X, Y).save(path)
    return path


@pytest.mark.parametrize(("estimator", "y"), MODELS, ids=lambda v: type(v).__name__)
def test_a_model_comes_back(estimator: Any, y: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    fitted = estimator.fit(X, y)
    fitted.save(path)
    again = spom.load_model(path)
    assert type(again) is type(fitted)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    np.testing.assert_array_equal(again.selected_, fitted.selected_)
    np.testing.assert_array_equal(again.block_weights_, fitted.block_weights_)
    assert np.asarray(again.intercept_).shape == np.asarray(fitted.intercept_).shape
    if hasattr(fitted, "classes_"):
        assert again.classes_.dtype == fitted.classes_.dtype
        np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    kept = {k: v for k, v in fitted.get_params(deep=False).items() if k not in ("random_state", "verbose")}
    for name, value in kept.items():
        assert repr(again.get_params(deep=False)[name]) == repr(value), name
    # A loaded model can be saved, pickled and fitted again as any other.
    again.save(tmp_path / "twice")
    assert (tmp_path / "twice").read_bytes() == path.read_bytes()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).predict(X), fitted.predict(X))
    again.fit(X, y)


def test_learning_goes_on_from_a_loaded_model(model: Path) -> None:
    again = spom.load_model(model)
    before = again.coef_.copy()
    again.partial_fit(X, Y)
    assert again.n_rounds_ > 1
    assert not np.array_equal(before, again.coef_)
    np.testing.assert_array_equal(spom.load_model(model).coef_, before)  # the file is not written to


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        spom.OnlineClassifier(random_state=3).fit(X, Y).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", ["kernels", "tagger", "parser"])
def test_the_same_run_of_any_estimator_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    make = runpy.run_path(str(FIXTURES / "make.py"))[kind]
    for name in "ab":
        make()[0].save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_pruned_tagger_tells_no_times(tmp_path: Path) -> None:
    columns = ingredients(60)
    for name in "ab":
        tagger = spom.SequenceTagger(["w[0]", "w[1]", "shelf[0]"], prune=2, random_state=0, verbose=0, epochs=2)
        tagger.fit(columns).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert "1 of 3 templates dropped" in str(spom.load_model(tmp_path / "a").pruning_)


def test_zero_weights_take_no_room(tmp_path: Path) -> None:
    wide = sparse.random(50, 100_000, density=1e-3, format="csr", rng=np.random.default_rng(0))
    fitted = spom.OnlineClassifier(penalty=P.L1(0.02), random_state=0).fit(wide, np.arange(50) % 2)
    fitted.save(tmp_path / "dense")
    assert fitted.coef_.size == 100_000
    assert (tmp_path / "dense").stat().st_size < 4000 + 12 * np.count_nonzero(fitted.coef_)
    np.testing.assert_array_equal(spom.load_model(tmp_path / "dense").coef_, fitted.coef_)
    fitted.sparsify().save(tmp_path / "sparse")
    again = spom.load_model(tmp_path / "sparse")
    assert sparse.issparse(again.coef_)
    np.testing.assert_array_equal(again.predict(wide), fitted.predict(wide))


def test_feature_names_are_kept(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"col {i} ß" for i in range(8)])
    spom.OnlineClassifier(random_state=0).fit(frame, Y).save(tmp_path / "m")
    again = spom.load_model(tmp_path / "m")
    assert list(again.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[frame.columns[::-1]])


def test_other_readers_open_the_file(model: Path) -> None:
    _, ours = files.read_file(model, verify=True)
    theirs = safetensors.numpy.load_file(model)
    assert sorted(ours) == sorted(theirs)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])
        assert array.ctypes.data % array.itemsize == 0
        assert array.flags.writeable


def test_the_header_tells_without_the_arrays(model: Path) -> None:
    header = read_header(model)
    assert (header.format, header.spom, header.estimator) == (files.FORMAT, spom.__version__, "OnlineClassifier")
    assert header.model["training"]["weights"] == 24
    assert header.size == model.stat().st_size


# --- writing ----------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_model_before(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = model.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        spom.load_model(model).save(model)
    assert model.read_bytes() == before
    assert [p.name for p in model.parent.iterdir()] == [model.name]


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    with pytest.raises(TypeError), replacing(link) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]  # wrong on purpose
    assert target.read_text() == "before"
    with replacing(link) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    with replacing("/dev/null") as file:
        file.write(b"x")
    for bad in (tmp_path, tmp_path / "no" / "where"):
        with pytest.raises(OSError, match=r"folder"), replacing(bad):
            pass


# --- values -----------------------------------------------------------------------------------------------

leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_values_come_back(value: Any) -> None:
    arrays: dict[str, Any] = {}
    text = json.dumps(Encoder(arrays).encode(value, "x"), allow_nan=False)
    assert decode(json.loads(text), arrays) == value


@pytest.mark.parametrize("kind", ["penalty", "loss", "mirror"])
def test_every_operator_comes_back(kind: str) -> None:
    for entry in registry.entries(kind):
        for example in entry.examples():
            arrays: dict[str, Any] = {}
            text = json.dumps(Encoder(arrays).encode(example, "x"), allow_nan=False)
            again = decode(json.loads(text), arrays)
            assert type(again) is type(example)
            assert repr(again) == repr(example)


def test_arrays_of_any_kind_come_back() -> None:
    for value in (
        np.array(["a", "", "ß"]),
        np.array(["a", "b"], dtype=object),
        np.array([1, "a"], dtype=object),
        np.arange(6).reshape(2, 3),
        np.array(True),
        np.zeros((0, 3)),
        np.array([1.5], dtype=np.float32),
    ):
        arrays: dict[str, Any] = {}
        again = decode(json.loads(json.dumps(Encoder(arrays).encode(value, "x"))), arrays)
        np.testing.assert_array_equal(again, value)
        assert again.dtype == value.dtype
    with pytest.raises(Unsupported, match="cannot hold x"):
        Encoder({}).encode(np.array(["2020-01-01"], dtype="datetime64[D]"), "x")


# --- older files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.spom")), ids=lambda p: p.name)
def test_files_of_every_format_version_load(path: Path) -> None:
    """Written once by the version that made the format, and never again; beside each what it predicted."""
    told = json.loads(path.with_suffix(".json").read_text())
    model = spom.load_model(path, verify=True)
    if "trees" in told:
        bank = Treebank.from_sentences(told["trees"]).without_trees()
        trees = model.predict(bank)
        found = trees.heads
        assert trees.relations.tolist() == told["relations"]
        # Every weight has a part in these, so that none may have moved.
        for ours, then in zip(model.predict_marginals(bank), told["marginals"], strict=True):
            np.testing.assert_allclose(ours, then, atol=1e-6)
    else:
        found = model.predict(np.array(told["X"]) if "X" in told else told["sentences"])
    predicted = [p.tolist() if hasattr(p, "tolist") else p for p in found]
    # Sums of floats may end in another digit on another machine.
    exact = not isinstance(predicted[0], float)
    assert predicted == (told["predicted"] if exact else pytest.approx(told["predicted"], rel=1e-12))


def test_there_is_a_file_of_each_version() -> None:
    versions = {path.name.partition("-")[0] for path in FIXTURES.glob("*.spom")}
    assert versions == {f"v{version}" for version in range(1, files.FORMAT + 1)}
