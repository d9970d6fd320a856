"""`make bench` says by its exit status and in its last line when a floor is missed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks import __main__ as program
from benchmarks.common import MISSED, Table
from benchmarks.freshness import PROBES, SHOWN, changed


@pytest.mark.parametrize("reached", [True, False, None])
def test_a_missed_floor_is_told(
    reached: bool | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("benchmarks.made_up")
    vars(module)["main"] = lambda: Table("speed").add("a fit", 2.0, 1.0, "ratio >= 1", reached)
    monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
    monkeypatch.setattr(program, "names", lambda: ["made_up"])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "made_up"])
    MISSED.clear()
    status = program.main()
    last = capsys.readouterr().out.splitlines()[-1]
    MISSED.clear()
    assert status == (1 if reached is False else 0)
    assert ("1 floor missed: speed: a fit" in last) == (reached is False)
    assert ("all floors are met" in last) == (reached is not False)


def test_a_benchmark_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("benchmarks.made_up")

    def main() -> None:
        raise RuntimeError("no data")

    vars(module)["main"] = main
    monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
    monkeypatch.setattr(program, "names", lambda: ["made_up"])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "made_up"])
    assert program.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "failed: made_up"


def test_rows_of_the_present_code_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.defaults import rows

    monkeypatch.setenv("SPOM_DEFAULTS", str(tmp_path))
    monkeypatch.delenv("SPOM_AGAIN", raising=False)
    made = rows.Row("tagging", "some", "columns", 0, 0.5, 1.0, 10, ours=True)
    rows.save("tagging", [made, replace(made, learner="peer", ours=False)])
    assert rows.is_stored("tagging", "some", "columns", 0)
    assert rows.is_stored("tagging", "some", "peer", 0, ours=False)
    assert not rows.is_stored("tagging", "some", "columns", 1)
    assert not rows.is_stored("parsing", "some", "columns", 0)
    # A row of other code stays in the file, and is run again.
    text = (tmp_path / "taggers.json").read_text()
    (tmp_path / "taggers.json").write_text(text.replace(rows.digest("tagging"), "other"))
    assert not rows.is_stored("tagging", "some", "columns", 0)
    assert len(rows.load("tagging")) == 2
    rows.save("tagging", [made])
    assert rows.is_stored("tagging", "some", "columns", 0)
    monkeypatch.setenv("SPOM_AGAIN", "1")
    assert not rows.is_stored("tagging", "some", "columns", 0)


STORED = {benchmark: program.RESULTS / f"{benchmark.replace(':', '-')}.json" for benchmark in SHOWN}


@pytest.mark.parametrize("probe", PROBES)
def test_stored_tables_are_of_the_present_code(probe: str) -> None:
    now = PROBES[probe]()
    for benchmark in (name for name, shown in SHOWN.items() if shown == probe):
        stored = json.loads(STORED[benchmark].read_text(encoding="utf-8"))["probe"][probe]
        again = f"python -m benchmarks --keep {benchmark}, then python tools/readme.py"
        assert not changed(stored, now), f"a tiny fit gives {now}, and {stored} when the table was stored: run {again}"


def test_every_table_of_the_readme_has_a_probe() -> None:
    assert sorted(program.RESULTS.glob("beside-*.json")) == sorted(STORED.values())
