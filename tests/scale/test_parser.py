"""Parsers from shards: the words of one machine, nearly its scores, and the same file wherever they are learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import DependencyParser, load_model
from spom.data import Treebank
from spom.data.conllu import conllu_text
from spom.errors import DataError, Unsupported
from spom.penalties import SparseMKL
from spom.scale import Shards, fit
from spom.scale.averaged_merge import Averaged, changed, merge_into


def trees(count: int, seed: int) -> Treebank:
    """Short sentences in which adjectives belong to the next noun, and nouns to the verb."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(count):
        tags = random.choice(["ADJ", "NOUN", "ADV"], random.integers(1, 6)).tolist()
        at = int(random.integers(0, len(tags) + 1))
        tags.insert(at, "VERB")
        words = []
        for k, tag in enumerate(tags):
            nouns = [j for j in range(k + 1, len(tags)) if tags[j] == "NOUN"]
            head = 0 if tag == "VERB" else nouns[0] + 1 if tag == "ADJ" and nouns else at + 1
            relation = {"VERB": "root", "ADJ": "amod", "ADV": "advmod"}.get(tag, "nsubj" if k < at else "obj")
            form = f"{tag.lower()}{random.integers(0, 12)}"
            words.append({"form": form, "lemma": form, "upos": tag, "head": head, "deprel": relation})
        rows.append(words)
    return Treebank.from_sentences(rows)


TRAIN, TEST = trees(240, 0), trees(60, 1)


def parser(**given: Any) -> DependencyParser:
    return DependencyParser(**{"verbose": 0, "epochs": 4, "label_epochs": 3, "table_bits": 10, **given})


def test_the_same_file_from_any_number_of_threads(tmp_path: Path) -> None:
    found = []
    for n_jobs in (1, 3):
        model = fit(parser(), Shards.arrays(TRAIN, None, 5), n_jobs=n_jobs)
        model.save(tmp_path / "model.spom")
        found.append((tmp_path / "model.spom").read_bytes())
    assert found[0] == found[1]
    whole = parser().fit(TRAIN)
    assert model.relations_ == whole.relations_
    assert model.trees_ == whole.trees_
    for name, words in whole.arcs_.templates.vocabularies.items():
        assert model.arcs_.templates.vocabularies[name].strings() == words.strings()
    np.testing.assert_array_equal(model.arcs_.limits, whole.arcs_.limits)
    assert model.score(TEST) > whole.score(TEST) - 0.03
    assert load_model(tmp_path / "model.spom").predict(TEST).heads.tolist() == model.predict(TEST).heads.tolist()


@pytest.mark.parametrize("loss", ["mira", "log"])
def test_files_development_data_and_a_resumed_run(tmp_path: Path, loss: str) -> None:
    class Stop:
        def on_epoch(self, info: dict[str, Any]) -> bool:
            return bool(info["epoch"] == 2)

    (tmp_path / "train.conllu").write_bytes(conllu_text(TRAIN))
    shards, path = Shards.conllu(tmp_path / "train.conllu", 4), tmp_path / "run.checkpoint"
    whole = fit(parser(loss=loss), shards, dev=TEST)
    fit(parser(loss=loss, callbacks=[Stop()]), shards, dev=TEST, checkpoint=path, checkpoint_every="stop")
    again = fit(parser(loss=loss), shards, dev=TEST, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.arcs_.weights, whole.arcs_.weights)
    np.testing.assert_array_equal(again.labels_.weights, whole.labels_.weights)
    assert whole.evaluate(TEST).uas > 0.85


def test_one_shard_keeps_what_it_learnt() -> None:
    w, u = np.array([1.0, 0.0, 2.0, 0.0], dtype=np.float32), np.array([0.5, 0.0, 1.0, 0.0], dtype=np.float32)
    after = np.array([1.5, 0.0, 2.0, -1.0], dtype=np.float32), np.array([2.5, 0.0, 1.0, -3.0], dtype=np.float32)
    found = merge_into(w, u, [Averaged(*changed((w, u), after, []), 7.0, 10.0, 0.25, None)])
    np.testing.assert_allclose(w, after[0])
    np.testing.assert_allclose(u, after[1])
    assert (found.rounds, found.loss) == (7.0, 0.25)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_means_are_those_of_iterates_over_the_shards_that_changed_an_entry(jobs: int) -> None:
    random = np.random.default_rng(3)
    w, u = random.standard_normal(6).astype(np.float32), random.standard_normal(6).astype(np.float32)
    parts, dense = [], []
    for rounds, share in ((5.0, 2.0), (9.0, 4.0)):
        now = [w.copy(), u.copy()]
        for a in now:
            a[[0, 1] if rounds == 5.0 else [1, 2]] += 1.0 + rounds
        parts.append(Averaged(*changed((w, u), (now[0], now[1]), []), rounds, share, 0.0, None))
        dense.append((now[0], rounds * now[0] - now[1], share))
    before = w.copy()
    found = merge_into(w, u, parts, jobs)
    iterates = found.rounds * w - u
    np.testing.assert_allclose(w[0], dense[0][0][0], rtol=1e-6)
    np.testing.assert_allclose(w[1], (2 * dense[0][0][1] + 4 * dense[1][0][1]) / 6, rtol=1e-6)
    np.testing.assert_allclose(iterates[1], (2 * dense[0][1][1] + 4 * dense[1][1][1]) / 6, rtol=1e-5)
    np.testing.assert_allclose(iterates[2], dense[1][1][2], rtol=1e-5)
    np.testing.assert_array_equal(w[3:], before[3:])


def test_empty_shards_relations_in_one_shard_and_wrong_data() -> None:
    model = fit(parser(min_count=1), Shards.arrays(TRAIN[:5], None, 9))
    assert set(model.relations_) == set(TRAIN[:5].relation_names)
    with pytest.raises(DataError, match="shards of trees"):
        fit(parser(), Shards.arrays([["a"]] * 3, [["b"]] * 3, 2))
    for given in ({"second_stage": True}, {"order": 2}, {"penalty": SparseMKL(0.1)}):
        with pytest.raises(Unsupported, match="use fit of the parser"):
            fit(parser(**given), Shards.arrays(TRAIN, None, 2))
    with pytest.raises(ValueError, match="projective must be True, False or 'auto'; it is 'yes'"):
        fit(parser(projective="yes"), Shards.arrays(TRAIN, None, 2))
    with pytest.raises(Unsupported, match="give a number of templates"):
        fit(parser(prune="auto"), Shards.arrays(TRAIN, None, 2))


def test_templates_are_pruned_as_on_one_machine() -> None:
    whole = parser(prune=15).fit(TRAIN)
    parts = fit(parser(prune=15), Shards.arrays(TRAIN, None, 1))
    assert parts.arcs_.templates.blocks == whole.arcs_.templates.blocks
    several = [fit(parser(prune=15), Shards.arrays(TRAIN, None, 3), n_jobs=n) for n in (1, 2)]
    assert several[0].pruning_.kept.sum() == 15
    np.testing.assert_array_equal(*(model.arcs_.weights for model in several))
