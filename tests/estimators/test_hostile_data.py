"""Data that no estimator can take: one clear error before work starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spom import (
    DependencyParser,
    MKLClassifier,
    MKLRegressor,
    OnlineClassifier,
    OnlineRegressor,
    ProximalClassifier,
    SequenceTagger,
    load_model,
)
from spom.data import Columns
from spom.data.conllu import parse_conllu
from spom.errors import DataError
from spom.features import Templates
from spom.models import save_model
from spom.penalties import L1, SquaredL2


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("cls", [OnlineClassifier, OnlineRegressor, ProximalClassifier, MKLClassifier])
def test_numbers_whose_squares_are_infinite_are_named(cls: Any, form: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[3, 1] = -1e300
    X = form(X)
    with pytest.raises(DataError, match=r"X has the entry 1e\+300, whose square is not finite: scale X"):
        cls().fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("cls", [MKLClassifier, MKLRegressor])
def test_kernels_without_a_positive_diagonal_are_named(cls: Any) -> None:
    X = np.random.default_rng(0).uniform(size=(40, 3))
    with pytest.raises(DataError, match=r"additive_chi2.*the mean of K\(x, x\) is 0; add a constant"):
        cls(["gaussian", "additive_chi2"]).fit(X, np.arange(40) % 2)
    with pytest.raises(DataError, match=r"the mean of K\(x, x\) is -1"):
        cls([lambda a, b: -np.ones((len(a), len(b)))]).fit(X, np.arange(40) % 2)


@pytest.mark.parametrize("cls", [OnlineClassifier, ProximalClassifier])
def test_memory_for_very_many_classes_is_estimated(cls: Any) -> None:
    n = 100_000
    X = sparse.csr_matrix((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, 10 * n))
    with pytest.raises(DataError, match=r"the weights of 100,000 classes and 1,000,00\d features need about [\d,]+ GB"):
        cls().fit(X, np.arange(n))


def test_memory_for_very_many_classes_of_few_features_is_estimated() -> None:
    n = 200_000
    X, y = np.random.default_rng(0).normal(size=(2 * n, 2)), np.arange(2 * n) % n
    what = r"a number for each of [\d,]+ rows and 200,000 classes need about [\d,]+ GB.*update='forward-backward'"
    with pytest.raises(DataError, match=what):
        OnlineClassifier("logistic", SquaredL2(1e-3)).fit(X, y)


def test_memory_for_very_many_labels_of_a_tagger_is_estimated() -> None:
    X = [[f"w{i % 7}" for i in range(200)]] * 1000
    y = [[f"L{200 * s + i}" for i in range(200)] for s in range(1000)]
    with pytest.raises(DataError, match=r"200,000 labels by 200,000 labels need about 1,920 GB.*use fewer labels"):
        SequenceTagger(["w[0]"], verbose=0).fit(X, y)


def test_labels_that_are_no_exact_numbers_are_named() -> None:
    y = np.where(np.arange(20) % 2, float("9" * 25), float("1" * 25))
    with pytest.raises(DataError, match=r"entry 1 of y is the label 1e\+25: numbers over 2\*\*53"):
        OnlineClassifier().fit(np.eye(20), y)


def test_a_tagger_with_a_templates_object_is_saved(tmp_path: Path) -> None:
    columns = Columns.from_lists([["the", "cat"], ["the", "dog"]])
    y = [["D", "N"], ["D", "N"]]
    tagger = SequenceTagger(Templates(["w[0]", "w[-1]|w[0]"]), epochs=2, random_state=0).fit(columns, y)
    save_model(tagger, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert [list(tags) for tags in loaded.predict(columns)] == [list(tags) for tags in tagger.predict(columns)]
    assert loaded.templates == ["w[0]", "w[-1]|w[0]"]


# --- data from which little can be learnt ------------------------------------------------------------------

PLAIN = np.random.default_rng(0).normal(size=(60, 3))
BINARY = np.arange(60) % 2
SENTENCES, LABELS = [[("a",), ("b",)], [("c",), ("a",)]] * 40, [["X", "Y"], ["Z", "X"]] * 40
TREES = parse_conllu(b"1\ta\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tY\t_\t_\t0\troot\t_\t_\n\n" * 70)
OTHERS = TREES.with_trees(TREES.heads, np.zeros_like(TREES.relations), ("other",))
QUIET: dict[str, Any] = {"verbose": 0, "random_state": 0}


@pytest.mark.parametrize(
    ("fit", "text"),
    [
        (lambda: OnlineClassifier().fit(np.ones((60, 2)), BINARY), "features do not predict the target"),
        (lambda: ProximalClassifier().fit(np.ones((60, 2)), BINARY), "features do not predict the target"),
        (lambda: MKLClassifier(epochs=2).fit(np.ones((60, 2)), BINARY), "all rows of X are equal"),
        (lambda: MKLClassifier(epochs=2).fit(sparse.csr_matrix((60, 2)), BINARY), "all rows of X are equal"),
        (lambda: SequenceTagger(**QUIET).fit(SENTENCES, [["X", "X"]] * 80), "only one label, 'X'"),
        (lambda: SequenceTagger(**QUIET, prune="auto").fit(SENTENCES, [["X", "X"]] * 80), "only one label, 'X'"),
        (lambda: OnlineClassifier(penalty=L1(1e6)).fit(PLAIN, BINARY), "every weight is zero"),
        (lambda: ProximalClassifier(penalty=L1(1e6)).fit(PLAIN, BINARY), "every weight is zero"),
        (lambda: SequenceTagger(**QUIET, penalty=L1(1e6)).fit(SENTENCES, LABELS), "every weight is zero"),
        (lambda: SequenceTagger(**QUIET, penalty=L1(1e6), prune="auto").fit(SENTENCES, LABELS), "every weight is zero"),
        (lambda: ProximalClassifier(penalty=L1(1.0)).path(PLAIN, BINARY, strengths=[2e6, 1e6]), "even at 1e.06"),
        (
            lambda: SequenceTagger(**QUIET, penalty=L1(1.0), loss="log").path(SENTENCES, LABELS, strengths=[2e6, 1e6]),
            "even at 1e.06",
        ),
    ],
)
def test_data_that_teach_nothing_give_a_warning(fit: Any, text: str) -> None:
    with pytest.warns(UserWarning, match=text):
        fit()


@pytest.mark.parametrize(
    "fit",
    [
        lambda: OnlineClassifier().fit(PLAIN, BINARY, dev=(PLAIN, np.where(BINARY, "a", "b"))),
        lambda: MKLClassifier(epochs=2).fit(PLAIN, BINARY, dev=(PLAIN, BINARY + 5)),
        lambda: SequenceTagger(**QUIET).fit(SENTENCES, LABELS, dev=(SENTENCES, [["Q", "R"]] * 80)),
        lambda: DependencyParser(**QUIET, epochs=1, label_epochs=1).fit(TREES, dev=OTHERS),
    ],
)
def test_development_data_with_other_labels_are_refused(fit: Any) -> None:
    with pytest.raises(DataError, match=r"none of them a training label|which was not seen in fit"):
        fit()


@pytest.mark.parametrize("cls", [OnlineClassifier, ProximalClassifier, MKLClassifier])
def test_one_class_is_refused_and_classes_may_come_one_after_the_other(cls: Any) -> None:
    with pytest.raises(ValueError, match="at least two classes; y has only one class"):
        cls().fit(PLAIN, np.zeros(60))
    order = np.argsort(BINARY, kind="stable")
    X = PLAIN + 3.0 * BINARY[:, None]
    assert cls().fit(X[order], BINARY[order]).score(X, BINARY) > 0.9


def test_labels_and_relations_may_come_one_after_the_other() -> None:
    X, y = [*SENTENCES[::2], *SENTENCES[1::2]], [*LABELS[::2], *LABELS[1::2]]
    assert SequenceTagger(**QUIET, prune="auto").fit(X, y).score(X, y) == 1.0
    assert DependencyParser(**QUIET, prune="auto", epochs=2, label_epochs=1).fit(TREES).score(TREES) == 1.0
