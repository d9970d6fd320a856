"""The parts of experiments, against what they stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spom.errors import DataError
from spom.losses import Hinge, Logistic, Squared
from spom.papers.fobos_fig2 import _Problem
from spom.papers.gpm_table1 import PRINTED as GPM_SECONDS
from spom.papers.ocmd_rates import Source
from spom.papers.spom_ocr import TABLE, accuracies, decoded, fit, gram_matrices, grams_of, words
from spom.papers.spom_regret import online_loss
from spom.papers.spom_trees import read_conll2008, trees
from spom.papers.synthetic import half_sparse, pegasos
from spom.penalties import L1, SparseMKL
from spom.solvers import LinearSmooth, OnlineProximal, Pegasos
from spom.solvers.iterate import last
from spom.solvers.steps import InverseSqrt


def test_pegasos_for_any_loss_is_pegasos_for_the_hinge() -> None:
    X, y = half_sparse(50, 6, seed=0)
    for project, radius in ((False, np.inf), (True, 0.1**-0.5)):
        ours = [w for _, w in pegasos((X, y), Hinge(), 0.1, radius=radius, epochs=3, every=50, seed=4)]
        theirs = [s.theta for s in Pegasos(X, y, 0.1, project=project, epochs=3, random_state=4)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


CONLL2008 = """1\tHe\the\tPRP\tPRP\tHe\the\tPRP\t2\tSBJ\t_\tA0
2\tsleeps\tsleep\tVBZ\tVBZ\tsleeps\tsleep\tVBZ\t0\tROOT\tsleep.01\t_
3\t.\t.\t.\t.\t.\t.\t.\t2\tP\t_\t_

1\tYes\tyes\tUH\tUH\tYes\tyes\tUH\t0\tROOT\t_
"""


def test_conll2008_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conll2008"
    folder.mkdir()
    for name in ("train.closed", "test.wsj.GOLD"):
        (folder / name).write_text(CONLL2008)
    monkeypatch.setenv("SPOM_DATA", str(tmp_path))
    train, dev, test = trees("conll2008", 1, None)
    assert (len(train), len(dev), len(test)) == (1, 0, 2)
    assert test.heads.tolist() == [2, 0, 2, 0]
    assert test.columns.strings("upos") == [["PRP", "VBZ", "PUNCT"], ["UH"]]


def test_conll2008_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="licensed"):
        read_conll2008(tmp_path / "none")
    (tmp_path / "bad").write_text(CONLL2008.replace("\t2\tSBJ", "\tx\tSBJ"))
    with pytest.raises(DataError, match="line 1: expected the columns"):
        read_conll2008(tmp_path / "bad")


def test_batch_fobos_is_the_solver_with_all_examples_in_a_batch() -> None:
    X, y = half_sparse(40, 6, seed=1)
    problem = _Problem(LinearSmooth(X, y, Logistic()), L1(0.05))
    options = {"step": InverseSqrt(2.0), "update": "forward-backward", "batch_size": None, "epochs": 7}
    run = OnlineProximal(X, y, loss="logistic", penalty=L1(0.05), **options)
    np.testing.assert_allclose(list(problem.fobos(2.0, 7)), [state.theta for state in run], rtol=1e-10, atol=1e-14)


def test_the_online_losses_are_those_of_the_solver() -> None:
    X, y = half_sparse(30, 6, seed=2)
    ours = online_loss(X, y, False, SparseMKL(0.1, 2), lambda t: 0.5 / np.sqrt(t), np.inf, 0.0)
    options = {"step": InverseSqrt(0.5), "update": "forward-backward", "shuffle": False, "regret": True}
    theirs = last(OnlineProximal(X, y, loss="logistic", penalty=SparseMKL(0.1, 2), **options))
    assert ours == pytest.approx(float(theirs.internal["cumulative"]), rel=1e-10)


def test_an_adversary_is_never_agreed_with() -> None:
    X, y = half_sparse(30, 6, seed=2)
    total = online_loss(X, y, True, SparseMKL(0.01, 2), lambda t: 0.5, np.inf, 0.0)
    assert total >= 30 * np.log(2.0)


def test_excess_risk_against_its_formula_and_against_examples() -> None:
    shares, w = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.4, 2.0])
    assert Source(Squared(), shares, 0.8).excess(w) == pytest.approx(0.5 * shares @ (w - 1.0) ** 2, rel=1e-6)
    source = Source(Logistic(), shares, 0.8)
    assert source.weights == pytest.approx(np.log(4.0), abs=1e-5)
    X, y = next(source.blocks([200_000], np.random.default_rng(0)))
    risk = [float(np.mean(np.logaddexp(0.0, -y * (X @ v)))) for v in (w, source.weights)]
    assert source.excess(w) == pytest.approx(risk[0] - risk[1], abs=0.01)


def test_accuracies_are_those_of_scores_by_the_gram_matrices(data_folder: Path) -> None:
    train = words(lambda folds: folds == 0, 15)
    kernels, base = gram_matrices(train)
    models = [model for model in TABLE if model.name in ("Average (L+B)/2", "MKL L, Q, G", "B1-spline (B)")]
    found = []
    for model in models:
        grams = grams_of(base, model)
        *_, fitted = fit(grams, train, model, 1.0, epochs=2)
        found.append(fitted)
    scored = []
    for fitted in found:
        scores = sum(np.asarray(base[k].dot(a)) for k, a in fitted.coef.items())
        scored.append(
            float(np.mean(decoded(np.ascontiguousarray(scores), train.offsets, fitted.transitions) == train.y))
        )
    assert accuracies(found, kernels, train.X, train, block=20) == pytest.approx(scored)
    assert min(scored) > 0.5


def test_printed_speed_up_is_the_papers() -> None:
    euclidean, other = GPM_SECONDS[512]
    assert euclidean[3] / other[3] == pytest.approx(251, abs=1)
    assert max(e / o for e, o in zip(*GPM_SECONDS[256], strict=True)) > 270
