"""The built documentation on a wide screen and on a telephone: nothing is wider than the screen, and code wraps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser, find_browser

BUILT = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = [
    "index",
    "start",
    "data",
    "architecture",
    "benchmarks",
    "generated/papers",
    "generated/operators",
    "generated/command",
]
PAGES += [
    f"{path.parent.name}/{path.stem}"
    for name in ("tasks", "guide", "migrating")
    for path in sorted((Path(__file__).parents[2] / "docs" / name).glob("*.*"))
    if path.suffix in (".rst", ".md") and path.stem not in ("defaults-tables", "scale-model")  # parts of other pages
]
# Code whose lines leave their box, and what is wider than the screen without a box to scroll in.
RUNS_OFF = """[...document.querySelectorAll('pre')].filter(p => p.offsetParent && p.scrollWidth > p.clientWidth + 1)
  .map(p => p.textContent.slice(0, 60))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not BUILT.is_dir():
        pytest.skip("needs the pages: make docs builds them")
    program = find_browser()
    if program is None or sys.platform == "win32":
        pytest.skip("needs Chromium: install the package chromium of your system")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_pages_fit(browser: Browser, width: int, dark: bool) -> None:
    wrong = {}
    for page in PAGES:
        path = BUILT / f"{page}.html"
        if not path.exists():
            wrong[page] = "is not there"
            continue
        browser.open(path, width, dark=dark)
        wide = browser.run("document.documentElement.scrollWidth")
        off = browser.run(RUNS_OFF)
        if wide > width or off:
            wrong[page] = f"{wide} pixels wide; {off}"
    assert wrong == {}


def test_the_guide_is_grouped_and_the_papers_page_explains_its_columns(browser: Browser) -> None:
    browser.open(BUILT / "guide" / "index.html", 1280)
    captions = browser.run(
        "[...document.querySelectorAll('article .caption-text, main .caption-text')].map(c => c.textContent)"
    )
    assert captions[:3] == ["Estimators", "What they are made of", "Working with them"]
    browser.open(BUILT / "generated" / "papers.html", 1280)
    heads = browser.run(
        "[...document.querySelectorAll('table thead tr')].map(r => [...r.cells].map(c => c.textContent.trim()))"
    )
    assert heads
    assert all(row == ["quantity", "paper", "ours", "met", "notes"] for row in heads)
    said = browser.run("document.querySelector('main, article').textContent")
    for name in ("quantity is what was measured", "met says whether"):
        assert name in " ".join(said.split())
