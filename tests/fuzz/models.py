"""Every kind of estimator, small: what its model file is made from, and what it predicts on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import spom
from spom import kernels as K
from spom import penalties as P
from spom.data import Treebank
from spom.features import Templates
from spom.mirror import PNorm
from tests.fuzz.files import File

FIXTURES = Path(__file__).parents[1] / "models" / "fixtures"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).round(2)
TWO = np.where(X[:, 0] > 0, "a", "b")
THREE = np.where(X[:, 0] > 0.3, "up", np.where(X[:, 1] > 0, "mid", "low"))
SPARSE = sparse.csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0))
WORDS = ["the", "Cat", "sleeps", "dogs", "bark-1", "old", "größer"]
TEXT = [[str(RNG.choice(WORDS)) for _ in range(4)] for _ in range(12)]
TAGS = [["B-N" if w[0] in "Cd" else "I-N" if w[0] == "b" else "O" for w in sentence] for sentence in TEXT]
PAIRS = [[(w, w[:1]) for w in sentence] for sentence in TEXT]
DICTS = [[{"w": w, "n": len(w) / 4} for w in sentence] for sentence in TEXT]
VECTORS = [RNG.normal(size=(4, 3)) for _ in TEXT]
TREES = Treebank.from_sentences(
    [{"form": w, "lemma": w[:2], "upos": u, "head": h, "deprel": r, "misc": m} for w, u, h, r, m in sentence]
    for sentence in (
        [("Dogs", "N", 2, "subj", "_"), ("bark", "V", 0, "root", "SpaceAfter=No"), (".", "P", 2, "punct", "_")],
        [("A", "D", 2, "det", "_"), ("dog", "N", 3, "subj", "_"), ("barks", "V", 0, "root", "_")],
        [("old", "A", 2, "mod", "_"), ("cats", "N", 3, "subj", "_"), ("sleep", "V", 0, "root", "_")],
    )
    * 2
)  # fmt: skip
KERNELS = [K.Linear(normalize=True), K.Gaussian(2.0)]

# By name: an estimator, what it learns from, what it predicts on.
Case = tuple[Any, tuple[Any, ...], Any]


def linear() -> dict[str, Case]:
    """Return cases of vectors with weights."""
    online, proximal = spom.OnlineClassifier, spom.ProximalClassifier
    return {
        "two": (online(random_state=0), (X, TWO), X),
        "three": (online(random_state=0), (X, THREE), X),
        "sparse": (online(penalty=P.L1(0.1), random_state=0), (SPARSE, THREE), SPARSE),
        "groups": (online("logistic", P.GroupLasso(0.05, groups=[[0, 1], [2, 3]]), random_state=0), (X, TWO), X),
        "mirror": (online("logistic", P.L1(0.05), mirror=PNorm(), random_state=0), (X, TWO), X),
        "regressor": (spom.OnlineRegressor(random_state=0), (X, X[:, 0]), X),
        "proximal": (proximal(penalty=P.L1(0.05)), (X, THREE), X),
        "proximal-sparse": (proximal(penalty=P.L1(0.1)), (SPARSE, TWO), SPARSE),
        "proximal-regressor": (spom.ProximalRegressor(penalty=P.ElasticNet(0.05, 0.5)), (X, X[:, 0]), X),
        "proximal-regressor-cv": (spom.ProximalRegressorCV(n_strengths=3, cv=2), (X, X[:, 0]), X),
        "proximal-cv": (spom.ProximalClassifierCV(n_strengths=3, cv=2), (X, TWO), X),
    }


def kernels() -> dict[str, Case]:
    """Return cases of vectors with kernels."""

    def mkl(*given: Any, **more: Any) -> Any:
        return spom.MKLClassifier(list(given), epochs=3, random_state=0, **more)

    many = [K.Polynomial(2), K.BSpline(), K.KernelSum([K.Linear(), K.Gaussian(1.0)]), K.Normalized(K.Linear())]
    maps = [K.Nystroem(K.Gaussian(1.0), 5), K.RandomFourier(2.0, 6)]
    return {
        "kernels": (mkl(*KERNELS), (X, THREE), X),
        "kernels-sparse": (mkl(*KERNELS), (SPARSE, TWO), SPARSE),
        "kernels-many": (mkl(*many), (X, TWO), X),
        "kernels-maps": (mkl(*maps), (X, THREE), X),
        "kernels-log": (mkl(*KERNELS, loss="log"), (X, THREE), X),
        "kernels-frank-wolfe": (mkl(*KERNELS, solver="frank-wolfe"), (X, THREE), X),
        "kernels-regressor": (spom.MKLRegressor(KERNELS), (X, X[:, 0]), X),
    }


def taggers() -> dict[str, Case]:
    """Return cases of sentences: words, fields, dicts, vectors, hashed templates, kernels."""

    def tagger(*given: Any, **more: Any) -> Any:
        return spom.SequenceTagger(*given, **{"epochs": 3, "random_state": 0, "verbose": 0, **more})

    hashed = Templates(["w[0]", "w[-1]|w[0]"], table=64)
    return {
        "tagger": (tagger(), (TEXT, TAGS), TEXT),
        "tagger-fields": (tagger(["w[0]", "w[-1]|w[1]", "w.suffix2[0]", "w.shape[0]"]), (PAIRS, TAGS), PAIRS),
        "tagger-hashed": (tagger(hashed), (TEXT, TAGS), TEXT),
        "tagger-dicts": (tagger(), (DICTS, TAGS), DICTS),
        "tagger-vectors": (tagger(), (VECTORS, TAGS), VECTORS),
        "tagger-kernels": (tagger(kernels=KERNELS, penalty=P.SparseMKL(0.1)), (VECTORS, TAGS), VECTORS),
        "tagger-batch": (tagger(solver="batch", penalty=P.L1(1e-2)), (TEXT, TAGS), TEXT),
    }


def trees() -> dict[str, Case]:
    """Return cases of parsers, and of the pipeline on raw text."""
    small = {"min_count": 1, "table_bits": 6, "random_state": 0, "verbose": 0, "epochs": 2, "label_epochs": 2}
    names = ["h.upos m.upos dir", "m.form", "h.form dir", "h.upos m.upos between.upos dist", "h-1.form m+1.form dist"]
    plain = TREES.without_trees()
    text = "Dogs bark. A dog barks!\n\nold größer 1.5 cats sleep"
    return {
        "parser": (spom.DependencyParser(names, **small), (TREES,), plain),
        "parser-second": (spom.DependencyParser(names, second_stage=True, folds=2, **small), (TREES,), plain),
        "parser-order": (spom.DependencyParser(names, order=2, folds=2, projective=True, **small), (TREES,), plain),
        "parser-projective": (spom.DependencyParser(projective=True, **small), (TREES,), plain),
        "pipeline": (spom.Pipeline({"templates": names, **small}, folds=2, verbose=0), (TREES,), text),
    }


def cases() -> dict[str, Case]:
    """Return all cases."""
    return {**linear(), **kernels(), **taggers(), **trees()}


def model_files(folder: Path) -> dict[str, File]:
    """Return a file of every kind, with a prediction, and those of `tests/models/fixtures`."""
    found = {}
    for name, (estimator, given, asked) in cases().items():
        path = folder / "model"
        estimator.fit(*given).save(path)
        found[f"model {name}"] = File(path, predicting(asked))
    for path in sorted(FIXTURES.glob("*.spom")):
        told = json.loads(path.with_suffix(".json").read_text())
        given: Any = np.array(told["X"]) if "X" in told else told.get("sentences")
        if "trees" in told:
            given = Treebank.from_sentences(told["trees"]).without_trees()
        found[f"model {path.stem}"] = File(path, predicting(given))
    return found


def predicting(asked: Any) -> Callable[[Path], Any]:
    """Load, predict, and ask for what else a model can say."""

    def use(path: Path) -> None:
        model = spom.load_model(path)
        model.predict(asked)
        for name in ("predict_proba", "decision_function", "predict_marginals"):
            if hasattr(model, name) and not isinstance(asked, str):
                getattr(model, name)(asked)

    return use
