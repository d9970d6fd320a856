"""Each plot shows what the model holds, and returns its axes."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from sklearn.datasets import load_iris

from spom import OnlineClassifier, ProximalRegressor, SequenceTagger, plot
from spom.data import Treebank
from spom.data.generated import ingredients
from spom.errors import Unsupported
from spom.penalties import L1

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture(scope="module")
def flowers() -> OnlineClassifier:
    return OnlineClassifier(penalty=L1(1e-3), random_state=0, verbose=0).fit(X, NAMES[Y])


@pytest.fixture(scope="module")
def tagger() -> SequenceTagger:
    return SequenceTagger(random_state=0, verbose=0, epochs=3).fit(ingredients(200, seed=0))


@pytest.fixture(autouse=True)
def closed() -> object:
    yield
    matplotlib.pyplot.close("all")


def widths(ax: object) -> list[float]:
    return [bar.get_width() for bar in ax.patches]


def test_blocks(tagger: SequenceTagger) -> None:
    ax = plot.blocks(tagger, count=5)
    assert widths(ax) == pytest.approx(sorted(tagger.block_weights_, reverse=True)[:5])
    assert ax.get_title().startswith(f"{tagger.selected_.size} of {len(tagger.blocks_)}")


def test_blocks_over_epochs(tagger: SequenceTagger, flowers: OnlineClassifier) -> None:
    ax = plot.blocks_over_epochs(tagger, count=4)
    assert len(ax.lines) == 4
    assert len(ax.lines[0].get_xdata()) == 3
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(tagger.block_weights_.max())
    with pytest.raises(Unsupported, match="no history of its blocks"):
        plot.blocks_over_epochs(flowers)


def test_top_features(flowers: OnlineClassifier, tagger: SequenceTagger) -> None:
    row = flowers.coef_[2]
    assert widths(plot.top_features(flowers, "virginica", count=2)) == pytest.approx(row[np.argsort(-abs(row))[:2]])
    assert len(plot.top_features(tagger, "B-NAME", count=7).patches) == 7
    with pytest.raises(ValueError, match="unknown label 'oak'"):
        plot.top_features(flowers, "oak")


def test_confusion_counts_are_right(flowers: OnlineClassifier) -> None:
    ax = plot.confusion(flowers, X, NAMES[Y])
    shown = {t.get_position(): int(t.get_text()) for t in ax.texts}
    assert sum(shown.values()) == 150
    assert sum(n for (a, b), n in shown.items() if a == b) == round(150 * flowers.score(X, NAMES[Y]))


def test_the_path_starts_at_zero() -> None:
    random = np.random.default_rng(0)
    A = random.standard_normal((60, 5))
    b = A[:, 0] - A[:, 1] + 0.1 * random.standard_normal(60)
    ax = plot.path(ProximalRegressor(penalty=L1(0.1), fit_intercept=False, verbose=0), A, b, count=6)
    lines = np.array([line.get_ydata() for line in ax.lines[:5]])
    np.testing.assert_allclose(lines[:, 0], 0.0, atol=1e-6)
    np.testing.assert_allclose(lines[:, -1], [1.0, -1.0, 0.0, 0.0, 0.0], atol=0.1)


def test_a_tree_has_its_words_and_relations() -> None:
    words = [("the", 2, "det"), ("cat", 3, "nsubj"), ("sleeps", 0, "root")]
    bank = Treebank.from_sentences([[{"form": w, "head": h, "deprel": r} for w, h, r in words]])
    texts = {text.get_text() for text in plot.tree(bank).texts}
    assert {"the", "cat", "sleeps", "det", "nsubj", "root"} <= texts
