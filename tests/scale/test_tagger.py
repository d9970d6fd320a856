"""Taggers from shards: the features of one machine, its scores, and the same file wherever they are learnt."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import SequenceTagger, load_model
from spom.data import Columns, read_conll
from spom.data.columns import joined
from spom.errors import Unsupported
from spom.features.templates import Templates
from spom.penalties import L1, GroupLasso, SparseMKL
from spom.scale import Shards, fit
from spom.scale.chain_merge import add_rows, apply_total, take_added
from spom.scale.vocabularies import counted, merged_templates

rng = np.random.default_rng(0)
WORDS = [f"{'Aa'[k % 2]}{'bcdfg'[k % 5]}{k}" for k in range(60)]


def sentences(count: int, seed: int = 0) -> Columns:
    """Draw words whose labels follow from the word and the previous label: phrases in BIO."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(count):
        before, tokens = "O", []
        for k in random.integers(0, 60, random.integers(1, 9)).tolist():
            kind = ("X", "Y", None)[k % 3]
            label = "O" if kind is None else f"{'I' if before.endswith(kind) else 'B'}-{kind}"
            tokens.append((WORDS[k], f"T{k % 4}", label))
            before = label
        rows.append(tokens)
    return Columns.from_lists(rows)


TRAIN, TEST = sentences(300), sentences(80, 1)


def tagger(**given: Any) -> SequenceTagger:
    return SequenceTagger(**{"random_state": 1, "verbose": 0, "epochs": 4, **given})


def names(templates: Templates) -> list[str]:
    return [templates.name(k) for k in range(templates.n_features)]


@pytest.mark.parametrize("cuts", [[0, 300], [0, 40, 41, 200, 300]])
@pytest.mark.parametrize("min_count", [1, 3])
def test_features_counted_by_shards_are_those_of_all_sentences(cuts: list[int], min_count: int) -> None:
    given = ["bias:", "w[0]", "w[-1]|w[0]", "w.lower.suffix2[0]|1[1]|w[0]|w[-1]", "w.prefix1[-2]", "1[0]"]
    whole = Templates(given, min_count=min_count)
    rows = whole.fit(TRAIN)
    parts = [TRAIN[a:b] for a, b in pairwise(cuts)]
    templates = Templates(given, min_count=min_count)
    found = merged_templates(templates, [counted(templates, part) for part in parts])
    assert names(found) == names(whole)
    np.testing.assert_array_equal(found.transform(TRAIN).indices, rows.indices)
    np.testing.assert_array_equal(found.transform(TEST).indices, whole.transform(TEST).indices)


def test_conjunctions_that_outgrow_64_bits_are_merged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from spom.features import conjunctions, tables

    monkeypatch.setattr(tables, "LIMIT", 5000)
    monkeypatch.setattr(conjunctions.Conjunctions.fit.__func__, "__defaults__", (5000,))  # type: ignore[attr-defined]
    whole = Templates(["w[-1]|w[0]|w[1]|1[0]"])
    whole.fit(TRAIN)
    templates = Templates(["w[-1]|w[0]|w[1]|1[0]"])
    found = merged_templates(templates, [counted(templates, TRAIN[:100]), counted(templates, TRAIN[100:])])
    assert sorted(names(found)) == sorted(names(whole))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"penalty": L1(1e-3), "loss": "log"},
        {"penalty": SparseMKL(1e-4)},
        {"penalty": GroupLasso(1e-3), "loss": "hinge", "average": True, "step": "sqrt"},
        {"templates": Templates(["w[0]", "w[-1]", "1[0]"], table=4096)},
        {"transitions": "learnt", "constraints": None},
    ],
    ids=str,
)
def test_the_same_file_from_any_number_of_threads_and_scores_of_one_machine(given: Any, tmp_path: Path) -> None:
    found = []
    for n_jobs in (1, 3):
        model = fit(tagger(**given), Shards.arrays(TRAIN, None, 5), n_jobs=n_jobs)
        model.save(tmp_path / "model.spom")
        found.append((tmp_path / "model.spom").read_bytes())
    assert found[0] == found[1]
    whole = tagger(**given).fit(TRAIN)
    assert model.settings_ == whole.settings_
    assert model.score(TEST) > whole.score(TEST) - 0.03
    assert load_model(tmp_path / "model.spom").predict(TEST) == model.predict(TEST)


def test_sums_of_shards_agree_with_dense_tables() -> None:
    """Compare `take_added`, `add_rows` and `apply_total` with numpy on all rows."""
    random, delta, lanes = np.random.default_rng(4), np.float32(0.1), 8
    table = random.standard_normal((20, 2 * lanes)).astype(np.float32)
    table[:, lanes:] = np.abs(table[:, lanes:]) + delta
    total, sums, squares = np.zeros_like(table), np.zeros((20, lanes)), np.zeros((20, lanes))
    for ids in (np.array([0, 3, 4, 9]), np.array([3, 4, 5, 19])):
        now = table[ids].copy()
        now[[0, 2], :lanes] += 1.5
        now[[0, 2], lanes:] += 0.5
        sums[ids] += now[:, :lanes] - table[ids, :lanes]
        squares[ids] += (now[:, lanes:] - delta) ** 2.0 - (table[ids, lanes:] - delta) ** 2.0
        rows = np.empty(4, dtype=np.int64)
        assert take_added(now, table, ids, delta, rows) == 2
        np.testing.assert_array_equal(rows[:2], ids[[0, 2]])
        add_rows(total, rows[:2], now[:2])
    expected = np.hstack(
        [table[:, :lanes] + sums / 2, delta + np.sqrt((table[:, lanes:] - delta) ** 2.0 + squares / 2)]
    )
    apply_total(table, total, np.float32(0.5), delta, True)
    np.testing.assert_allclose(table, expected, rtol=1e-5)
    assert not total.any()


def test_files_give_what_memory_gives(tmp_path: Path) -> None:
    lines = ["".join(" ".join(token) + "\n" for token in s) for s in TRAIN]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    model = fit(tagger(), Shards.conll(tmp_path / "train.conll", 1))
    memory = fit(tagger(), Shards.arrays(read_conll(tmp_path / "train.conll"), None, 1))
    np.testing.assert_array_equal(model.weights_, memory.weights_)
    cut = fit(tagger(), Shards.conll(tmp_path / "train.conll", 6), dev=TEST)
    assert cut.score(TEST) > 0.9
    assert len(cut.history_) == 4


def test_a_resumed_run_gives_the_same_weights(tmp_path: Path) -> None:
    class Stop:
        def on_epoch(self, info: dict[str, Any]) -> bool:
            return bool(info["epoch"] == 2)

    shards, path = Shards.arrays(TRAIN, None, 4), tmp_path / "run.checkpoint"
    for given in ({}, {"penalty": SparseMKL(1e-4)}):
        whole = fit(tagger(**given), shards, dev=TEST)
        fit(tagger(**given, callbacks=[Stop()]), shards, dev=TEST, checkpoint=path, checkpoint_every="stop")
        again = fit(tagger(**given), shards, dev=TEST, checkpoint=path, resume=True)
        np.testing.assert_array_equal(again.weights_, whole.weights_)
        np.testing.assert_array_equal(again.chain_, whole.chain_)
        os.unlink(path)


def test_empty_shards_labels_that_are_in_one_shard_alone_and_one_label() -> None:
    few = joined([TRAIN[:3], TRAIN[10:12]])
    model = fit(tagger(), Shards.arrays(few, None, 30))
    assert model.classes_.tolist() == sorted({token[-1] for s in few for token in s})
    with pytest.warns(UserWarning, match="one label alone"):
        fit(tagger(), Shards.arrays([["a", "b"]] * 4, [["N", "N"]] * 4, 2))


def test_gold_labels_that_break_the_scheme_are_counted() -> None:
    rows = [list(s) for s in TRAIN]
    rows[7] = [("Ab0", "T0", "I-X"), ("Ab1", "T1", "O")]
    with pytest.warns(UserWarning, match="1 sentence has gold labels that break BIO: they are learnt from"):
        model = fit(tagger(constraints="BIO"), Shards.arrays(Columns.from_lists(rows), None, 3))
    assert model.constraints_ == "BIO"


def test_what_cannot_be_sharded_says_so() -> None:
    for given in ({"prune": "auto"}, {"max_weights": 100}, {"update": "select", "penalty": GroupLasso(0.1)}):
        with pytest.raises(Unsupported, match=r"needs all sentences at once|give a number of templates"):
            fit(tagger(**given), Shards.arrays(TRAIN, None, 2))
    with pytest.raises(Unsupported, match="not of dicts"):
        fit(tagger(templates=None), Shards.arrays([[{"a": 1.0}]] * 4, [["N"]] * 4, 2))


def test_templates_are_pruned_by_sentences_of_all_shards(tmp_path: Path) -> None:
    """`1[0]` and `w.length[2]` say nothing that the words do not say better."""
    names = ["w[0]", "w[-1]", "1[0]", "w.length[2]"]
    files = []
    for n_jobs in (1, 2):
        model = fit(tagger(templates=names, prune=2), Shards.arrays(TRAIN, None, 4), n_jobs=n_jobs)
        model.save(tmp_path / "model")
        files.append((tmp_path / "model").read_bytes())
    assert files[0] == files[1]
    assert model.pruning_ is not None
    whole = tagger(templates=names, prune=2).fit(TRAIN)
    assert model.pruning_.selection.kept.tolist() == whole.pruning_.selection.kept.tolist()
    np.testing.assert_array_equal(model.selected_, whole.selected_)
    assert model.score(TEST) > whole.score(TEST) - 0.03
    with pytest.raises(ValueError, match="more than the 4 templates"):
        fit(tagger(templates=names, prune=9), Shards.arrays(TRAIN, None, 4))
