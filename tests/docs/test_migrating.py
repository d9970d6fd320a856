"""Every command on the pages for people who come from another tool is run, on small files with the names used there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from spom.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "migrating").glob("*.rst"))


def commands(page: Path) -> list[str]:
    """Return the commands of spom in the blocks of a page, in order."""
    text = page.read_text().replace("\\\n", "")
    return re.findall(r"^ {3}(spom (?:train|predict|evaluate|inspect) .*)$", text, re.MULTILINE)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Ten small examples in each format."""
    columns = "the DT B-NP\ncat NN I-NP\nsleeps VBZ B-VP\n\na DT B-NP\ndog NN I-NP\nbarks VBZ B-VP\n\n"
    items = "B\tw=the\tfirst\nI\tw=cat\nO\tw=sleeps\n\nB\tw=a\tfirst\nI\tw=dog\nO\tw=barks\n\n"
    rows = "1 1:1 3:0.5\n-1 2:1 3:0.25\n1 1:0.9\n-1 2:0.8 4:1\n"
    words = [("1", "the", "DET", "2", "det"), ("2", "cat", "NOUN", "3", "nsubj"), ("3", "sleeps", "VERB", "0", "root")]
    tree = "".join(f"{i}\t{w}\t{w}\t{t}\t_\t_\t{h}\t{r}\t_\t_\n" for i, w, t, h, r in words) + "\n"
    for name, text in (("data", columns), ("crfsuite", items), ("svm", rows), ("conllu", tree)):
        for part in ("train", "dev", "test"):
            (tmp_path / f"{part}.{name}").write_text(text * 10)
    (tmp_path / "template").write_text("U00:%x[-1,0]\nU01:%x[0,0]\nU02:%x[0,1]\n\nB\n")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(
    page: Path, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    for command in commands(page):
        assert main(shlex.split(command)[1:]) == 0, (command, capsys.readouterr().err)


def test_every_page_with_another_tools_command_was_found() -> None:
    named = {page.stem for page in PAGES if commands(page)}
    assert {"crfsuite", "crfpp", "wapiti", "vowpal-wabbit", "liblinear", "udpipe"} <= named
