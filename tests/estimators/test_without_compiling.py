"""`NUMBA_DISABLE_JIT=1`, as documented for debugging: every kernel runs as plain Python, with the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np

PROGRAM = """
import sys, warnings
import numpy as np
from scipy import sparse
import spom
from spom.penalties import *

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.7)
y, three, numbers = (X[:, 0] > 0).astype(int), np.arange(20) % 3, X @ np.arange(4.0)
update = {"update": "forward-backward"}
online = [
    {}, {"penalty": L1(1e-3), **update, "step": "sqrt"}, {"penalty": L1(1e-3), "update": "dual-averaging"},
    {"penalty": SparseMKL(1e-3, 2), **update}, {"penalty": L2(1e-3), **update}, {"loss": "hinge", "penalty": L1(1e-3)},
]
batch = [{}, {"penalty": L1(1e-2)}, {"penalty": GroupLasso(1e-2, 2)}, {"penalty": SquaredL1(1e-2)}]
models = [spom.OnlineClassifier(epochs=2, random_state=0, **o) for o in online]
models += [spom.ProximalClassifier(max_iter=20, **o) for o in batch]
found = []
for A in (X, sparse.csr_matrix(X)):
    for model in models:
        found.append(model.fit(A, y).decision_function(A).ravel())
    for model in (models[0], models[1], spom.ProximalClassifier(max_iter=20)):
        if getattr(model, "loss", "") != "hinge":
            found.append(model.fit(A, three).decision_function(A).ravel())
    for model in (spom.OnlineRegressor(epochs=2, random_state=0), spom.ProximalRegressor(penalty=L1(1e-2))):
        found.append(model.fit(A, numbers).predict(A))
for update in ("dual-averaging", "forward-backward"):
    found.append(spom.MKLClassifier(update=update, epochs=2, random_state=0).fit(X, three).decision_function(X).ravel())
np.save(sys.argv[1], np.concatenate(found))
"""


def run(folder: Any, disable: str) -> np.ndarray[Any, Any]:
    path = folder / f"scores{disable}.npy"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disable}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return np.asarray(np.load(path))


def test_linear_estimators_run_as_plain_python(tmp_path: Any) -> None:
    np.testing.assert_allclose(run(tmp_path, "1"), run(tmp_path, "0"), rtol=1e-6, atol=1e-8)
