"""The parts of experiments, against what they stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spom.errors import DataError
from spom.losses import Hinge
from spom.papers.spom_trees import read_conll2008, trees
from spom.papers.synthetic import half_sparse, pegasos
from spom.solvers import Pegasos


def test_pegasos_for_any_loss_is_pegasos_for_the_hinge() -> None:
    X, y = half_sparse(50, 6, seed=0)
    for project, radius in ((False, np.inf), (True, 0.1**-0.5)):
        ours = [w for _, w in pegasos(X, y, Hinge(), 0.1, radius=radius, epochs=3, every=50, seed=4)]
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
    train, test = trees("conll2008", 1, None)
    assert (len(train), len(test)) == (1, 2)
    assert test.heads.tolist() == [2, 0, 2, 0]
    assert test.columns.strings("upos") == [["PRP", "VBZ", "PUNCT"], ["UH"]]


def test_conll2008_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="licensed"):
        read_conll2008(tmp_path / "none")
    (tmp_path / "bad").write_text(CONLL2008.replace("\t2\tSBJ", "\tx\tSBJ"))
    with pytest.raises(DataError, match="line 1: expected the columns"):
        read_conll2008(tmp_path / "bad")
