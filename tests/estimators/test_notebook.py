"""What a notebook shows: estimators as HTML, and progress through IPython's display, here a fake one."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from tests.estimators.test_protocol import BANK

from spom import DependencyParser, MKLClassifier, MKLRegressor, OnlineClassifier, ProximalRegressor, SequenceTagger
from spom.core.state import State
from spom.data.generated import ingredients
from spom.kernels import Gaussian, Linear
from spom.penalties import L1
from spom.solvers import iterate
from spom.solvers.iterate import in_notebook

X, Y = load_iris(return_X_y=True)


class Text(HTMLParser):
    """The text of a page, and whether every element that was opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("input", "br", "img", "meta", "path", "progress"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(estimator: Any) -> str:
    page = estimator._repr_mimebundle_()["text/html"]
    table = page[page.index("<table class='spom-summary'>") :] if "spom-summary" in page else ""
    text = Text(table)
    assert text.open == []
    return " ".join(text.words)


def test_a_tagger_shows_its_settings_scores_and_templates() -> None:
    train, dev = ingredients(200, seed=0), ingredients(50, seed=1)
    tagger = SequenceTagger(random_state=0, verbose=0)
    assert shown(tagger) == ""
    assert "SequenceTagger" in tagger._repr_mimebundle_()["text/html"]
    text = shown(tagger.fit(train, dev=dev))
    best = max(tagger.history_, key=lambda entry: entry["dev"])
    assert f"{best['dev']:.4f} in epoch {best['epoch']} of {len(tagger.history_)}" in text
    assert f"templates kept {tagger.selected_.size} of {len(tagger.blocks_)}" in text
    assert tagger.blocks_[int(np.argmax(tagger.block_weights_))] in text
    assert "learnt with templates" in text


def test_the_other_estimators() -> None:
    kernels = [Linear(normalize=True), Gaussian(1.0)]
    text = shown(MKLClassifier(kernels, solver="online", random_state=0).fit(X, Y))
    assert "kernels kept" in text
    assert "Gaussian(variance=1.0)" in text
    assert "kernels kept" in shown(MKLRegressor(kernels, random_state=0).fit(X, Y.astype(float)))
    text = shown(OnlineClassifier(penalty=L1(1e-2), random_state=0, verbose=0).fit(X, Y))
    assert "features kept" in text
    assert "x2" in text
    assert "features kept" in shown(ProximalRegressor(penalty=L1(1e-2), verbose=0).fit(X, Y.astype(float)))
    parser = DependencyParser(epochs=2, label_epochs=1, min_count=1, verbose=0).fit(BANK)
    assert f"templates kept {parser.selected_.size} of {len(parser.blocks_)}" in shown(parser)


def test_names_are_escaped() -> None:
    import pandas as pd

    frame = pd.DataFrame({"<b>": X[:, 2], "x&y": X[:, 3]})
    page = OnlineClassifier(random_state=0, verbose=0).fit(frame, Y)._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;" in page[page.index("spom-summary") :]
    assert "<b>" not in page[page.index("spom-summary") :]


class Handle:
    def __init__(self, updates: list[str]) -> None:
        self.updates = updates

    def update(self, content: Any) -> None:
        self.updates.append(content.data)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list in which a fake notebook records what it shows."""
    updates: list[str] = []
    shell = type("ZMQInteractiveShell", (), {})()
    main, display = ModuleType("IPython"), ModuleType("IPython.display")
    main.get_ipython = lambda: shell  # type: ignore[attr-defined]

    class HTML:
        def __init__(self, data: str) -> None:
            self.data = data

    def show(content: HTML, display_id: bool = False) -> Handle:
        assert display_id
        updates.append(content.data)
        return Handle(updates)

    display.HTML, display.display = HTML, show  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", main)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return updates


def states(count: int) -> Any:
    return (State(k=k, theta=np.ones(2), loss=1.0 / k) for k in range(1, count + 1))


def test_progress_in_a_notebook(notebook: list[str]) -> None:
    assert in_notebook()
    assert iterate.last(iterate.progress(states(4), total=4, label="<fit>", delay=0.0, refresh=0.0)).k == 4
    assert len(notebook) == 5
    assert "value='0.250'" in notebook[0]
    assert "&lt;fit&gt;  1/4" in notebook[0]
    assert "loss 0.25" in notebook[3]
    assert notebook[-1] == "", "nothing is left behind"


def test_without_a_total_and_early_ends(notebook: list[str]) -> None:
    running = iterate.progress(states(3), delay=0.0, refresh=0.0)
    next(running)
    running.close()
    assert "<progress style" in notebook[0]
    assert notebook[-1] == ""
    notebook.clear()
    iterate.last(iterate.progress(states(3)))
    assert notebook == [], "short runs show nothing"


def test_a_fit_shows_its_progress(notebook: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from spom.estimators.training import trainer

    quick = iterate.progress
    monkeypatch.setattr(trainer, "progress", lambda s, n, label: quick(s, n, label, delay=0.0, refresh=0.0))
    tagger = SequenceTagger(epochs=3, random_state=0).fit(ingredients(50, seed=0))
    assert len(notebook) == len(tagger.history_) + 1
    assert "SequenceTagger" in notebook[0]


def test_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("IPython")
    main.get_ipython = lambda: type("TerminalInteractiveShell", (), {})()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", main)
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()
