"""The framework of the experiments, and each of them in a tiny form."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from spom.errors import DataError, SpomError, Unsupported
from spom.papers import Result, list_experiments, run
from spom.papers.command import reproduce
from spom.papers.page import html, rst
from spom.papers.running import draw

# Settings so small that a run takes about a second; a data set that an experiment needs is found by the fixture.
TINY: dict[str, dict[str, Any]] = {
    "spom-table1": {"epochs": 2, "grid": [1.0, 10.0], "parts": 2, "most_words": 12, "most_test_words": 10},
    "spom-fig1": {"epochs": 2, "shown": [1, 2], "most_words": 12, "most_test_words": 10},
    "spom-fig2": {"epochs": 10, "most_words": 12, "exact_epochs": 10, "steps": [1.0], "tuning_epochs": 2},
    "spom-fig3": {
        "sentences": 20,
        "test_sentences": 10,
        "templates": "compact",
        "epochs": 1,
        "refit_epochs": 1,
        "shares": [0.5],
    },
    "fobos-fig1": {"n": 60, "d": 10, "epochs": 2, "points": 5, "runs": 2, "tuning_runs": 1, "scales": [0.3, 1.0]},
    "fobos-fig3": {
        "data": ["landsat"],
        "landsat_examples": 60,
        "passes": {"landsat": 10, "mnist": 1},
        "runs": {"landsat": 1, "mnist": 1},
        "steps": [0.1],
        "points": 4,
    },
    "fobos-table1": {
        "data": ["landsat"],
        "landsat_examples": 60,
        "most_strengths": 2,
        "fista_rounds": 5,
        "most_rounds": 2,
    },
    "ocmd-rates": {"rounds": 2000, "runs": 1, "points": 8, "fit_from": 500},
    "ocmd-dimension": {"dimensions": [20, 40], "most_entries": 100_000, "goal": 0.8},
    "ocmd-bregman": {"d": 20, "relevant": 3, "rounds": 200, "points": 4, "runs": 1, "eps": [0.0, 0.1], "steps": [0.03]},
    "spom-regret": {"rounds": [20, 50]},
    "gpm-fig1": {"n": 30, "p": 40, "sparsities": [2, 4, 6], "rounds": 50},
    "gpm-table1": {"dimensions": [64], "tolerances": [1e-2], "repeats": 1},
    "gpm-fig2": {"rounds": 20, "cyclic_seconds": 0.2},
    "fobos-fig2": {"n": 60, "d": 10, "rounds": 30, "sparsity_rounds": 20, "steps": [3.0], "newton_steps": [4]},
}
FIRST = "fobos-fig1"


def test_every_experiment_is_whole() -> None:
    ids = [experiment.id for experiment in list_experiments()]
    assert len(set(ids)) == len(ids)
    for experiment in list_experiments():
        code = experiment.code
        assert experiment.reference
        assert set(code.QUICK) <= set(code.FULL), experiment.id
        assert json.loads(json.dumps(code.FULL)) == code.FULL, experiment.id
        assert experiment.settings(quick=True) != experiment.settings(), experiment.id


@pytest.mark.parametrize("id", TINY)
def test_tiny(id: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if next(e for e in list_experiments() if e.id == id).data:
        request.getfixturevalue("data_folder")
    result = run(id, quick=True, folder=tmp_path, seed=3, settings=TINY[id])
    assert result.table
    assert all(row.what and row.ours for row in result.table)
    assert (tmp_path / f"{id}.png").read_bytes()[:4] == b"\x89PNG"
    again = Result.load(tmp_path / f"{id}.json")
    assert [row.what for row in again.table] == [row.what for row in result.table]
    assert again.numbers.keys() == result.numbers.keys()
    assert draw(again)[:4] == b"\x89PNG"


def test_same_seed_same_numbers(tmp_path: Path) -> None:
    runs = [run(FIRST, folder=None, seed=s, settings=TINY[FIRST]).numbers for s in (1, 1, 2)]
    assert json.dumps(runs[0]) == json.dumps(runs[1]) != json.dumps(runs[2])


def test_result_keeps_what_json_cannot_say(tmp_path: Path) -> None:
    result = Result("fobos-fig1", "t", "FOBOS", "p", True, 0, {"a": [1]}, {"x": [math.inf, math.nan, 1 / 3]}, [])
    kept = Result.load(result.save(tmp_path)).numbers["x"]
    assert kept[0] == math.inf
    assert math.isnan(kept[1])
    assert kept[2] == pytest.approx(1 / 3, rel=1e-6)


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unsupported, match=r"no experiment 'fig9'.*fobos-fig1"):
        run("fig9")
    with pytest.raises(ValueError, match="no setting 'rows'"):
        run(FIRST, settings={"rows": 1})
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match="not the result of an experiment"):
        Result.load(tmp_path / "bad.json")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SpomError, match=r"pip install 'spom\[report\]'"):
        run(FIRST, folder=tmp_path, settings=TINY[FIRST])
    assert run(FIRST, folder=tmp_path, settings=TINY[FIRST], figure=False).table


def test_pages(tmp_path: Path) -> None:
    result = run(FIRST, folder=tmp_path, settings=TINY[FIRST])
    page = html([result], {"fobos-fig2": "no <data>"}, tmp_path)
    assert "data:image/png;base64" in page
    assert "no &lt;data&gt;" in page
    text = rst([result], "papers")
    assert ".. image:: papers/fobos-fig1.png" in text
    assert result.table[0].what.split(":")[0] in text


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Typer()
    app.command()(reproduce)
    shown = CliRunner().invoke(app, ["list"])
    assert all(experiment.id in shown.stdout for experiment in list_experiments())
    listed = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)
    assert {e["id"] for e in listed} == {e.id for e in list_experiments()}
    import spom.papers.fobos_fig1 as code

    monkeypatch.setattr(code, "QUICK", TINY[FIRST])
    done = CliRunner().invoke(app, [FIRST, "--quick", "-o", str(tmp_path), "--quiet"])
    assert done.exit_code == 0, done.output
    assert "paper" in done.stdout
    assert (tmp_path / f"{FIRST}.json").exists()
