"""Iris as files: what the tests of the command on vectors share."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_iris

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
NAMES = np.array(["setosa", "versicolor", "virginica"])
COLUMNS = ["sepal length", "sepal width", "petal, length", "petal width"]


def table(rows: np.ndarray, delimiter: str = ",") -> str:
    """Return some rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([*COLUMNS, "species"])
    writer.writerows([*X[i].tolist(), NAMES[Y[i]]] for i in rows)
    return text.getvalue()


def write_files(folder: Path) -> None:
    """Training and test rows as CSV and as svmlight, and a model of each."""
    from spom.cli.main import main

    for name, rows in (("train", ORDER[:100]), ("test", ORDER[100:])):
        (folder / f"{name}.csv").write_text(table(rows))
        dump_svmlight_file(X[rows], Y[rows], str(folder / f"{name}.svm"), zero_based=False)
    for kind in ("csv", "svm"):
        files = ["--train", str(folder / f"train.{kind}"), "--dev", str(folder / f"test.{kind}")]
        assert main(["train", "classifier", *files, "--model", str(folder / f"{kind}.spom"), "--quiet"]) == 0
