"""SequenceTagger: what it takes, what it learns, what it keeps, what it refuses."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from spom import SequenceTagger
from spom.data import Treebank
from spom.data.columns import Columns
from spom.errors import DataError, ModelFileError, Unsupported
from spom.features import Blocks, Templates
from spom.models import load_model
from spom.penalties import L1, ElasticNet, GroupLasso, SparseMKL

WORDS = {
    "DT": ["the", "a", "this"],
    "NN": ["cat", "dog", "house", "tree"],
    "VB": ["sees", "likes", "has"],
    "RB": ["now"],
}


def corpus(count: int, seed: int = 0) -> tuple[list[list[tuple[str, str]]], list[list[str]]]:
    """Little sentences of noun and verb phrases, with a column of noise."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        tags, labels = [], []
        for _ in range(rng.integers(1, 4)):
            noun = ["DT", "NN"] if rng.random() < 0.7 else ["NN"]
            tags += [*noun, "VB"]
            labels += ["B-NP", "I-NP", "B-VP"] if len(noun) == 2 else ["B-NP", "B-VP"]
            if rng.random() < 0.4:
                tags.append("RB")
                labels.append("O")
        X.append([(str(rng.choice(WORDS[tag])), f"x{rng.integers(5)}") for tag in tags])
        y.append(labels)
    return X, y


X, Y = corpus(120)
X_TEST, Y_TEST = corpus(40, seed=1)
TEMPLATES = ["w[-1]", "w[0]", "w[1]", "pos[0]", "pos[1]"]


def tagger(**params: Any) -> SequenceTagger:
    # What follows tests other things than defaults, on easy data.
    plain: dict[str, Any] = {"loss": "log", "penalty": L1(3e-5), "epochs": 6, "constraints": None}
    return SequenceTagger(**{"templates": TEMPLATES, "random_state": 0, "verbose": 0, **plain, **params})


def test_learns_and_tells_what_it_learnt() -> None:
    t = tagger().fit(X, Y)
    assert t.score(X_TEST, Y_TEST) > 0.99
    assert t.evaluate(X_TEST, Y_TEST).accuracy > 0.99
    assert list(t.classes_) == ["B-NP", "B-VP", "I-NP", "O"]
    assert t.blocks_ == tuple(TEMPLATES)
    assert t.block_weights_.sum() == pytest.approx(1.0)
    assert t.block_weights_[3] == t.block_weights_.min()
    assert [info["epoch"] for info in t.history_] == [1, 2, 3, 4, 5, 6]
    assert set(t.history_[0]) >= {
        "loss",
        "objective",
        "nonzeros",
        "blocks_kept",
        "per_second",
        "seconds",
        "block_weights",
    }
    assert t.history_[-1]["nonzeros"] == t.nonzeros_ == np.count_nonzero(t.weights_)
    assert t.weights_.any(axis=1).all()
    last = t.history_[-1]
    expected = last["loss"] + 3e-5 * np.abs(t.weights_).sum()
    assert last["objective"] == pytest.approx(expected, rel=1e-5)
    name, label, weight = t.features("B-NP", count=1)[0]
    assert label == "B-NP"
    assert name.startswith("w[")
    assert weight != 0.0
    assert not t.converged_


def as_dicts(sentences: Any) -> Any:
    return [[{"w": w, "pos": p, "bias": 1.0} for w, p in sentence] for sentence in sentences]


def as_strings(sentences: Any) -> Any:
    return [[[f"w={w}", f"pos={p}"] for w, p in sentence] for sentence in sentences]


def as_matrices(sentences: Any, kind: Any = np.asarray) -> Any:
    names = sorted({word for words in WORDS.values() for word in words})
    return [kind(np.eye(len(names))[[names.index(w) for w, _ in sentence]]) for sentence in sentences]


@pytest.mark.parametrize(
    "form",
    [
        lambda s: s,
        lambda s: Columns.from_lists(s),
        lambda s: [[w for w, _ in sentence] for sentence in s],
        as_dicts,
        as_strings,
        as_matrices,
        lambda s: as_matrices(s, sparse.csr_matrix),
    ],
    ids=["tuples", "columns", "words", "dicts", "strings", "matrices", "csr"],
)
def test_every_form_of_sentences(form: Any) -> None:
    t = SequenceTagger(random_state=0, verbose=0).fit(form(X), Y)
    assert t.score(form(X_TEST), Y_TEST) > 0.95
    assert t.predict(form(X_TEST[:3])) == t.predict(form(X_TEST))[:3]


def test_columns_bring_their_labels() -> None:
    rows = [[(*token, label) for token, label in zip(s, labels, strict=True)] for s, labels in zip(X, Y, strict=True)]
    columns = Columns.from_lists(rows)
    t = tagger().fit(columns)
    u = tagger().fit(X, Y)
    np.testing.assert_array_equal(t.weights_, u.weights_)
    assert t.score(columns) == t.score(X, Y)
    assert t.predict(columns) == u.predict(X)
    # Words and labels alone: the labels are no column that templates could see.
    two = Columns.from_lists(
        [[(w, label) for (w, _), label in zip(s, labels, strict=True)] for s, labels in zip(X, Y, strict=True)]
    )
    with pytest.raises(DataError, match="pos"):
        tagger().fit(two)
    assert tagger(templates=["w[0]"]).fit(two, "pos").score(X, Y) > 0.8


@pytest.mark.parametrize("loss", ["log", "hinge", "perceptron", "softmax-margin"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"penalty": SparseMKL(1e-3)},
        {"penalty": GroupLasso(1e-3), "update": "dual-averaging"},
        {"penalty": "sparse-mkl", "transitions": "learnt", "step": "sqrt"},
        {"penalty": ElasticNet(3e-5), "transitions": None},
    ],
    ids=repr,
)
def test_losses_and_penalties(loss: str, more: Any) -> None:
    t = tagger(loss=loss, **more).fit(X, Y)
    assert t.score(X_TEST, Y_TEST) > 0.9


def test_constraints() -> None:
    t = tagger(templates=["pos[0]"], constraints="BIO").fit(X, Y)
    for labels in t.predict(X_TEST):
        for a, b in zip(["O", *labels], labels, strict=False):
            assert b != "I-NP" or a in ("B-NP", "I-NP")
    with pytest.raises(ValueError, match="scheme must be one of"):
        tagger(constraints="XYZ").fit(X, Y)
    with pytest.warns(UserWarning, match=r"1 sentence has gold labels that break BIO \(the first is sentence 0\)"):
        tagger(constraints="BIO").fit([[("a", "x1")]], [["I-NP"]])


def test_marginals_and_the_best_few() -> None:
    t = tagger().fit(X, Y)
    found, best = t.predict_marginals(X_TEST), t.predict_kbest(X_TEST, 3)
    for sentence, p, paths, labels in zip(X_TEST, found, best, t.predict(X_TEST), strict=True):
        assert p.shape == (len(sentence), 4)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
        assert paths[0][0] == labels
        assert [score for _, score in paths] == sorted((score for _, score in paths), reverse=True)
        assert len({tuple(path) for path, _ in paths}) == len(paths)


def test_streams_and_threads() -> None:
    t = tagger().fit(X, Y)
    expected = t.predict(X_TEST)
    stream = t.predict(iter(X_TEST))
    assert next(stream) == expected[0]
    assert list(stream) == expected[1:]
    results: list[Any] = [None] * 4

    def work(i: int) -> None:
        results[i] = [t.predict(X_TEST) for _ in range(5)][-1]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


# --- choosing templates and weights ---------------------------------------------------------------------


def test_pruning_drops_templates_of_noise() -> None:
    t = tagger(prune=3).fit(X, Y)
    # pos[1] tells where the sentence ends.
    assert "pos[0]" in t.pruning_.dropped
    assert "w[0]" in t.pruning_.kept
    np.testing.assert_array_equal(t.selected_, [TEMPLATES.index(name) for name in t.pruning_.kept])
    assert t.score(X_TEST, Y_TEST) > 0.99
    assert "dropped" in str(t.pruning_)
    assert t._features.blocks.names == t.pruning_.kept
    # A template that is off is not looked at: its column may be missing.
    u = tagger(templates=["w[-1]", "w[0]", "pos[0]"], prune=2).fit(X, Y)
    assert u.pruning_.dropped == ("pos[0]",)
    assert u.predict([[w for w, _ in s] for s in X_TEST]) == u.predict(X_TEST)


def test_pruning_by_number_and_by_strength() -> None:
    t = tagger(prune=2).fit(X, Y)
    assert len(t.pruning_.kept) == 2
    assert "w[0]" in t.pruning_.kept
    assert tagger(prune=1e-6).fit(X, Y).pruning_.dropped == ()
    with pytest.raises(ValueError, match="leaves no template"):
        tagger(prune=1e3).fit(X, Y)
    with pytest.raises(ValueError, match="more than the number of templates, 5"):
        tagger(prune=6).fit(X, Y)
    for bad in ("some", -1, True):
        with pytest.raises(ValueError, match="prune must be"):
            tagger(prune=bad).fit(X, Y)


def test_a_budget_of_weights() -> None:
    full = tagger().fit(X, Y)
    t = tagger(max_weights=15).fit(X, Y)
    assert 0 < t.nonzeros_ <= 15 < full.nonzeros_
    assert t.score(X_TEST, Y_TEST) > 0.95
    assert tagger(max_weights=10**6).fit(X, Y).nonzeros_ == full.nonzeros_
    with pytest.raises(Unsupported, match="max_weights needs dual averaging"):
        tagger(max_weights=5, penalty=SparseMKL(1e-3)).fit(X, Y)
    with pytest.raises(ValueError, match="max_weights must be"):
        tagger(max_weights=0).fit(X, Y)


# --- runs ------------------------------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_epoch() -> None:
    t = tagger(epochs=30, patience=2).fit(X, Y, dev=(X_TEST, Y_TEST))
    scores = [info["dev"] for info in t.history_]
    assert t.converged_
    assert len(scores) < 30
    assert t.score(X_TEST, Y_TEST) == max(scores)
    assert scores[-2] <= max(scores)
    assert t._training()["dev"] == max(scores)


class Watcher:
    def __init__(self, stop: int = 99) -> None:
        self.stop, self.seen, self.ends, self.paths = stop, [], [], []

    def on_epoch(self, info: Any) -> bool:
        self.seen.append(info)
        return info["epoch"] >= self.stop

    def on_checkpoint(self, path: Any) -> None:
        self.paths.append(path)

    def on_end(self, info: Any) -> None:
        self.ends.append(info["stopped"])


def test_callbacks_see_and_stop() -> None:
    watch = Watcher(stop=2)
    t = tagger(callbacks=[watch]).fit(X, Y)
    assert len(watch.seen) == t.n_epochs_ == 2
    assert watch.ends == ["callback"]
    assert t.score(X_TEST, Y_TEST) > 0.9


class Interrupt(Watcher):
    def on_epoch(self, info: Any) -> bool:
        super().on_epoch(info)
        if info["epoch"] == 2:
            raise KeyboardInterrupt
        return False


def test_an_interrupted_run_keeps_what_it_has() -> None:
    watch = Interrupt()
    t = tagger(callbacks=watch).fit(X, Y)
    assert t.n_epochs_ == 2
    assert watch.ends == ["interrupted"]
    np.testing.assert_array_equal(t.weights_, tagger(callbacks=Watcher(stop=2)).fit(X, Y).weights_)


def test_resumes_to_the_same_bits(tmp_path: Any) -> None:
    whole, path, watch = tagger().fit(X, Y), tmp_path / "run", Watcher(stop=3)
    tagger(callbacks=watch).fit(X, Y, checkpoint=path, checkpoint_every=1)
    assert watch.paths
    again = tagger().fit(X, Y, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.weights_, whole.weights_)
    np.testing.assert_array_equal(again.chain_, whole.chain_)


def test_same_seed_same_bits() -> None:
    a, b, c = (tagger(random_state=seed, prune="auto").fit(X, Y) for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.weights_, b.weights_)
    assert a.weights_.shape != c.weights_.shape or not np.array_equal(a.weights_, c.weights_)


@pytest.mark.parametrize("more", [{}, {"loss": "hinge", "penalty": SparseMKL(1e-4)}], ids=["dual", "spom"])
def test_partial_fit_goes_on_and_takes_new_labels(more: Any) -> None:
    t = tagger(**more)
    for _ in range(3):
        t.partial_fit(X, Y)
    assert t.score(X_TEST, Y_TEST) > 0.97
    assert t.n_epochs_ == 3
    with pytest.raises(DataError, match="sentence 0, token 0 has the label 'B-XX', which is not among the classes"):
        t.partial_fit([[("now", "x0")]], [["B-XX"]])
    assert t.n_epochs_ == 3
    before = t.predict(X_TEST)
    t.partial_fit([], [])
    assert t.predict(X_TEST) == before
    new = [[("now", "x9")] for _ in range(300)]
    t.partial_fit(new, [["B-XX"]] * 300, classes=["B-XX"])
    assert list(t.classes_) == ["B-NP", "B-VP", "I-NP", "O", "B-XX"]
    assert t.predict(new[:1]) == [["B-XX"]]
    assert t.score(X_TEST, Y_TEST) > 0.5


def test_partial_fit_after_fit_and_after_loading(tmp_path: Any) -> None:
    t = tagger(epochs=2).fit(X, Y)
    t.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    before = t.score(X_TEST, Y_TEST)
    for model in (t, loaded):
        model.partial_fit(X, Y)
        assert model.score(X_TEST, Y_TEST) >= before - 0.01
    np.testing.assert_array_equal(t.weights_, loaded.weights_)
    first = tagger().partial_fit(X[:50], Y[:50], classes=["B-NP", "I-NP", "B-VP", "O", "NEW"])
    assert "NEW" in first.classes_


def test_open_vocabulary_with_a_table() -> None:
    t = tagger(templates=Templates(["w[0]"], table=64), epochs=1)
    t.partial_fit([["cat"]] * 20, [["A"]] * 20, classes=["A", "B"])
    t.partial_fit([["unheard"], ["cat"]] * 20, [["B"], ["A"]] * 20)
    assert t.predict([["unheard"], ["cat"]]) == [["B"], ["A"]]


# --- scikit-learn, files ---------------------------------------------------------------------------------


def test_scikit_learn_habits() -> None:
    t = tagger(penalty=L1(1e-4))
    assert clone(t).get_params() == {**t.get_params(), "penalty": clone(t).penalty} or clone(t).penalty.strength == 1e-4
    assert t.set_params(penalty__strength=1e-3).penalty.strength == 1e-3
    search = GridSearchCV(tagger(penalty=L1(1e-4), epochs=2), {"penalty__strength": [1e-4, 10.0]}, cv=2)
    search.fit(X, Y)
    assert search.best_params_["penalty__strength"] == 1e-4
    fitted = t.fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(X_TEST) == fitted.predict(X_TEST)
    with pytest.raises(Exception, match="not fitted"):
        tagger().predict(X)


@pytest.mark.parametrize("form", [lambda s: s, as_dicts, as_matrices], ids=["templates", "dicts", "matrices"])
def test_model_files(form: Any, tmp_path: Any) -> None:
    t = SequenceTagger(random_state=0, verbose=0, constraints="BIO").fit(form(X), Y)
    t.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.predict(form(X_TEST)) == t.predict(form(X_TEST))
    np.testing.assert_array_equal(again.block_weights_, t.block_weights_)
    assert again.get_params()["constraints"] == "BIO"
    assert again.features(count=3) == t.features(count=3)


def test_a_damaged_model_file_is_refused() -> None:
    t = tagger().fit(X, Y)
    state, arrays = t.model_state()
    state["params"] = t.get_params(deep=False)
    arrays["weights.labels"] = arrays["weights.labels"] + 100
    with pytest.raises(ModelFileError):
        SequenceTagger.from_model_state(state, arrays)


# --- what bad input gets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentences", "labels", "message"),
    [
        ([["a", "b"], ["c"]], [["X", "Y"], ["X", "Y"]], "sentence 1 has 1 tokens and 2 labels"),
        ([["a"]], [["X"], ["Y"]], "X has 1 sentences and y has 2"),
        ([], [], "no tokens to learn from"),
        ([[], []], [[], []], "no tokens to learn from"),
        ([["a"]], [[None]], "no label is known"),
        ([["a"], ["b"]], [["X"], [float("nan")]], "sentence 1, token 0 has no label"),
        ([["a"]], ["X"], "y, sentence 0: expected a list of labels"),
        ([[{"w": float("nan")}]], [["X"]], "finite"),
        ([np.array([[np.inf]])], [["X"]], "finite"),
    ],
)
def test_bad_sentences(sentences: Any, labels: Any, message: str) -> None:
    t = SequenceTagger(verbose=0)
    with pytest.raises(DataError, match=message):
        t.fit(sentences, labels)
    assert not hasattr(t, "classes_")


def test_bad_parameters() -> None:
    for params, message in [
        ({"solver": "newton"}, "unknown solver 'newton'"),
        ({"loss": "squared"}, "unknown loss 'squared'"),
        ({"scoring": "recall"}, "unknown scoring 'recall'"),
        ({"templates": 7}, "templates must be"),
        ({"templates": "no-such-set"}, "no set of templates"),
        ({"callbacks": [len]}, "a callback needs a method"),
    ]:
        with pytest.raises((Unsupported, ValueError, TypeError), match=message):
            tagger(**params).fit(X, Y)
    with pytest.raises(ValueError, match="y is missing"):
        tagger().fit(X)
    with pytest.raises(Unsupported, match="prune= needs all sentences"):
        tagger(prune="auto").partial_fit(X, Y)
    with pytest.raises(DataError, match="X is a string"):
        tagger().fit(X, Y).predict("a sentence")


def test_unseen_labels_count_as_wrong() -> None:
    t = tagger().fit(X, Y)
    labels = [["I-LST"] * len(sentence) for sentence in X_TEST]
    with pytest.warns(UserWarning, match="not seen in training count as wrong: I-LST"):
        assert t.score(X_TEST, labels) == 0.0


def test_empty_and_short_sentences() -> None:
    t = tagger().fit([*X, [], [("now", "x1")]], [*Y, [], ["O"]])
    assert t.predict([[], [("now", "x1")], []]) == [[], ["O"], []]
    assert t.predict([]) == []
    assert [p.shape for p in t.predict_marginals([[], [("now", "x1")]])] == [(0, 4), (1, 4)]
    assert t.predict_kbest([[]], 3) == [[([], 0.0)]]
    assert t.predict([[("unheard", "unseen")]])[0][0] in t.classes_
    one = tagger(templates=["w[0]"]).fit([["a"]], [["X"]])
    assert one.predict([["a", "b"]]) == [["X", "X"]]


def test_treebanks_have_parts_of_speech() -> None:
    words = [{"form": "dogs", "upos": "NOUN", "xpos": "NNS", "head": 2}, {"form": "bark", "upos": "VERB", "head": 0}]
    bank = Treebank.from_sentences([words] * 5)
    t = SequenceTagger(random_state=0, verbose=0).fit(bank)
    assert t.predict(bank[:1]) == [["NOUN", "VERB"]]
    assert t.score(bank) == 1.0
    # The other tags are not what the tagger looks at.
    assert not any("pos" in name for name in t.blocks_)


def test_blocks_of_vectors_are_named_by_the_user() -> None:
    M = as_matrices(X)
    width = M[0].shape[1]
    blocks = Blocks(("left", "right"), np.array([0, 4, width]))
    t = SequenceTagger(blocks, random_state=0, verbose=0).fit(M, Y)
    assert t.blocks_ == ("left", "right")
    assert t.score(M, Y) > 0.9


def test_real_chunks(data_folder: Any) -> None:
    from spom.data import read_conll

    train = read_conll(data_folder / "conll2000" / "train.txt.gz")[:1500]
    test = read_conll(data_folder / "conll2000" / "test.txt.gz")[:500]
    full, t = (SequenceTagger("chunking", random_state=0, verbose=0, prune=how).fit(train) for how in (None, "auto"))
    assert t.nonzeros_ <= 0.9 * full.nonzeros_
    assert t.score(test) > max(0.90, full.score(test) - 0.005)
