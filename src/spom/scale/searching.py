"""`search`: choose parameters on development data by successive halving, with runs that are resumed."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.model_selection import ParameterGrid

from spom.errors import DataError, Unsupported
from spom.scale.fitting import fit
from spom.scale.shards import Shards


@dataclass(frozen=True)
class Search:
    """The result of a search: the best estimator after all passes, its parameters and score, and all trials.

    `trials` has a dict per candidate and rung, in the order of the runs, with `params`, `epochs` and `score`.
    """

    best: Any
    params: dict[str, Any]
    score: float
    trials: list[dict[str, Any]]


def search(
    estimator: Any,
    grid: dict[str, Any],
    shards: Shards,
    *,
    dev: Any,
    client: Any = None,
    n_jobs: int | None = None,
    factor: int = 2,
    timeout: float = 300.0,
) -> Search:
    """Try the combinations of a grid, as in scikit-learn's `ParameterGrid`; better candidates get more passes.

    All candidates make a few passes. The best 1 / `factor` of them by their score on `dev` resume, to `factor` times as
    many passes, until one remains, which makes all passes of the estimator. Ties go to the earlier candidate. Runs are
    kept in a folder that is removed at the end. Parsers, whose stages cannot be extended, start again in each rung.

    >>> import numpy as np
    >>> from spom import OnlineClassifier
    >>> from spom.penalties import L1
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 10))
    >>> y = X[:, 0] > 0
    >>> model = OnlineClassifier(penalty=L1(1.0), epochs=8, random_state=0, verbose=0)
    >>> shards, dev = Shards.arrays(X[:300], y[:300], 3), (X[300:], y[300:])
    >>> found = search(model, {"penalty__strength": [10.0, 0.03]}, shards, dev=dev)
    >>> found.params, [trial["epochs"] for trial in found.trials]
    ({'penalty__strength': 0.03}, [4, 4, 8])
    """
    candidates = list(ParameterGrid(grid))
    if factor < 2:
        raise ValueError(f"factor must be at least 2; it is {factor!r}")
    if dev is None:
        raise DataError("search needs development data: give dev=")
    total = _passes(estimator)
    rungs = math.ceil(math.log(len(candidates), factor)) if len(candidates) > 1 else 0
    trials: list[dict[str, Any]] = []
    left, models = list(range(len(candidates))), {}
    with tempfile.TemporaryDirectory(prefix="spom-search-") as folder:
        for rung in range(rungs + 1):
            epochs = max(1, math.ceil(total / factor ** (rungs - rung)))
            scores = {}
            for k in left:
                resumes = rung > 0 and not hasattr(estimator, "label_epochs")
                path = None if hasattr(estimator, "label_epochs") else Path(folder) / str(k)
                watch: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "resume": resumes}
                models[k] = _made(estimator, candidates[k], epochs)
                fit(models[k], shards, dev=dev, client=client, n_jobs=n_jobs, timeout=timeout, **watch)
                scores[k] = float(models[k].score(*dev) if isinstance(dev, tuple) else models[k].score(dev))
                trials.append({"params": candidates[k], "epochs": epochs, "score": scores[k]})
            kept = max(1, math.ceil(len(left) / factor)) if rung < rungs else 1
            left = sorted(sorted(left, key=lambda k: -scores[k])[:kept])
    (best,) = left
    return Search(models[best], candidates[best], scores[best], trials)


def _passes(estimator: Any) -> int:
    epochs = estimator.get_params(deep=False).get("epochs")
    if not isinstance(epochs, int):
        raise Unsupported(f"search needs a number of passes: set epochs= (it is {epochs!r})")
    return epochs


def _made(estimator: Any, params: dict[str, Any], epochs: int) -> Any:
    from sklearn.base import clone

    return clone(estimator).set_params(**params).set_params(epochs=epochs)
