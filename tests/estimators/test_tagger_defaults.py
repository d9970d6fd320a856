"""What a tagger chooses where nothing is given."""

from __future__ import annotations

import numpy as np
import pytest

from spom import SequenceTagger, load_model
from spom.data import Columns
from spom.decoders.schemes import tag_constraints
from spom.errors import DataError
from spom.estimators.tagger.defaults import broken_sentences, chosen_constraints, chosen_cost, chosen_penalty
from spom.features.ready import SETS
from spom.penalties import L1, ElasticNet, GroupLasso, SparseMKL, Zero

WORDS = [["Ann", "saw", "New", "York"], ["rain", "fell"]] * 10
ENTITIES = [["B-PER", "O", "B-LOC", "I-LOC"], ["O", "O"]] * 10
TAGS = [["PROPN", "VERB", "PROPN", "PROPN"], ["NOUN", "VERB"]] * 10


def fit(X: object, y: object, **params: object) -> SequenceTagger:
    return SequenceTagger(random_state=0, verbose=0, **params).fit(X, y)


def with_columns(*more: list[list[str]]) -> list[list[tuple[str, ...]]]:
    return [list(zip(*fields, strict=True)) for fields in zip(WORDS, *more, strict=True)]


def test_templates_follow_labels_and_columns() -> None:
    t = fit(WORDS, ENTITIES)
    assert t.blocks_ == tuple(SETS["entities"])
    assert t.templates_.startswith("entities (")
    assert "templates entities" in t.settings_
    assert fit(WORDS, TAGS).blocks_ == tuple(SETS["pos"])
    both = fit(with_columns(TAGS), ENTITIES)
    assert both.blocks_ == (*SETS["entities"], *SETS["tags"])
    assert both.templates_.startswith("entities + tags (")
    three = fit(with_columns(TAGS, ENTITIES), TAGS)
    assert three.blocks_ == (*SETS["pos"], *SETS["tags"], "2[-1]", "2[0]", "2[1]")
    # Columns give the same as lists, and a treebank's columns are not looked at besides the words.
    columns = Columns.from_lists(with_columns(TAGS), ["form", "upos"])
    assert fit(columns, "upos").blocks_ == tuple(SETS["pos"])


def test_a_script_without_case_has_no_templates_twice() -> None:
    t = fit([[w.lower() for w in s] for s in WORDS], ENTITIES)
    assert not any("lower" in name for name in t.blocks_)
    assert len(set(t.blocks_)) == len(t.blocks_) < len(SETS["entities"])
    assert "no letter case" in t.templates_


def test_what_is_given_is_taken() -> None:
    t = fit(WORDS, ENTITIES, templates="pos", loss="hinge", epochs=2, penalty=L1(0.01), constraints=None)
    assert (t.templates_, t.loss_, t.epochs_, t.constraints_) == ("pos", "hinge", 2, None)
    assert t.penalty_.strength == 0.01
    dicts = [[{"w": w} for w in s] for s in WORDS]
    assert fit(dicts, ENTITIES).templates_ == "features as given"


@pytest.mark.parametrize(
    ("given", "kind", "strength"),
    [
        ("auto", L1, 0.4 / 50),
        ("l1", L1, 0.4 / 50),
        ("elastic-net", ElasticNet, 0.4 / 50),
        ("group-lasso", GroupLasso, 50**-0.5),
        ("sparse-mkl", SparseMKL, 0.01),
    ],
)
def test_strengths_from_the_number_of_sentences(given: str, kind: type, strength: float) -> None:
    found = chosen_penalty(given, 50, phrases=True)
    assert type(found) is kind
    assert found.strength == pytest.approx(strength)


def test_other_labels_than_phrases_get_weaker_penalties_from_few_sentences() -> None:
    assert chosen_penalty("auto", 50, phrases=False).strength == pytest.approx(0.4 / 1050)
    assert chosen_penalty("l1", 100_000, phrases=False).strength == pytest.approx(0.4 / 101_000)


def test_few_sentences_without_phrases_get_a_wide_margin_with_its_own_strength(tmp_path: object) -> None:
    t = fit(WORDS, TAGS)
    assert t.cost_ == pytest.approx(1.0 + 9.0 * 400 / 420)
    assert t.penalty_.strength == pytest.approx(0.4 / 220)
    assert "softmax-margin with a margin of 9.57" in t.settings_
    t.save(f"{tmp_path}/m")
    assert load_model(f"{tmp_path}/m").cost_ == t.cost_
    same = fit(WORDS, TAGS, cost=t.cost_, penalty=t.penalty_)
    np.testing.assert_array_equal(same.weights_, t.weights_)
    assert chosen_cost("auto", True, 10**6, phrases=False) < 1.01


@pytest.mark.parametrize(
    "params", [{"cost": 1.0}, {"loss": "log"}, {"loss": "hinge"}, {"penalty": L1(0.001)}, {"penalty": "l1"}]
)
def test_the_margin_is_one_beside_a_given_loss_or_penalty(params: dict[str, object]) -> None:
    t = fit(WORDS, TAGS, **params)
    assert t.cost_ == 1.0
    assert t.penalty_.strength == pytest.approx(0.001 if isinstance(t.penalty, L1) else 0.4 / 1020)
    assert "margin of" not in t.settings_


def test_the_margin_is_one_for_phrases_for_partial_fit_and_in_older_files() -> None:
    assert fit(WORDS, ENTITIES).cost_ == 1.0
    assert SequenceTagger(verbose=0).partial_fit(WORDS, TAGS).cost_ == 1.0
    for given, expected in ((3.0, 3.0), ("auto", 1.0)):
        t = fit(WORDS, TAGS, cost=given)
        state, arrays = t.model_state()
        del state["cost_"]
        assert SequenceTagger.from_model_state({**state, "params": t.get_params()}, arrays).cost_ == expected


def test_none_is_no_penalty() -> None:
    t = fit(WORDS, ENTITIES, penalty=None)
    assert isinstance(t.penalty_, Zero)
    assert t.nonzeros_ > fit(WORDS, ENTITIES).nonzeros_


@pytest.mark.parametrize(
    ("labels", "sentences", "scheme"),
    [
        (["B-X", "I-X", "O"], [[0, 1, 2], [2, 0]], "BIO"),
        (["B-X", "I-X", "O"], [[1, 1, 0], [2, 1]], "IOB1"),
        (["B-X", "E-X", "I-X", "O", "S-X"], [[0, 2, 1, 3, 4]], "BIOES"),
        (["B-X", "I-X", "L-X", "O", "U-X"], [[0, 1, 2, 3, 4]], "BILOU"),
        (["I-X", "O"], [[0, 1]], None),
        (["ADJ", "NOUN"], [[0, 1]], None),
        (["B-X", "I-X", "O"], [[1, 0, 1], [0, 2, 1]], None),
    ],
)
def test_schemes_are_recognised(labels: list[str], sentences: list[list[int]], scheme: str | None) -> None:
    offsets = np.cumsum([0, *map(len, sentences)])
    found = chosen_constraints("auto", np.array(labels), np.concatenate(sentences), offsets)
    assert found.scheme == scheme
    assert found.broken.size == 0


def test_broken_sentences_by_hand() -> None:
    allowed = tag_constraints(["B-X", "I-X", "O"])
    y, offsets = np.array([2, 1, 0, 1, 1, 0, 2]), np.array([0, 2, 4, 4, 5, 7])
    np.testing.assert_array_equal(broken_sentences(allowed, y, offsets), [0, 3])


def test_labels_that_break_the_scheme_are_reported_and_left_alone() -> None:
    y = [list(labels) for labels in ENTITIES * 2]
    y[2][1] = "I-LOC"
    with pytest.warns(UserWarning, match=r"1 sentence has .* break BIO \(the first is sentence 2\)"):
        t = fit(WORDS * 2, y)
    assert t.constraints_ == "BIO"
    for labels in t.predict(WORDS):
        assert all(b[0] != "I" or a[1:] == b[1:] for a, b in zip(["O", *labels], labels, strict=False))


def test_the_settings_are_saved(tmp_path: object) -> None:
    t = fit(WORDS, ENTITIES)
    t.save(f"{tmp_path}/m")
    assert load_model(f"{tmp_path}/m").settings_ == t.settings_


def test_development_data_of_another_kind() -> None:
    with pytest.raises(DataError, match="dev has the labels NOUN, PROPN, VERB, none of them a training label"):
        SequenceTagger(verbose=0).fit(WORDS, ENTITIES, dev=(WORDS, TAGS))


def test_one_label_alone() -> None:
    with pytest.warns(UserWarning, match="y has only one label, 'O'"):
        t = fit(WORDS, [["O"] * len(s) for s in WORDS])
    assert t.predict(WORDS[:1]) == [["O"] * 4]


def test_all_weights_at_zero() -> None:
    with pytest.warns(UserWarning, match="every weight is zero"):
        fit(WORDS, ENTITIES, penalty=L1(100.0))


def in_scheme(labels: list[str], letters: str) -> list[str]:
    """BIO in another scheme, whose letters for begin, inside, end and single are given."""
    found = []
    for t, label in enumerate(labels):
        if label == "O":
            found.append(label)
            continue
        last = t + 1 == len(labels) or not labels[t + 1].startswith("I")
        which = (3 if last else 0) if label[0] == "B" else (2 if last else 1)
        found.append(letters[which] + label[1:])
    return found


@pytest.mark.parametrize("letters", ["BIES", "BILU", "BMEW", "BIIB"])
def test_phrases_are_recognised_in_every_scheme(letters: str) -> None:
    X = [[("an",), ("old",), ("red",), ("Bus",), ("in",), ("Rome",)], [("in",), ("Rome",)]] * 15
    bio = [["O", "B-X", "I-X", "I-X", "O", "B-X"], ["O", "B-X"]] * 15
    y = [in_scheme(labels, letters) for labels in bio]
    t = SequenceTagger(random_state=0, verbose=0).fit(X, y)
    assert t.templates_.startswith("entities")
    assert t.constraints_ == {"BIES": "BIOES", "BILU": "BILOU", "BIIB": "BIO"}.get(letters)
    assert t.evaluate(X, y).gold == 45
    assert t.score(X, y) == 1.0
    # Without the two phrases of one sentence, the two that are found there are wrong.
    wrong = [["O"] * 6, *y[1:]]
    assert t.evaluate(X, wrong).correct == 43
