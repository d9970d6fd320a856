"""Taggers at the optimum: `solver="batch"`, `gap_`, `tol`, checkpoints, and paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import SequenceTagger
from spom.errors import Unsupported
from spom.penalties import L1, GroupLasso, SparseMKL, Sum

RNG = np.random.default_rng(0)
WORDS = np.array(list("abcdefgh"))
X = [[(str(WORDS[i]), str(i % 3)) for i in RNG.integers(0, 8, RNG.integers(1, 6))] for _ in range(40)]
Y = [["x" if RNG.random() < 0.1 else "yz"[token[0] in "abc"] for token in sentence] for sentence in X]
TEMPLATES = ["w[0]", "w[-1]", "1[0]", "1[1]"]


class StopInTheBatchStage:
    """A callback that ends the run after its second round."""

    def on_epoch(self, entry: dict[str, Any]) -> bool:
        return "gap" in entry and entry["epoch"] == 1


def tagger(**params: Any) -> SequenceTagger:
    settings = {"transitions": "learnt", "penalty": L1(0.01), "random_state": 0, "verbose": 0}
    return SequenceTagger(TEMPLATES, **{**settings, **params})


def test_batch_reaches_its_tolerance_whatever_the_online_run_was() -> None:
    online = tagger(loss="log").fit(X, Y)
    batch = tagger(solver="batch", tol=1e-5).fit(X, Y)
    end = batch.history_[-1]
    assert batch.loss_ == "log"
    assert batch.converged_
    assert 0.0 <= end["gap"] <= 1e-5 * end["objective"]
    assert batch.gap_ <= 3e-5
    assert online.gap_ > batch.gap_
    assert end["objective"] <= batch.history_[batch.epochs_]["objective"]
    other = tagger(solver="batch", tol=1e-5, random_state=7).fit(X, Y)
    np.testing.assert_allclose(other.history_[-1]["objective"], end["objective"], rtol=2e-5)


def test_the_gap_of_each_epoch_is_in_the_history_and_stops_the_run() -> None:
    every = tagger(loss="log", tol=0.0, epochs=8).fit(X, Y)
    gaps = [entry["gap"] / entry["objective"] for entry in every.history_]
    assert len(gaps) == 8
    goal = gaps[3]
    first = next(i for i, gap in enumerate(gaps) if gap <= goal)
    short = tagger(loss="log", tol=goal, epochs=8).fit(X, Y)
    assert len(short.history_) == first + 1
    assert short.converged_
    assert short.gap_ == pytest.approx(short.history_[-1]["gap"], rel=1e-6)
    assert "gap" not in tagger(loss="log", epochs=1).fit(X, Y).history_[0]


def test_no_certificate_where_the_chain_is_free_or_the_loss_is_another() -> None:
    assert np.isnan(tagger(transitions="fixed", loss="log").fit(X, Y).gap_)
    assert np.isnan(tagger(loss="softmax-margin").fit(X, Y).gap_)
    assert np.isfinite(tagger(penalty=SparseMKL(0.05), transitions="fixed", loss="log").fit(X, Y).gap_)


def test_group_penalties_go_to_the_optimum_too() -> None:
    fitted = tagger(penalty=GroupLasso(0.05), solver="batch", tol=1e-4).fit(X, Y)
    assert fitted.gap_ <= 1.1e-4 * fitted.history_[-1]["objective"] + 1e-6
    assert 0 < fitted.selected_.size < len(TEMPLATES)
    off = np.setdiff1d(np.arange(len(TEMPLATES)), fitted.selected_)
    assert not fitted.block_weights_[off].any()


def test_a_checkpoint_of_the_batch_stage_resumes_to_the_same_bits(tmp_path: Path) -> None:
    params: dict[str, Any] = {"solver": "batch", "tol": 1e-7, "penalty": GroupLasso(0.02)}
    whole = tagger(**params).fit(X, Y)
    assert sum("gap" in entry for entry in whole.history_) > 2
    path = tmp_path / "run"
    tagger(**params, callbacks=[StopInTheBatchStage()]).fit(X, Y, checkpoint=path, checkpoint_every=1)
    again = tagger(**params).fit(X, Y, checkpoint=path, resume=True)
    assert len(again.history_) == len(whole.history_)
    np.testing.assert_array_equal(again.weights_, whole.weights_)
    np.testing.assert_array_equal(again.chain_, whole.chain_)


def test_a_path_falls_and_each_solution_is_that_of_a_fit() -> None:
    found = tagger(tol=1e-6).path(X, Y, n_strengths=4, ratio=0.05)
    assert (np.diff(found.strengths) < 0).all()
    assert found.nonzeros[0] == 0
    assert (found.gaps <= 1e-6 * found.objectives).all()
    alone = tagger(penalty=L1(found.strengths[2]), solver="batch", tol=1e-6).fit(X, Y)
    assert found.objectives[2] == pytest.approx(alone.history_[-1]["objective"], rel=3e-6)
    assert found.kept[2].tolist() == alone.selected_.tolist()
    given = tagger(tol=1e-6).path(X, Y, strengths=[0.01, 0.05])
    assert given.strengths.tolist() == [0.05, 0.01]


def test_settings_that_do_not_go_together_are_one_line() -> None:
    with pytest.raises(Unsupported, match="minimises the log loss"):
        tagger(solver="batch", loss="hinge").fit(X, Y)
    with pytest.raises(Unsupported, match="update='select' or max_weights"):
        tagger(solver="batch", max_weights=3).fit(X, Y)
    with pytest.raises(Unsupported, match="sample weights"):
        tagger(solver="batch").fit(X, Y, sample_weight=np.ones(len(X)))
    with pytest.raises(Unsupported, match="no strength"):
        tagger(penalty=Sum([GroupLasso(0.1), L1(0.1)]), update="select").path(X, Y)
    with pytest.raises(ValueError, match="tol must be"):
        tagger(tol=-1.0).fit(X, Y)
