"""The page itself: what is in the file, and what a browser makes of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spom.errors import Unsupported
from spom.report.contents import Block, Contents, Epoch
from spom.report.page import page_html, write_page
from tests.report import made_up
from tests.report.browser import Browser, find_browser

KINDS = {"tagger": made_up.tagger, "parser": made_up.parser, "kernels": made_up.kernels}


def without_plotly(html: str) -> str:
    """Return the page without its scripts, which contain addresses that are never opened."""
    return re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)


# --- the file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_refers_to_nothing_outside(kind: str) -> None:
    html = without_plotly(page_html(KINDS[kind]()))
    assert "Content-Security-Policy" in html
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', html) == []
    assert "http" not in html.replace("http-equiv", "")


def test_what_there_is_nothing_of_is_left_out() -> None:
    def sections(page: Contents) -> list[str]:
        return re.findall(r'<section id="(\w+)"', page_html(page))

    assert sections(Contents("empty")) == []
    assert sections(made_up.kernels()) == ["blocks"]
    assert sections(made_up.parser()) == ["sentences"]
    assert sections(made_up.tagger()) == ["run", "blocks", "features", "confusion", "transitions", "facts"]
    assert sections(replace(made_up.tagger(), features=(), confusion=None)) == ["run", "blocks", "transitions", "facts"]


def test_a_page_without_charts_is_small() -> None:
    assert len(page_html(Contents("empty"))) < 50_000


def test_ends_of_the_scale() -> None:
    """Show one epoch, a block that is off, no numbers at all, and very many blocks."""
    few = page_html(Contents("few", epochs=[Epoch(1)], blocks=[Block("off", 0.0)]))
    assert "0 of 1 blocks are kept" in few
    assert "plotly.js" not in few
    many = page_html(Contents("many", blocks=[Block(f"block {i}", float(i)) for i in range(5000)]))
    assert many.count("<tr") == 2001
    assert "The 2,000 that weigh most, of 5,000." in many


class Balance(HTMLParser):
    """Every element that is opened is closed in its order."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", KINDS)
def test_the_markup_is_balanced_and_ids_are_unique(kind: str) -> None:
    parser = Balance()
    parser.feed(page_html(KINDS[kind]()))
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))


def test_the_file_is_moved_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(FileNotFoundError):
        write_page(Contents("x"), tmp_path / "nowhere" / "page.html")
    with monkeypatch.context() as broken:
        broken.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
        with pytest.raises(OSError, match="no space left"):
            write_page(Contents("x"), path)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert write_page(Contents("x"), path) == path
    assert path.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unsupported, match=rf"{package}, which is not installed: pip install spom\[report\]"):
        page_html(made_up.kernels())


# --- in a browser ---------------------------------------------------------------------------------------


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
    folder = tmp_path_factory.mktemp("pages")
    return {kind: write_page(make(), folder / f"{kind}.html") for kind, make in KINDS.items()}


CHARTS = {
    "tagger": ["run-objective", "run-dev", "run-blocks", "run-nonzeros", "paths", "shares", "confusion", "transitions"],
    "parser": [],
    "kernels": ["paths", "shares"],
}
DRAWN = (
    "[...document.querySelectorAll('.chart')].filter(c => c.querySelector('svg .mlayer > *')).map(c => c.id.slice(6))"
)


@pytest.mark.parametrize("width", [1200, 375])
@pytest.mark.parametrize("kind", KINDS)
def test_it_opens_without_a_complaint_and_draws(
    browser: Browser, pages: dict[str, Path], kind: str, width: int
) -> None:
    browser.open(pages[kind], width)
    browser.wait(f"({DRAWN}).length === {len(CHARTS[kind])}")
    assert browser.run(DRAWN) == CHARTS[kind]
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.title") == made_up_title(kind)
    # Nothing is wider than the screen: only tables, charts and trees scroll, each in its own place.
    assert browser.run("document.documentElement.scrollWidth") <= width


def made_up_title(kind: str) -> str:
    return f"{KINDS[kind]().title} · spom"


def test_charts_show_the_numbers(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["tagger"])
    contents = made_up.tagger()
    drawn = "document.getElementById('chart-{}').data"
    assert browser.run(drawn.format("run-dev") + "[0].y") == [e.dev for e in contents.epochs]
    shares = browser.run(drawn.format("shares") + "[0].x")
    assert shares == sorted((b.weight for b in contents.blocks if b.kept), reverse=True)
    assert browser.run(drawn.format("transitions") + "[0].z") == contents.transitions.values
    last = {t["name"]: t["y"][-1] for t in browser.run(drawn.format("paths")) if t["name"] != "others"}
    weights = {b.name: b.weight for b in contents.blocks}
    assert len(last) == 8
    assert all(weights[name.replace("&amp;", "&")] == y for name, y in last.items())
    assert min(last.values()) >= sorted(weights.values())[-8]


CELLS = (
    "[...document.querySelectorAll('#blocks-table tbody tr')].filter(r => !r.hidden).map(r => r.cells[{}].textContent)"
)


def test_the_table_sorts_and_filters_with_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["tagger"])
    names = sorted((b.name for b in made_up.tagger().blocks), key=str.lower)
    focus = "document.querySelectorAll('#blocks-table th button')[{}].focus()"
    order = "[...document.querySelectorAll('#blocks-table thead th')].map(h => h.getAttribute('aria-sort'))"
    assert browser.run(order) == [None, "descending", None, None]
    browser.run(focus.format(2))
    browser.press("Enter")
    assert browser.run(order) == [None, None, "descending", None]
    sizes = [int(text.replace(",", "")) for text in browser.run(CELLS.format(2))]
    assert sizes == sorted(sizes, reverse=True)
    assert sorted(browser.run(CELLS.format(0)), key=str.lower) == names
    browser.press(" ")
    assert browser.run(order) == [None, None, "ascending", None]
    assert [int(text.replace(",", "")) for text in browser.run(CELLS.format(2))] == sizes[::-1]
    browser.run(focus.format(0))
    browser.press("Enter")
    first = browser.run(CELLS.format(0))
    assert first.index("noise 2") < first.index("noise 10"), "numbers in names sort as numbers"
    browser.run("document.getElementById('block-search').focus()")
    browser.call("Input.insertText", text="prefix")
    assert len(browser.run(CELLS.format(0))) == 5
    assert browser.run("document.getElementById('block-count').textContent") == "5 of 55 shown"
    browser.run("document.getElementById('block-kept').focus()")
    browser.press(" ")
    kept = [b.name for b in made_up.tagger().blocks if b.kept and "prefix" in b.name]
    assert sorted(browser.run(CELLS.format(0))) == sorted(kept)


def test_everything_that_can_be_used_is_reached_by_tab(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["tagger"])
    wanted = browser.run("document.querySelectorAll('button, a, input, summary').length")
    browser.run("window.met = new Set(); addEventListener('focusin', e => met.add(e.target))")
    for _ in range(wanted + 40):
        browser.press("Tab")
    left = browser.run(
        "[...document.querySelectorAll('button, a, input, summary, [tabindex]')]"
        ".filter(e => !met.has(e) && e.checkVisibility()).map(e => e.outerHTML.slice(0, 80))"
    )
    assert left == []


def test_everything_has_a_name_for_those_who_do_not_see_it(browser: Browser, pages: dict[str, Path]) -> None:
    roles = {"button", "link", "checkbox", "searchbox", "image", "region"}
    for page in pages.values():
        browser.open(page)
        browser.call("Accessibility.enable")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        browser.call("Accessibility.disable")
        told = [n for n in nodes if not n.get("ignored") and n.get("role", {}).get("value") in roles]
        assert {n["role"]["value"] for n in told} >= {"button", "image", "region"}
        assert [n for n in told if not n.get("name", {}).get("value")] == []


def test_dark_and_light(browser: Browser, pages: dict[str, Path]) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, "
        "document.getElementById('chart-shares').layout.font.color, "
        "document.getElementById('chart-shares').data[0].marker.color]"
    )
    browser.open(pages["kernels"], dark=False)
    browser.run("localStorage.clear()")
    browser.open(pages["kernels"], dark=False)
    light = browser.run(colours)
    browser.open(pages["kernels"], dark=True)
    dark = browser.run(colours)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    browser.run("document.getElementById('theme').focus()")
    browser.press("Enter")
    assert browser.run(colours) == light
    browser.open(pages["kernels"], dark=True)
    assert browser.run(colours) == light, "the choice is remembered"
    browser.run("localStorage.clear()")
    assert browser.complaints == []


def test_switches_change_what_the_charts_show(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["tagger"])
    contents = made_up.tagger()
    place = "document.getElementById('chart-{}')"
    browser.run("document.querySelector('[data-axis=seconds]').click()")
    assert browser.run(place.format("run-dev") + ".data[0].x") == [e.seconds for e in contents.epochs]
    assert browser.run(place.format("run-dev") + ".layout.xaxis.title.text") == "seconds"
    browser.run("document.querySelector('[data-axis=epochs]').click()")
    assert browser.run(place.format("run-dev") + ".data[0].x") == [e.epoch for e in contents.epochs]
    browser.run("document.getElementById('errors-only').click()")
    shares = browser.run(place.format("confusion") + ".data[0].z")
    assert [row[i] for i, row in enumerate(shares)] == [0.0] * 11
    assert shares[0][1] == pytest.approx(contents.confusion.values[0][1] / sum(contents.confusion.values[0]))


def test_trees_are_drawn_with_their_arcs(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["parser"])
    count = "document.querySelectorAll('#tree-{} path.{}:not(.tip)').length"
    assert [browser.run(count.format(0, kind)) for kind in ("right", "wrong", "gold")] == [6, 1, 1]
    assert [browser.run(count.format(1, kind)) for kind in ("right", "wrong", "gold")] == [13, 2, 2]
    assert [browser.run(count.format(2, kind)) for kind in ("right", "wrong", "gold")] == [2, 0, 0]
    words = browser.run("[...document.querySelectorAll('#tree-2 text:not(.relation)')].map(t => t.textContent)")
    assert words == ["ROOT", "Yes", made_up.NASTY]
    inside = """[...document.querySelectorAll('.tree svg')].every(
        s => [...s.querySelectorAll('path, text')].every(p => {
            const b = p.getBBox();
            const right = s.width.baseVal.value, bottom = s.height.baseVal.value;
            return b.x >= 0 && b.y >= 0 && b.x + b.width <= right && b.y + b.height <= bottom;
        }))"""
    assert browser.run(inside)
