"""Feature dicts and lists of strings against scikit-learn's DictVectorizer and python-crfsuite's expansion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer

from spom.errors import DataError, SpomError
from spom.features import Blocks, DictFeatures, MatrixFeatures, Rows

value = st.one_of(st.sampled_from(["a", "b:c", "x=y", ""]), st.booleans(), st.sampled_from([0.0, 1.0, -2.5, 3]))
token = st.dictionaries(st.sampled_from(["word", "-1:word", "upper", "p=q"]), value, max_size=4)
sentences = st.lists(st.lists(token, max_size=4), max_size=4)


def dense(rows, width):
    return rows.to_csr(width).toarray()


@given(sentences, sentences)
def test_dicts_are_those_of_a_vectorizer(train, test):
    features = DictFeatures()
    fitted = features.fit(train)
    vectorizer = DictVectorizer(separator=":", sparse=False)
    flat = [token for sentence in train for token in sentence]
    if flat:
        slow = vectorizer.fit_transform(flat)
        names = [features.name(k) for k in range(features.n_features)]
        order = [list(vectorizer.get_feature_names_out()).index(name) for name in names]
        np.testing.assert_array_equal(dense(fitted, len(names)), slow[:, order])
        # What we leave out is zero for everybody.
        rest = sorted(set(range(slow.shape[1])) - set(order))
        assert not slow[:, rest].any()
        others = [token for sentence in test for token in sentence]
        if others:
            np.testing.assert_array_equal(
                dense(features.transform(test), len(names)), vectorizer.transform(others)[:, order]
            )
    assert fitted.offsets.tolist() == np.cumsum([0, *map(len, train)]).tolist()


def test_nested_values_are_expanded_as_crfsuite_does():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    tokens = [
        {"a": {"b": "c", "d": 2.5, "e": {"f": True}}, "g": ["x", "y"], "h": {"p", "q"}, "i": 3, "j": "k"},
        {"g": ["x"], "flag": True, "off": False, "zero": 0},
    ]
    features = DictFeatures()
    rows = features.fit([tokens])
    theirs = [{k: v for k, v in item.items() if v} for item in pycrfsuite.ItemSequence(tokens).items()]
    ours = []
    for t in range(2):
        part = slice(rows.indptr[t], rows.indptr[t + 1])
        ours.append({features.name(k): v for k, v in zip(rows.indices[part], rows.values[part], strict=True)})
    assert ours == theirs


def test_lists_of_strings_and_their_blocks():
    train = [[["w=the", "pos:DT", "bias", "-1:w=BOS"], ("w=cat", "pos:NN", "bias")], []]
    features = DictFeatures()
    rows = features.fit(train)
    assert features.blocks.names == ("w", "pos", "features", "-1:w")
    assert features.blocks.sizes.tolist() == [2, 2, 1, 1]
    assert rows.values.size == 0
    assert [[features.name(k) for k in rows.indices[rows.indptr[t] : rows.indptr[t + 1]]] for t in range(2)] == [
        list(token) for token in train[0]
    ]
    assert features.transform([[{"w=cat", "new"}]]).indices.tolist() == [1]


def test_blocks_of_dicts_and_of_bags_of_words():
    features = DictFeatures()
    features.fit([[{"word.lower()": "a", "-1:word": "b", "word=x": 1.0, "bias": 1.0, "sub": {"key": "v"}}]])
    assert features.blocks.names == ("word.lower()", "-1:word", "word", "bias", "sub:key")
    bag = DictFeatures()
    bag.fit([[{f"word{k}": 1.0 for k in range(1000)}, {"other": "x"}]])
    assert bag.blocks.names == ("features", "other")
    mine = DictFeatures(blocks=lambda name: name[0])
    mine.fit([[["xa", "yb", "xc"]]])
    assert mine.blocks.names == ("x", "y")
    assert mine.blocks.sizes.tolist() == [2, 1]


@given(sentences, sentences, st.integers(0, 99))
def test_what_is_kept_of_dicts_stays_the_same(train, test, seed):
    full = DictFeatures(min_count=2)
    full.fit(train)
    used = np.flatnonzero(np.random.default_rng(seed).random(full.n_features) < 0.5)
    small = full.compact(used)
    frozen = {key: value.copy() for key, value in small.arrays().items()}
    for array in frozen.values():
        array.flags.writeable = False
    again = DictFeatures.from_arrays(frozen)
    rows = dense(full.transform(test), full.n_features)
    np.testing.assert_array_equal(dense(small.transform(test), used.size), rows[:, used])
    np.testing.assert_array_equal(dense(again.transform(test), used.size), rows[:, used])
    assert again.blocks.names == small.blocks.names
    assert [small.name(k) for k in range(used.size)] == [full.name(int(k)) for k in used]
    if len(full.blocks) > 1:
        kept = full.keep([1])
        ids = full.blocks.ids([1])
        np.testing.assert_array_equal(dense(kept.transform(test), ids.size), rows[:, ids])


def test_bad_features_name_their_place():
    with pytest.raises(DataError, match="sentence 1, token 0: feature 'x' is None"):
        DictFeatures().fit([[{"x": "a"}], [{"x": None}]])
    with pytest.raises(DataError, match="sentence 0, token 1: feature 'x' is nan"):
        DictFeatures().fit([[{"x": "a"}, {"x": float("nan")}]])
    with pytest.raises(DataError, match="has 3 in its list"):
        DictFeatures().fit([[{"x": [3]}]])
    with pytest.raises(DataError, match="token 0 is a string"):
        DictFeatures().fit([["word"]])
    with pytest.raises(DataError, match="sentence 0 is a string"):
        DictFeatures().fit(["word"])
    with pytest.raises(DataError, match="expected tokens as strings"):
        DictFeatures().fit([[[3]]])
    with pytest.raises(SpomError, match="call fit"):
        DictFeatures().transform([])
    with pytest.raises(ValueError, match="min_count"):
        DictFeatures(min_count=0)


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix, sparse.coo_matrix])
def test_matrices(make):
    random = np.random.default_rng(0)
    train = [random.integers(0, 3, (n, 5)).astype(float) for n in (3, 0, 1)]
    features = MatrixFeatures(groups=["b", "a", "b", "c", "a"])
    rows = features.fit([make(part) for part in train])
    order = [0, 2, 1, 4, 3]
    np.testing.assert_array_equal(dense(rows, 5), np.concatenate(train)[:, order])
    assert features.blocks.names == ("b", "a", "c")
    assert rows.offsets.tolist() == [0, 3, 3, 4]
    small = MatrixFeatures.from_arrays(features.compact([1, 4]).arrays())
    np.testing.assert_array_equal(dense(small.transform([make(train[0])]), 2), train[0][:, [2, 3]])
    assert small.blocks.names == ("b", "c")
    assert small.name(1) == "3"
    kept = features.keep([1])
    np.testing.assert_array_equal(dense(kept.transform([make(train[0])]), 2), train[0][:, [1, 4]])
    assert features.transform([]).n_tokens == 0


def test_groups_of_columns():
    X = [np.eye(4)]
    for groups, names, sizes in (
        (None, ("features",), [4]),
        (2, ("0", "1"), [2, 2]),
        ([[3, 0], [1]], ("0", "1"), [2, 1]),
        (Blocks(("p", "q"), np.array([0, 1, 4])), ("p", "q"), [1, 3]),
    ):
        features = MatrixFeatures(groups)
        rows = features.fit(X)
        assert features.blocks.names == names
        assert features.blocks.sizes.tolist() == sizes
        assert rows.indices.size == sum(sizes)
        assert rows.values.size == 0
    ready = Rows(np.array([0, 1]), np.array([2], dtype=np.int32), np.empty(0), np.array([0, 1]))
    assert MatrixFeatures().fit(ready) is ready
    with pytest.raises(ValueError, match="divides the 4 columns"):
        MatrixFeatures(3).fit(X)
    with pytest.raises(ValueError, match="no other group has"):
        MatrixFeatures([[0], [0]]).fit(X)
    with pytest.raises(ValueError, match="one entry for each"):
        MatrixFeatures(["a"]).fit(X)
    features = MatrixFeatures()
    features.fit(X)
    with pytest.raises(DataError, match="sentence 0 has 3 features per token; expected 4"):
        features.transform([np.eye(3)])
    with pytest.raises(DataError, match="not finite"):
        features.transform([np.full((1, 4), np.nan)])
