"""What the documentation shows is run: operators, pages, README and the example scripts."""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from spom.core import registry

ROOT = Path(__file__).parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE
PAGES = sorted([*(ROOT / "docs").glob("*.rst"), *(ROOT / "docs" / "guide").glob("*.rst")])
KINDS = [kind for kind, room in registry.ROOMS.items() if (ROOT / "src" / room.replace(".", "/")).is_dir()]


def name(what: Any) -> str:
    return what.name


@pytest.mark.parametrize("entry", [e for kind in KINDS for e in registry.entries(kind)], ids=name)
def test_the_example_of_each_operator_runs(entry: registry.Entry) -> None:
    module = sys.modules[entry.cls.__module__]
    (example,) = doctest.DocTestFinder(recurse=False).find(entry.cls, entry.cls.__name__, module=module)
    assert example.examples, "an operator shows itself at work"
    assert doctest.DocTestRunner(optionflags=FLAGS).run(example).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_examples_of_each_page_run(page: Path) -> None:
    assert doctest.testfile(str(page), module_relative=False, optionflags=FLAGS).failed == 0


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_prints_what_it_says() -> None:
    """A block of Python that is followed by a block of text prints that text."""
    found = blocks((ROOT / "README.md").read_text())
    pairs = [(a[1], b[1]) for a, b in itertools.pairwise(found) if (a[0], b[0]) == ("python", "text")]
    assert pairs, "the README shows Python and what it prints"
    for code, expected in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert printed.getvalue().split() == expected.split()


def test_links_in_the_readme_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert (ROOT / target).exists(), f"{page} links to {target}"


def test_the_demo_runs(capsys: pytest.CaptureFixture[str]) -> None:
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    demo["main"](quick=True)
    shown = capsys.readouterr().out
    assert "kept" in shown
    assert "nan" not in shown
