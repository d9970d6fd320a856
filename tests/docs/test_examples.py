"""What the documentation shows is run: pages, README and the example scripts."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import itertools
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import penalties
from spom.core import registry
from tests.penalties import naive

ROOT = Path(__file__).parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGES = sorted(
    [
        *(ROOT / "docs").glob("*.rst"),
        *(p for part in ("guide", "tasks", "migrating") for p in (ROOT / "docs" / part).glob("*.rst")),
    ]
)
KINDS = [kind for kind, package in registry.PACKAGES.items() if (ROOT / "src" / package.replace(".", "/")).is_dir()]


def name(what: Any) -> str:
    return what.name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_examples_of_each_page_run(page: Path) -> None:
    assert doctest.testfile(str(page), module_relative=False, optionflags=FLAGS).failed == 0


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_prints_what_it_says() -> None:
    """Check that a block of Python that is followed by a block of text prints that text."""
    found = blocks((ROOT / "README.md").read_text())
    pairs = [(a[1], b[1]) for a, b in itertools.pairwise(found) if (a[0], b[0]) == ("python", "text")]
    assert pairs, "the README shows Python and what it prints"
    for code, expected in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert printed.getvalue().split() == expected.split()


def test_the_readme_names_every_operator() -> None:
    text = (ROOT / "README.md").read_text()
    for kind in ("penalty", "loss", "mirror"):
        assert [e.cls.__name__ for e in registry.entries(kind) if f"`{e.cls.__name__}`" not in text] == []


def test_the_ten_steps_make_a_penalty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the code of CONTRIBUTING.md, assembled as described there, with the naive twin described there."""
    text = re.findall(r"^ +```python\n(.*?)^ +```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    kernel, cls, decorated, twin = (textwrap.dedent(block) for block in text)
    path = tmp_path / "huber.py"
    path.write_text(kernel + decorated.partition("class Huber")[0] + cls)
    spec = importlib.util.spec_from_file_location("huber", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "huber", module)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    spec.loader.exec_module(module)
    monkeypatch.setattr(penalties, "Huber", module.Huber, raising=False)
    exec(compile(twin, "CONTRIBUTING.md", "exec"), vars(naive).copy())
    w = np.random.default_rng(0).standard_normal(50) * 4
    for penalty in registry.find("penalty", "huber").examples():
        np.testing.assert_allclose(penalty.prox(w, 0.7), naive.naive_prox(penalty, w, 0.7), rtol=1e-13)
    assert doctest.testmod(module).failed == 0


def test_links_in_the_readme_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert (ROOT / target).exists(), f"{page} links to {target}"
