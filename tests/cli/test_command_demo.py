"""`spom demo`, `--help`, completion, data and report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import spom as library
from tests.cli.common import Command, process

COMMANDS = [
    *(["train", task] for task in ("tagger", "parser", "classifier", "regressor")),
    *([name] for name in ("predict", "evaluate", "inspect", "report", "demo")),
    *(["data", name] for name in ("list", "fetch")),
]


def test_the_demo(spom: Command, tmp_path: Path) -> None:
    folder, page = tmp_path / "demo", tmp_path / "page.html"
    done = spom.well("demo", "--quick", "--folder", folder, "--page", page)
    for word in ("Gaussian", "MKL", "beta", "templates", "generated", "raw text", "To try next"):
        assert word in done.out
    assert "nan" not in done.out
    assert library.load_model(folder / "tagger.spom").score(
        library.data.read_conll(folder / "test.txt", ["w", "shelf", "label"])
    ) > 0.8  # fmt: skip
    assert (folder / "trees.html").read_text().count("<svg") == 2
    assert len(library.load_model(folder / "pipeline.spom").predict("Fry the eggs. Wash the rice!")) == 2
    again = spom.well("demo", "--quick", "--json", "--page", page).json
    assert min(again["trees"].values()) > 0.95
    assert again["words"]["MKL, to the optimum"]["accuracy"] > again["words"]["Gaussian, narrow"]["accuracy"]
    assert sum(again["words"]["MKL, to the optimum"]["beta"].values()) == pytest.approx(1)
    assert again["ingredients"]["rows"]["--prune 8"]["blocks_kept"] == 8


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(spom: Command, words: list[str]) -> None:
    out = spom.well(*words, "--help").out
    assert f"Usage: spom {' '.join(words)}" in out
    assert "Examples:" in out
    assert f"  spom {' '.join(words)}" in out or f" spom {' '.join(words)}" in out
    assert "--debug" in out


def test_help_and_version(spom: Command) -> None:
    out = spom.well("--help").out
    for command in ("train", "predict", "evaluate", "inspect", "report", "data", "demo", "reproduce"):
        assert f"\n  {command} " in out
    assert spom.well().out == out
    assert spom.well("--version").out == f"spom {library.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from spom.cli.main import main; main(['--help']);"
        "print(sorted({'numpy', 'numba', 'sklearn', 'scipy', 'rich', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_tagging_imports_no_scikit_learn() -> None:
    heavy = {"sklearn", "pandas", "scipy.sparse", "numba"}
    code = f"import sys, spom.cli.sentences; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """Check the words that shell scripts get as completions."""
    words = {
        "bash": {"COMP_WORDS": "spom train cl", "COMP_CWORD": "2"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "spom train cl"},
        "fish": {"_TYPER_COMPLETE_ARGS": "spom train cl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = process(env={"_SPOM_COMPLETE": f"complete_{shell}", **words})
    assert b"classifier" in done.stdout
    assert b"tagger" not in done.stdout
    if shell == "bash":
        names = {"COMP_WORDS": "spom train classifier --penalty group", "COMP_CWORD": "4"}
        assert b"group-lasso" in process(env={"_SPOM_COMPLETE": "complete_bash", **names}).stdout


def test_data_sets(spom: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOM_DATA", str(tmp_path))
    found = spom.well("data", "list", "--json").json
    assert found["folder"] == str(tmp_path)
    assert found["sets"]["mnist"]["here"] is False
    assert found["sets"]["mnist"]["licence"]
    assert "spom data fetch mnist" in spom.well("data", "list").out
    assert "there is no data set 'nothing'" in spom.fails("data", "fetch", "nothing")


def test_a_report_needs_a_run(spom: Command, tmp_path: Path) -> None:
    assert "no such file" in spom.fails("report", tmp_path / "no.run.json")
    (tmp_path / "bad.run.json").write_text("{}")
    assert "no record of a run" in spom.fails("report", tmp_path / "bad.run.json")
    (tmp_path / "new.run.json").write_text('{"run": 99, "spom": "9.9"}')
    assert "written by spom 9.9" in spom.fails("report", tmp_path / "new.run.json")
    assert "this is a folder" in spom.fails("report", tmp_path)


def test_the_papers(spom: Command) -> None:
    assert "fobos" in spom.well("reproduce", "list").out
    assert "Usage: spom reproduce" in spom.well("reproduce", "--help").out
