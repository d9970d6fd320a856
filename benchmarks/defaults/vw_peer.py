"""Vowpal Wabbit as a classifier with `fit` and `score`, for the table of defaults.

The loss is logistic, one class against the rest where there are more than two; everything else is vw's default: one
adaptive, normalised pass over the rows, 18 bits. Rows travel as text files, and `seconds_` is the time of vw alone.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split


class VowpalWabbit:
    """vw with the logistic loss; of several numbers of passes a fifth of the training rows chooses."""

    def __init__(self, seed: int = 0, passes: tuple[int, ...] = (1,)) -> None:
        self.seed, self.passes = seed, passes

    def fit(self, X: Any, y: Any) -> VowpalWabbit:
        """Learn from the rows in random order, as vw's users are told to shuffle."""
        self.seconds_, self.best_params_ = 0.0, {"passes": self.passes[0]}
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        order = np.random.default_rng(self.seed).permutation(len(codes))
        if len(self.passes) > 1:
            shares = codes[order] if np.bincount(codes).min() > 1 else None
            a, b = train_test_split(order, test_size=0.2, random_state=0, stratify=shares)
            right = [self._learnt(X, codes, a, n).score(X[b], np.asarray(y)[b]) for n in self.passes]
            self.best_params_ = {"passes": self.passes[int(np.argmax(right))]}
        return self._learnt(X, codes, order, self.best_params_["passes"])

    def _learnt(self, X: Any, codes: Any, rows: Any, passes: int) -> VowpalWabbit:
        two = len(self.classes_) == 2
        options = f"--loss_function logistic {'--binary' if two else f'--oaa {len(self.classes_)}'}"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder / "train", X[rows], (2 * codes - 1 if two else codes + 1)[rows])
            options += f" --passes {passes} --holdout_off --cache_file {folder / 'cache'}" if passes > 1 else ""
            begin = time.process_time()
            self._run(f"{options} -d {folder / 'train'} -f {folder / 'model'}")
            self.seconds_ += time.process_time() - begin
            self._run(f"-t -i {folder / 'model'} --readable_model {folder / 'readable'}")
            self.n_weights_ = len(re.findall(r"^\d+:", (folder / "readable").read_text(), re.MULTILINE))
            self.model_ = (folder / "model").read_bytes()
        return self

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder / "test", X, np.ones(len(y), dtype=np.int64))
            (folder / "model").write_bytes(self.model_)
            self._run(f"-t -i {folder / 'model'} -d {folder / 'test'} -p {folder / 'found'}")
            found = np.array([int(float(line.split()[0])) for line in (folder / "found").read_text().splitlines()])
        codes = np.where(found > 0, 1, 0) if len(self.classes_) == 2 else found - 1
        return float(np.mean(self.classes_[codes] == np.asarray(y)))

    def _run(self, options: str) -> None:
        import vowpalwabbit

        vowpalwabbit.Workspace(f"--quiet --random_seed {self.seed} {options}").finish()


def write(path: Path, X: Any, labels: Any) -> None:
    """Write rows in vw's format: the label, then feature:value for each entry that is not zero."""
    rows = sparse.csr_array(X)
    with path.open("w") as file:
        for i, label in enumerate(labels.tolist()):
            a, b = rows.indptr[i], rows.indptr[i + 1]
            pairs = zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True)
            file.write(f"{label} | {' '.join(f'{j}:{v:.9g}' for j, v in pairs)}\n")
