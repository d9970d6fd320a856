"""Small problems for the registry's examples of solvers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


def signs() -> tuple[Any, Any]:
    """Return rows and signs for linear solvers."""
    random = np.random.default_rng(0)
    X = random.standard_normal((30, 6))
    return X, np.where(X[:, 0] - X[:, 1] + 0.3 * random.standard_normal(30) > 0, 1.0, -1.0)


def least_squares(intercept: bool = False) -> Any:
    """Return a squared loss for batch solvers."""
    from spom.losses import Squared
    from spom.solvers.batch.datafit import LinearSmooth

    random = np.random.default_rng(0)
    X, y = random.standard_normal((20, 6)), random.standard_normal(20)
    return LinearSmooth(X, y, Squared(), fit_intercept=intercept)


def two_kernels() -> Any:
    """Return a problem of two kernels and two classes."""
    from spom.solvers.mkl.problem import KernelProblem

    X, y = signs()
    return KernelProblem.of([X @ X.T, (1.0 + X @ X.T) ** 2], (y > 0).astype(np.int64))


def two_grams() -> tuple[Any, Any, Any]:
    """Return (Gram matrices, real targets, penalty) of two kernels."""
    from spom.penalties import SparseMKL

    X, _ = signs()
    return [X @ X.T, (1.0 + X @ X.T) ** 2], X[:, 0] - X[:, 1] ** 2, SparseMKL(0.01)


def two_sentences() -> tuple[Any, Any, int]:
    """Return (rows, labels, number of labels) of two sentences with one feature per token."""
    rows = SimpleNamespace(indptr=[0, 1, 2, 3, 4, 5], indices=[0, 1, 0, 1, 0], values=[], offsets=[0, 2, 5])
    return rows, [0, 1, 0, 1, 1], 2


def two_trees() -> tuple[Any, Any, Any]:
    """Return (templates, codes, gold heads) for two small trees."""
    from spom.data.treebank import Treebank
    from spom.features.arcs import ArcTemplates, with_roots

    words = [("the", "DET", 2, "det"), ("dog", "NOUN", 3, "nsubj"), ("barks", "VERB", 0, "root")]
    named = [dict(zip(("form", "upos", "head", "deprel"), word, strict=True)) for word in words]
    bank = Treebank.from_sentences([named, [{**named[2], "form": "run"}, {**named[1], "head": 1, "deprel": "obj"}]])
    templates = ArcTemplates(["h.upos m.upos", "h.form m.form dir", "m.upos dist"], min_count=1)
    codes = templates.fit(bank)
    return templates, codes, with_roots(bank.heads, codes)


def two_relations() -> tuple[Any, Any]:
    """Return ((templates, names of relations), (codes, trees, gold relations)) of the same trees."""
    templates, codes, trees = two_trees()
    return (templates, ("det", "nsubj", "root", "obj")), (codes, trees, np.array([0, 0, 1, 2, 0, 2, 3]))
