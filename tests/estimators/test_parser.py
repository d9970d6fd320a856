"""DependencyParser: learning, pruning, stages, threads, streams, files, bad input."""

from __future__ import annotations

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import spom
from spom import DependencyParser
from spom.data import Treebank, iter_conllu, read_conllu, write_conllu
from spom.errors import DataError, Unsupported
from spom.estimators import pruning as shared
from spom.estimators.parser import pruning
from spom.estimators.parser.pruning import how_many
from spom.estimators.pruning import will_do
from spom.estimators.training import Checkpoint
from spom.penalties import GroupLasso, LqMKL, SparseMKL
from spom.solvers.structured.trees.model import ArcModel

NOUNS, VERBS, ADJECTIVES = ("dog", "cat", "bird", "fox"), ("sees", "hears", "likes"), ("old", "red", "big")


def toy(count: int, seed: int = 0) -> Treebank:
    """Draw "the (big) dog sees a cat (with a fox) (.)"; a fox or a dog helps to see, another is with the cat."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        words: list[dict[str, Any]] = []

        def phrase(words: list[dict[str, Any]] = words) -> int:
            first = len(words) + 1
            many = int(rng.integers(0, 3))
            head = first + 1 + many
            words.append({"form": str(rng.choice(["the", "a"])), "upos": "DET", "head": head, "deprel": "det"})
            for _ in range(many):
                words.append({"form": str(rng.choice(ADJECTIVES)), "upos": "ADJ", "head": head, "deprel": "amod"})
            words.append({"form": str(rng.choice(NOUNS)), "upos": "NOUN", "head": 0, "deprel": "dep"})
            return head

        subject = phrase()
        words.append({"form": str(rng.choice(VERBS)), "upos": "VERB", "head": 0, "deprel": "root"})
        verb = len(words)
        thing = phrase()
        words[subject - 1] |= {"head": verb, "deprel": "nsubj"}
        words[thing - 1] |= {"head": verb, "deprel": "obj"}
        if rng.random() < 0.7:
            words.append({"form": "with", "upos": "ADP", "head": 0, "deprel": "case"})
            other = phrase()
            words[thing] |= {"head": other}
            words[other - 1] |= {"head": verb if words[other - 1]["form"] in ("fox", "dog") else thing, "deprel": "obl"}
        if rng.random() < 0.5:
            words.append({"form": ".", "upos": "PUNCT", "head": verb, "deprel": "punct"})
        made.append([{**word, "lemma": word["form"], "xpos": word["upos"][:2]} for word in words])
    return Treebank.from_sentences(made)


TRAIN, TEST = toy(60), toy(20, seed=1)
QUICK: dict[str, Any] = {"epochs": 3, "label_epochs": 2, "verbose": 0, "table_bits": 10}


@pytest.fixture(scope="module")
def fitted() -> DependencyParser:
    return DependencyParser(**QUICK).fit(TRAIN)


def test_it_learns_what_can_be_learnt(fitted: DependencyParser) -> None:
    found = fitted.predict(TEST.without_trees())
    assert isinstance(found, Treebank)
    assert fitted.evaluate(TEST).uas > 0.97
    assert fitted.score(TEST) > 0.95
    np.testing.assert_array_equal(found.heads, fitted.predict(TEST).heads)
    assert fitted.blocks_ == sorted(fitted.blocks_, key=lambda n: n.removesuffix(" dist").removesuffix(" dir"))
    assert fitted.block_weights_.sum() == pytest.approx(1.0)
    assert 0 < fitted.selected_.size <= len(fitted.blocks_)
    assert [h["stage"] for h in fitted.history_] == ["arcs"] * 3 + ["relations"] * 2
    assert fitted.pruning_ is None
    assert not fitted.converged_


@pytest.mark.parametrize(
    "more",
    [
        {"projective": True},
        {"loss": "hinge"},
        {"loss": "perceptron"},
        {"loss": "log", "projective": True},
        {"loss": "log"},
        {"penalty": SparseMKL(1e-3), "loss": "hinge", "update": "forward-backward"},
        {"penalty": GroupLasso(1e-3), "labels": False},
        {"labels": False},
        {"templates": ["h.upos m.upos dist", "h.upos m.upos between.upos"], "min_count": 1},
        {"second_stage": True, "folds": 2},
        {"order": 2, "folds": 2, "projective": True},
    ],
    ids=str,
)
def test_every_way_of_learning(more: dict[str, Any]) -> None:
    parser = DependencyParser(**{**QUICK, **more}).fit(TRAIN)
    assert parser.evaluate(TEST).uas > 0.9
    again = DependencyParser(**{**QUICK, **more}).fit(TRAIN)
    np.testing.assert_array_equal(parser.arcs_.weights, again.arcs_.weights)


def test_a_penalty_by_name_gets_a_strength_from_the_data_and_selects(tmp_path: Path) -> None:
    plain = DependencyParser(**QUICK).fit(TRAIN)
    assert plain.penalty_ is None
    assert DependencyParser(**QUICK, penalty=None).fit(TRAIN).settings_ == plain.settings_
    for name in ("group-lasso", "sparse-mkl", "tree-group-lasso"):
        parser = DependencyParser(**QUICK, penalty=name).fit(TRAIN)
        assert parser.selection_ is not None
        assert 0 < len(parser.blocks_) < len(plain.blocks_)
        assert parser.selected_.size == len(parser.blocks_)
        # The templates that are left are learnt without the penalty: the same as a parser that has only them.
        alone = DependencyParser(**QUICK, templates=parser.blocks_).fit(TRAIN)
        assert parser.evaluate(TEST).uas == pytest.approx(alone.evaluate(TEST).uas, abs=0.02)
        assert repr(parser.penalty_) in parser.settings_
        parser.save(tmp_path / "parser.spom")
        again = spom.load_model(tmp_path / "parser.spom")
        assert repr(again.penalty_) == repr(parser.penalty_)
        assert again.settings_ == parser.settings_


def test_the_summary_counts_templates_with_weights() -> None:
    one = Treebank.from_sentences([[{"form": "stop", "upos": "VERB", "head": 0, "deprel": "root"}]] * 5)
    for bank in (TRAIN, one):
        parser = DependencyParser(**QUICK).fit(bank)
        assert parser._training()["blocks_kept"] == parser.selected_.size
    # Trees of one word have nothing to learn.
    assert parser.selected_.size == 0


def test_what_was_selected_is_learnt_further_without_the_penalty() -> None:
    chosen = DependencyParser(**QUICK, penalty=GroupLasso(0.05)).fit(TRAIN)
    plain = copy.deepcopy(chosen).set_params(penalty=None)
    plain.penalty_ = None
    for parser in (chosen, plain):
        parser.partial_fit(TEST)
    np.testing.assert_array_equal(chosen.arcs_.weights, plain.arcs_.weights)


def test_an_update_is_chosen_by_penalty_and_loss_and_named() -> None:
    log = DependencyParser(**QUICK, penalty=GroupLasso(0.01), loss="log").fit(TRAIN)
    assert log.selection_ is None
    assert 0.0 <= log.gap_ < np.inf
    with pytest.raises(ValueError, match="leaves no template: give a smaller strength"):
        DependencyParser(**QUICK, penalty=GroupLasso(1e6)).fit(TRAIN)
    with pytest.raises(Unsupported, match="there is no update 'newton' for parsers"):
        DependencyParser(**QUICK, update="newton").fit(TRAIN)
    with pytest.raises(ValueError, match="update='select' needs a penalty"):
        DependencyParser(**QUICK, update="select").fit(TRAIN)
    with pytest.raises(Unsupported, match="need all sentences at once"):
        DependencyParser(**QUICK, penalty="group-lasso").partial_fit(TRAIN)


def test_block_weights_are_those_of_the_penalty() -> None:
    bank, names = toy(40), ["h.upos m.upos", "m.form", "h.form m.form dist"]
    params = {"verbose": 0, "labels": False, "min_count": 1, "epochs": 2}
    found = DependencyParser(names, penalty=LqMKL(0.01, q=1.5), update="forward-backward", **params).fit(bank)
    roots = found.arcs_.block_norms() ** 0.5
    np.testing.assert_allclose(found.block_weights_, roots / roots.sum(), rtol=1e-4)
    # What is left of a selection is learnt without the penalty of blocks.
    chosen = DependencyParser(names, penalty=LqMKL(0.01, q=1.5), **params).fit(bank)
    norms = chosen.arcs_.block_norms()
    np.testing.assert_allclose(chosen.block_weights_, norms / norms.sum())


def test_marginals_are_those_of_all_trees(fitted: DependencyParser) -> None:
    bank = toy(3, seed=5)[:2]
    small = Treebank.from_sentences([[{"form": "the", "upos": "DET"}, {"form": "dog", "upos": "NOUN"}, {"form": "x"}]])
    for some in (small, bank):
        for s, found in enumerate(fitted.predict_marginals(some)):
            n = found.shape[0] - 1
            np.testing.assert_allclose(found[:, 1:].sum(axis=0), 1.0, atol=1e-9)
            assert found[0].sum() == pytest.approx(1.0)
            if n > 3:
                continue
            codes = fitted.arcs_.templates.transform(some)
            scores = fitted.arcs_.scores(codes, s)
            total, expected = 0.0, np.zeros_like(found)
            for heads in itertools.product(range(n + 1), repeat=n):
                if sum(h == 0 for h in heads) != 1 or not _is_tree(heads):
                    continue
                weight = np.exp(sum(scores[h, m] for m, h in enumerate(heads, 1)))
                total += weight
                for m, h in enumerate(heads, 1):
                    expected[h, m] += weight
            np.testing.assert_allclose(found, expected / total, atol=1e-9)


def _is_tree(heads: tuple[int, ...]) -> bool:
    for w in range(1, len(heads) + 1):
        at = w
        for _ in heads:
            at = heads[at - 1] if at else 0
        if at:
            return False
    return True


def test_pruning_says_what_went_and_why() -> None:
    parser = DependencyParser(**QUICK, prune=12).fit(TRAIN)
    assert len(parser.blocks_) == 12
    assert set(parser.blocks_) <= set(parser.pruning_.names)
    assert int(parser.pruning_.kept.sum()) == 12
    assert parser.pruning_.scores.min() >= 0.0
    assert parser.evaluate(TEST).uas > 0.9
    table = parser.pruning_.table()
    assert table.count("\n") == 69
    assert "\n- " in table
    assert "held-out" in table
    assert "12 of 69" in repr(parser.pruning_)
    few = DependencyParser(**QUICK, prune=0.2, labels=False).fit(TRAIN[:8])
    assert len(few.blocks_) == 14
    assert (how_many("auto", 447), how_many(0.1, 447), how_many(999, 447)) == (224, 45, 447)


def test_auto_keeps_templates_unless_held_out_sentences_say_that_they_can_go() -> None:
    few = DependencyParser(**QUICK, prune="auto", labels=False).fit(TRAIN[:8])
    assert len(few.blocks_) == 69
    assert "too few to compare on" in few.pruning_.table()
    parser = DependencyParser(**QUICK, prune="auto", labels=False).fit(TRAIN)
    full = DependencyParser(**QUICK, labels=False).fit(TRAIN)
    assert "at a risk of .025" in parser.pruning_.why
    assert parser.pruning_.kept.sum() == len(parser.blocks_)
    assert np.count_nonzero(parser.arcs_.weights) <= np.count_nonzero(full.arcs_.weights)
    assert parser.evaluate(TEST).uas >= full.evaluate(TEST).uas - 0.01
    # One head in a hundred lost is too many, whatever the noise; half of a thousandth is not, where it is steady.
    words = np.full(400, 20)

    def counts(right: Any) -> Any:
        return np.stack([words, words, np.broadcast_to(right, words.shape)], axis=1)

    assert not will_do(counts(18), counts(17.8))[0]
    assert will_do(counts(18), counts(17.99))[0]
    # A mean that is as good says nothing where sentences differ widely.
    assert not will_do(counts(12), counts(12 + np.resize([4, -4], 400)))[0]


def test_auto_leaves_the_largest_weights_of_arcs_and_relations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "FALL", 1.0)
    monkeypatch.setattr(pruning, "HALF", 0.999)
    pruned, full = DependencyParser(**QUICK, prune="auto").fit(TRAIN), DependencyParser(**QUICK).fit(TRAIN)
    for small, whole in ((pruned.arcs_, full.arcs_), (pruned.labels_, full.labels_)):
        size = np.sort(np.abs(whole.weights[whole.weights != 0.0]))
        edge = size[-int(pruning.WEIGHTS[0] * size.size)]
        np.testing.assert_array_equal(small.weights, np.where(np.abs(whole.weights) < edge, 0.0, whole.weights))
    assert "of the weights of relations" in pruned.pruning_.why


@pytest.mark.parametrize("prune", ["some", -1, 0, True, [3]])
def test_bad_pruning_is_refused(prune: Any) -> None:
    with pytest.raises(ValueError, match="prune must be"):
        DependencyParser(**QUICK, prune=prune).fit(TRAIN)


def test_threads_and_streams_give_the_same_trees(fitted: DependencyParser, tmp_path: Path) -> None:
    expected = fitted.predict(TEST).heads
    threaded = clone(fitted).set_params(n_jobs=2).fit(TRAIN)
    np.testing.assert_array_equal(threaded.predict(TEST).heads, expected)
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: fitted.predict(TEST).heads, range(6)):
            np.testing.assert_array_equal(found, expected)
    path, out = tmp_path / "in.conllu", tmp_path / "out.conllu"
    write_conllu(TEST, path)
    write_conllu(fitted.predict_blocks(iter_conllu(path, 500)), out)
    np.testing.assert_array_equal(read_conllu(out).heads, expected)


ORDER: dict[str, Any] = {"order": 2, "folds": 2, "projective": True}


@pytest.mark.parametrize(
    "more", [{}, {"second_stage": True, "folds": 2, "prune": 10}, {"labels": False}, {**ORDER, "prune": 10}], ids=str
)
def test_a_saved_parser_is_the_same_parser(more: dict[str, Any], tmp_path: Path) -> None:
    parser = DependencyParser(**{**QUICK, **more}).fit(TRAIN)
    parser.save(tmp_path / "parser.spom")
    again = spom.load_model(tmp_path / "parser.spom")
    one, other = parser.predict(TEST), again.predict(TEST)
    np.testing.assert_array_equal(one.heads, other.heads)
    assert list(one) == list(other)
    assert again.blocks_ == parser.blocks_
    np.testing.assert_allclose(again.block_weights_, parser.block_weights_)
    again.partial_fit(TRAIN)
    assert again.evaluate(TEST).uas > 0.9


def test_second_order_knows_what_arcs_alone_do_not() -> None:
    """Learn that a verb takes only the nearest noun on its right, and that others depend on it, which no arc shows."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(60):
        many = int(rng.integers(1, 4))
        words = [{"form": "go", "lemma": "go", "upos": "VERB", "xpos": "V", "head": 0, "deprel": "root"}]
        words += [
            {"form": "x", "lemma": "x", "upos": "NOUN", "xpos": "N", "head": k, "deprel": "dep"}
            for k in range(1, many + 1)
        ]
        words += [{"form": "y", "lemma": "y", "upos": "NOUN", "xpos": "N", "head": 1, "deprel": "dep"}] * int(
            rng.integers(0, 2)
        )
        made.append(words)
    bank = Treebank.from_sentences(made)
    settings: dict[str, Any] = {"templates": ["h.upos m.upos dir"], "labels": False, "verbose": 0, "projective": True}
    plain, deep = (DependencyParser(**settings, order=order, folds=2).fit(bank) for order in (1, 2))
    assert (plain.order_, deep.order_) == (1, 2)
    assert "order 2" in deep.settings_
    assert deep.evaluate(bank).uas > max(plain.evaluate(bank).uas + 0.05, 0.99)
    assert [h["stage"] for h in deep.history_] == ["arcs"] * 6 + ["second order"] * 6
    np.testing.assert_array_equal(
        deep.set_params(n_jobs=2).predict(bank).heads, deep.set_params(n_jobs=1).predict(bank).heads
    )
    assert [len(shown) for shown in deep.explain(bank[:3])] == np.diff(bank.offsets[:4]).tolist()
    assert deep.predict_marginals(bank[:1])[0][:, 1:].sum(axis=0) == pytest.approx(1.0)


def test_the_order_falls_back_to_one_where_arcs_cross_and_goes_with_few_options() -> None:
    parser = DependencyParser(**QUICK, order=2, projective=False).fit(TRAIN)
    assert parser.order_ == 1
    assert parser.second_ is None
    both = {**QUICK, "order": 2, "second_stage": True, "folds": 2}
    assert isinstance(DependencyParser(**both, projective=False).fit(TRAIN).second_, ArcModel)
    assert DependencyParser(**both, projective=True).fit(TRAIN).order_ == 2
    for more in ({"loss": "log"}, {"penalty": SparseMKL(0.1), "update": "forward-backward"}):
        with pytest.raises(Unsupported, match="order=2 does not go with"):
            DependencyParser(**QUICK, order=2, **more).fit(TRAIN)
    with pytest.raises(ValueError, match="order must be 1 or 2"):
        DependencyParser(**QUICK, order=3).fit(TRAIN)


def test_learning_goes_on_and_relations_are_announced() -> None:
    parser = DependencyParser(**QUICK)
    plain = TRAIN.with_trees(TRAIN.heads, np.zeros(TRAIN.n_words, np.int32), ("dep",))
    parser.partial_fit(plain, relations=["dep", *TRAIN.relation_names])
    for _ in range(3):
        parser.partial_fit(TRAIN)
    assert parser.evaluate(TEST).las > 0.9
    before = parser.arcs_.weights.copy()
    strange = TRAIN.with_trees(TRAIN.heads, np.zeros(TRAIN.n_words, np.int32), ("strange",))
    with pytest.raises(ValueError, match="'strange' was not there at the first call"):
        parser.partial_fit(strange)
    np.testing.assert_array_equal(parser.arcs_.weights, before)
    staged = DependencyParser(**QUICK, second_stage=True, folds=2).fit(TRAIN).partial_fit(TRAIN)
    assert staged.evaluate(TEST).uas > 0.9
    with pytest.raises(Unsupported, match="prune="):
        DependencyParser(**QUICK, prune=5).partial_fit(TRAIN)


def test_development_data_and_callbacks_end_a_run() -> None:
    class Watch:
        def __init__(self) -> None:
            self.epochs: list[dict[str, Any]] = []
            self.ended: dict[str, Any] = {}

        def on_epoch(self, info: dict[str, Any]) -> bool:
            self.epochs.append(info)
            return len(self.epochs) == 2

        def on_end(self, info: dict[str, Any]) -> None:
            self.ended = info

    watch = Watch()
    parser = DependencyParser(**{**QUICK, "epochs": 9, "second_stage": True}, callbacks=watch).fit(TRAIN)
    assert [info["epoch"] for info in watch.epochs if info["stage"] == "arcs"] == [1, 2]
    assert watch.ended["stopped"] == "callback"
    assert parser.evaluate(TEST).uas > 0.8
    early = DependencyParser(**{**QUICK, "epochs": 50, "patience": 1}).fit(TRAIN, dev=TEST)
    assert early.converged_
    assert len([h for h in early.history_ if h["stage"] == "arcs"]) < 50
    assert max(h["dev"] for h in early.history_ if "dev" in h) == pytest.approx(early.evaluate(TEST).uas)


class Stop:
    """Ends a run at an epoch of a stage."""

    def __init__(self, stage: str, epoch: int) -> None:
        self.stage, self.epoch = stage, epoch

    def on_epoch(self, info: dict[str, Any]) -> bool:
        return bool((info["stage"], info["epoch"]) == (self.stage, self.epoch))


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.state"
    whole = DependencyParser(**{**QUICK, "epochs": 4}).fit(TRAIN)
    half = Stop("arcs", 2)
    DependencyParser(**{**QUICK, "epochs": 4, "callbacks": half}).fit(TRAIN, checkpoint=path, checkpoint_every=1)
    kept = Checkpoint.read(path)
    assert kept.state is not None
    assert (kept.stage, kept.state.k) == ("arcs", 2)
    more = DependencyParser(**{**QUICK, "epochs": 4}).fit(TRAIN, checkpoint=path, resume=True)
    np.testing.assert_array_equal(more.arcs_.weights, whole.arcs_.weights)
    assert len(more.history_) == len(whole.history_)
    done = DependencyParser(**{**QUICK, "epochs": 4}).fit(TRAIN, checkpoint=path, resume=True)
    np.testing.assert_array_equal(done.arcs_.weights, whole.arcs_.weights)


def test_odd_sentences_have_trees(fitted: DependencyParser) -> None:
    bank = Treebank.from_sentences(
        [
            [{"form": "alone"}],
            [{"form": f"w{k}", "upos": "UNSEEN", "xpos": "?"} for k in range(150)],
            [{"form": "☃", "upos": "NOUN"}, {"form": "..."}],
        ]
    )
    found = fitted.predict(bank)
    found.check_trees()
    assert found.heads[0] == 0
    empty = fitted.predict(bank[3:])
    assert len(empty) == 0
    assert fitted.predict_marginals(bank[3:]) == []


def test_bad_input_gets_one_clear_error(fitted: DependencyParser) -> None:
    with pytest.raises(DataError, match="Treebank"):
        fitted.predict([["a"]])
    with pytest.raises(TypeError, match="X must be a Treebank"):
        DependencyParser().fit([[1]])
    with pytest.raises(DataError, match="no sentences"):
        DependencyParser().fit(TRAIN[100:])
    with pytest.raises(DataError, match="no HEAD"):
        DependencyParser().fit(TRAIN.without_trees())
    loop = Treebank.from_sentences([[{"form": "a", "head": 0}, {"form": "b", "head": 3}, {"form": "c", "head": 2}]])
    with pytest.raises(DataError, match="line 2: the heads of this sentence have a cycle"):
        DependencyParser().fit(loop)
    with pytest.raises(DataError, match="line 2: this sentence has several roots"):
        DependencyParser().fit(Treebank.from_sentences([[{"form": "a", "head": 0}, {"form": "b", "head": 0}]]))
    with pytest.raises(DataError, match=r"'h\.nothing' is no attribute"):
        DependencyParser(["h.nothing"]).fit(TRAIN)
    with pytest.raises(Unsupported, match="no loss 'l2'"):
        DependencyParser(loss="l2", verbose=0).fit(TRAIN)
    with pytest.raises(ValueError, match="epochs"):
        DependencyParser(epochs=0).fit(TRAIN)
    assert not hasattr(DependencyParser(), "arcs_")


def test_parameters_are_those_of_scikit_learn() -> None:
    parser = DependencyParser(penalty=SparseMKL(0.5), epochs=2)
    assert clone(parser).set_params(penalty__strength=0.25).penalty.strength == 0.25
    assert parser.get_params()["penalty__strength"] == 0.5
