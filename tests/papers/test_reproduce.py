"""The framework of the experiments, and each of them in a tiny form."""

from __future__ import annotations

import ast
import json
import math
import sys
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from spom.errors import DataError, SpomError, Unsupported
from spom.papers import Result, list_experiments, run
from spom.papers.catalogue import find
from spom.papers.command import reproduce
from spom.papers.experiment import Experiment
from spom.papers.freshness import PROBE_SEED, _meaning, leaves, stale
from spom.papers.page import html, rst
from spom.papers.running import draw

FIRST = "fobos-fig1"
TINY = find(FIRST).code.TINY
# Changed since their last full run and not run again yet: `make reproductions` runs them.
NOT_STORED: set[str] = set()
STORED = Path(__file__).parents[2] / "docs" / "papers" / "results"


def test_every_experiment_is_whole() -> None:
    ids = [experiment.id for experiment in list_experiments()]
    assert len(set(ids)) == len(ids)
    for experiment in list_experiments():
        code = experiment.code
        assert experiment.reference
        assert set(code.QUICK) <= set(code.FULL), experiment.id
        assert json.loads(json.dumps(code.FULL)) == code.FULL, experiment.id
        assert experiment.settings(quick=True) != experiment.settings(), experiment.id


@pytest.mark.parametrize("experiment", list_experiments(), ids=lambda experiment: experiment.id)
def test_tiny(experiment: Experiment, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Check that it runs, draws and loads, that the stored result is current, and that quick runs have no verdict."""
    if experiment.data:
        request.getfixturevalue("data_folder")
    id = experiment.id
    result = run(id, quick=True, folder=tmp_path, seed=PROBE_SEED, settings=experiment.code.TINY)
    assert result.table
    assert all(row.met is None for row in result.table)
    assert all(row.what and row.ours for row in result.table)
    assert (tmp_path / f"{id}.png").read_bytes()[:4] == b"\x89PNG"
    again = Result.load(tmp_path / f"{id}.json")
    assert [row.what for row in again.table] == [row.what for row in result.table]
    assert again.numbers.keys() == result.numbers.keys()
    assert draw(again)[:4] == b"\x89PNG"
    if id not in NOT_STORED:
        assert stale(experiment, Result.load(STORED / f"{id}.json"), leaves(result.numbers)) is None


def test_what_makes_a_stored_result_stale() -> None:
    """Check that a moved module makes no result stale, but that a number or a computing function does."""
    before = (
        '"""Text."""\nfrom spom.a import f\nN = 3\ndef compute():\n    """Text."""\n    return f(N)\ndef draw(): pass\n'
    )
    moved = before.replace("spom.a", "spom.b.a").replace("Text", "Other text").replace("pass", "return 1")
    assert _meaning(ast.parse(moved)) == _meaning(ast.parse(before))
    for was, now in (("3", "4"), ("f(N)", "f(N + 1)")):
        assert _meaning(ast.parse(before.replace(was, now))) != _meaning(ast.parse(before))


def test_same_seed_same_numbers(tmp_path: Path) -> None:
    runs = [run(FIRST, folder=None, seed=s, settings=TINY).numbers for s in (1, 1, 2)]
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
        run(FIRST, folder=tmp_path, settings=TINY)
    assert run(FIRST, folder=tmp_path, settings=TINY, figure=False).table


def test_pages(tmp_path: Path) -> None:
    result = run(FIRST, folder=tmp_path, settings=TINY)
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

    monkeypatch.setattr(code, "QUICK", TINY)
    done = CliRunner().invoke(app, [FIRST, "--quick", "-o", str(tmp_path), "--quiet"])
    assert done.exit_code == 0, done.output
    assert "paper" in done.stdout
    assert (tmp_path / f"{FIRST}.json").exists()
