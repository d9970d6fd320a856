"""Two strangers' journeys: from an empty folder to a model with scores, in five commands of the documentation."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.browser import Browser, find_browser

ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[str]:
    """Return the commands of the first block of a page that has any."""
    text = (ROOT / "docs" / "tasks" / page).read_text()
    block = next(b for b in re.findall(r"code-block:: text\n\n((?: {3}.*\n|\n)+)", text) if "spom data example" in b)
    return [line.strip() for line in block.splitlines() if line.strip()]


def travel(listed: list[str], folder: Path) -> dict[str, str]:
    """Run the commands, each in a process of its own; what each printed."""
    found = {}
    assert list(folder.iterdir()) == []
    for command in listed:
        words = shlex.split(command)
        assert words[0] == "spom"
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        done = subprocess.run(
            [sys.executable, "-m", "spom", *words[1:]], cwd=folder, capture_output=True, text=True, check=False, env=env
        )
        assert done.returncode == 0, (command, done.stderr)
        found[words[1]] = done.stdout
    return found


def charts(page: Path, profile: Path) -> list[str]:
    """Return the charts that a browser draws of a page."""
    program = find_browser()
    if program is None:
        return list(re.findall(r'id="chart-([\w-]+)"', page.read_text()))
    browser = Browser(program, profile)
    try:
        browser.open(page, 1280)
        browser.wait("[...document.querySelectorAll('.chart')].every(c => c.querySelector('svg .mlayer > *'))")
        assert browser.complaints == []
        return list(browser.run("[...document.querySelectorAll('.chart')].map(c => c.id.slice(6))"))
    finally:
        browser.close()


@pytest.mark.parametrize("page", ["label-words.rst", "classify.rst"])
def test_a_journey_has_at_most_five_commands(page: str) -> None:
    assert 1 < len(commands(page)) <= 5


def test_from_a_conll_file_to_a_tagger_with_scores(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    said = travel(commands("label-words.rst"), folder)
    assert re.search(r"m\.spom: F1 0\.9\d+, accuracy 0\.9\d+", said["train"])
    assert "kept (dev 0.9" in said["train"]
    f1 = re.search(r"FB1: +([\d.]+)", said["evaluate"])
    assert f1 is not None
    assert float(f1[1]) > 90.0
    tagged = (folder / "tagged.txt").read_text().splitlines()
    given = (folder / "test.txt").read_text().splitlines()
    assert [line.rsplit(" ", 1)[0] if line else "" for line in tagged] == given
    assert {"run-dev", "paths", "confusion"} <= set(charts(folder / "page.html", tmp_path / "profile"))


def test_from_a_table_to_a_classifier_with_plots(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    said = travel(commands("classify.rst"), folder)
    accuracy = re.search(r"accuracy:? +([\d.]+)", said["evaluate"])
    assert accuracy is not None
    assert float(accuracy[1]) > 0.9
    rows = list(csv.DictReader((folder / "scored.csv").open()))
    columns = [name for name in rows[0] if name.startswith("p(")]
    assert len(columns) == 3
    for row in rows:
        assert sum(float(row[name]) for name in columns) == pytest.approx(1.0, abs=1e-4)
        assert row["predicted"] == max(columns, key=lambda name: float(row[name]))[2:-1]
    right = sum(row["predicted"] == row["kind"] for row in rows) / len(rows)
    assert right == pytest.approx(float(accuracy[1]), abs=1e-3)
    assert {"run-objective", "paths", "shares"} <= set(charts(folder / "page.html", tmp_path / "profile"))


def test_the_commands_of_the_readme_are_those_of_the_task() -> None:
    """They differ in the name of the model alone, so that running those of the task runs these."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"(?m)^    spom data example sentences\n(?:    spom .*\n)+", text)
    assert block is not None
    listed = [line.strip().replace("tagger.spom", "m.spom") for line in block[0].splitlines()]
    assert listed == commands("label-words.rst")


def test_files_that_are_there_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from spom.cli.main import main

    (tmp_path / "test.csv").write_text("mine")
    assert main(["data", "example", "table", str(tmp_path)]) == 2
    assert "there already" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.csv"]
    assert main(["data", "example", "graphs", str(tmp_path)]) == 2
    assert "there are: sentences, table" in capsys.readouterr().err
