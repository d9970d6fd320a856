"""The page on a wide screen and on a telephone, light and dark, in a browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spom.report.contents import Epoch
from spom.report.page import write_page
from tests.report import made_up
from tests.report.browser import Browser, find_browser

SCREENS = [(width, dark) for width in (1280, 390) for dark in (False, True)]
# Elements whose text has a contrast below 4.5 against what is behind it (WCAG AA).
CONTRAST = """(() => {
  const linear = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.map(linear);
    return .2126 * r + .7152 * g + .0722 * b };
  const parse = s => s.match(/[\\d.]+/g).map(Number);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c } return [255, 255, 255] };
  const bad = [];
  for (const e of document.querySelectorAll('h1, h2, h3, p, dt, dd, th, td, a, button, li, summary, label')) {
    if (!e.textContent.trim() || !e.offsetParent) continue;
    const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e).slice(0, 3));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push([e.tagName, e.textContent.trim().slice(0, 30), ratio]);
  }
  return bad })()"""
ROWS = """(() => { const rows = {};
  for (const t of document.querySelectorAll('.tiles > div')) { const r = t.getBoundingClientRect();
    (rows[Math.round(r.top)] ||= []).push([Math.round(r.left), Math.round(r.right)]) }
  return Object.values(rows) })()"""
TICKS = """Object.fromEntries([...document.querySelectorAll('.chart')]
  .filter(c => c.querySelector('.ytick, .xtick'))
  .map(c => [c.id, ['x', 'y'].map(a => [...c.querySelectorAll(`.${a}tick`)].map(t => t.textContent))]))"""
MENU = """[...document.querySelectorAll('nav a')].map(a => { const r = a.getBoundingClientRect();
  return [a.textContent, r.left, r.right, a.scrollWidth <= a.clientWidth + 1] })"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None or sys.platform == "win32":
        pytest.skip("needs Chromium: install the package chromium of your system")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("screens")
    close = [Epoch(k, loss=1.0 / k, dev=0.9994 + 0.0001 * k) for k in range(1, 6)]
    flat = [Epoch(k, loss=1.0 / k, dev=1.0) for k in range(1, 6)]
    made = {
        "tagger": made_up.tagger(),
        "kernels": made_up.kernels(),
        "close": replace(made_up.tagger(), epochs=close),
        "flat": replace(made_up.tagger(), epochs=flat),
    }
    return {name: write_page(contents, folder / f"{name}.html") for name, contents in made.items()}


def drawn(browser: Browser, path: Path, width: int, dark: bool) -> None:
    browser.open(path, width, dark=dark)
    browser.run("localStorage.clear()")
    browser.open(path, width, dark=dark)
    browser.wait("[...document.querySelectorAll('.chart')].every(c => c.querySelector('svg .mlayer > *'))")


@pytest.mark.parametrize(("width", "dark"), SCREENS)
@pytest.mark.parametrize("name", ["tagger", "kernels"])
def test_everything_fits_and_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    drawn(browser, pages[name], width, dark)
    assert browser.complaints == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.documentElement.dataset.theme || ''") in ("", "dark" if dark else "light")
    assert browser.run(CONTRAST) == []
    for text, left, right, whole in browser.run(MENU):
        assert left >= 0, text
        assert right <= width, f"{text} is cut off"
        assert whole, text


@pytest.mark.parametrize(("width", "most"), [(1280, 6), (800, 3), (390, 2)])
@pytest.mark.parametrize("count", range(1, 13))
def test_tiles_fill_their_rows(browser: Browser, tmp_path: Path, width: int, most: int, count: int) -> None:
    scores = {f"score {k}": float(k) for k in range(count)}
    empty = replace(made_up.kernels(), scores=scores, blocks=(), paths=None)
    browser.open(write_page(empty, tmp_path / "tiles.html"), width)
    rows = browser.run(ROWS)
    sizes = [len(row) for row in rows]
    assert sum(sizes) == count
    assert max(sizes) <= most
    # No row is much shorter than the others: never six and three.
    assert max(sizes) - min(sizes) <= (1 if width != 800 else 2) or sizes[-1] == 1 == len(rows[-1])
    if width == 390:
        assert {row[-1][1] for row in rows} == {rows[0][-1][1]} or count == 1, "an odd last tile takes the whole row"


@pytest.mark.parametrize("name", ["tagger", "kernels", "close", "flat"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_two_ticks_of_an_axis_are_the_same(browser: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    drawn(browser, pages[name], width, False)
    for chart, axes in browser.run(TICKS).items():
        for ticks in axes:
            assert len(set(ticks)) == len(ticks), (chart, ticks)


def test_the_menu_leads_to_the_sections(browser: Browser, pages: dict[str, Path]) -> None:
    drawn(browser, pages["tagger"], 390, False)
    for k in range(browser.run("document.querySelectorAll('nav a').length")):
        browser.run(f"document.querySelectorAll('nav a')[{k}].click()")
        browser.wait(
            "Math.abs(document.querySelector(location.hash).getBoundingClientRect().top) < 80 "
            "|| Math.ceil(scrollY + innerHeight) >= document.documentElement.scrollHeight - 2"
        )
