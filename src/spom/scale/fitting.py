"""`fit`: fit an ordinary estimator to shards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from spom.errors import Unsupported
from spom.scale.blas import OneThread
from spom.scale.executor import Executor, executor_for
from spom.scale.shards import Shards
from spom.scale.team import Team

E = TypeVar("E")


def fit(
    estimator: E,
    shards: Shards,
    *,
    dev: Any = None,
    client: Any = None,
    n_jobs: int | None = None,
    classes: Any = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | float | str = "60s",
    resume: bool = False,
    timeout: float = 300.0,
    on_error: str = "raise",
) -> E:
    """Fit an estimator to shards and return it: it predicts and saves as after its own `fit`.

    The result depends only on the data, the seed and the number of shards: any number of threads, processes or Dask
    workers gives the same bits, in whatever order they finish and even if some of them are lost.

    Parameters
    ----------
    estimator : an `OnlineClassifier` or `OnlineRegressor`; a `ProximalClassifier` or `ProximalRegressor`; a
        `SequenceTagger` under templates; a `DependencyParser`.
    shards : the data, see `Shards`.
    dev : development data as `fit` of the estimator takes them; the pass with the best score on them is kept.
    client : None or `"threads"`: threads of this process; `"processes"`: processes of this machine; a Dask client or
        the address of its scheduler.
    n_jobs : number of threads or processes; None is one per core.
    classes : the labels, if not all of them are in the data.
    checkpoint, checkpoint_every, resume : as in `fit` of the estimator. A resumed run gives the same bits.
    timeout : seconds without any Dask worker after which the run ends with an error that names the checkpoint.
    on_error : `"raise"`: a shard that cannot be read ends the run; `"skip"`: it is left out, with a warning.

    The attribute `shard_report_` has one dict per phase, with its seconds and those that workers spent computing.

    Examples
    --------
    >>> import numpy as np
    >>> from spom import OnlineClassifier
    >>> from spom.penalties import L1
    >>> from spom.scale import Shards, fit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 20))
    >>> y = X[:, 0] - X[:, 1] > 0
    >>> model = fit(OnlineClassifier(penalty=L1(0.05), random_state=0, verbose=0), Shards.arrays(X, y, 4))
    >>> model.selected_
    array([0, 1])
    """
    watch = {"checkpoint": checkpoint, "every": checkpoint_every, "resume": resume}
    learner = _learner_of(estimator)
    with team_for(shards, executor_for(client, n_jobs, timeout), on_error, checkpoint) as team:
        learner(estimator, team, dev, watch, classes)
        estimator.shard_report_ = team.report  # type: ignore[attr-defined]  # estimators take attributes
    return estimator


@contextmanager
def team_for(shards: Any, executor: Executor, on_error: str, checkpoint: Any = None) -> Iterator[Team]:
    """Yield the workers for these shards; everything that was started here is ended in any case."""
    try:
        if not isinstance(shards, Shards):
            kind = type(shards).__name__
            raise Unsupported(f"shards must be made by Shards.arrays, Shards.conll or the like; they are a {kind}")
        team = Team(executor, list(shards), on_error, checkpoint)
        try:
            with OneThread():
                yield team
        finally:
            team.close()
    finally:
        executor.close()


# What to use instead of estimators whose state cannot be merged: they keep a number per example or pair of examples.
INSTEAD = {
    "MKLClassifier": "kernels have a number for each example: use OnlineClassifier on features of kernels.features",
    "MKLRegressor": "kernels have a number for each example: use OnlineRegressor on features of kernels.features",
    "ProximalClassifierCV": "use spom.scale.fit with ProximalClassifier for each strength",
    "ProximalRegressorCV": "use spom.scale.fit with ProximalRegressor for each strength",
    "Pipeline": "fit SequenceTagger and DependencyParser to the shards one by one",
}


def _learner_of(estimator: Any) -> Any:
    """Return the function that fits this kind of estimator to shards."""
    name = type(estimator).__name__
    if name in ("OnlineClassifier", "OnlineRegressor"):
        from spom.scale.linear import fit_online

        return fit_online
    if name in ("ProximalClassifier", "ProximalRegressor"):
        from spom.scale.batch import fit_batch

        return fit_batch
    if name == "SequenceTagger":
        from spom.scale.tagger import fit_tagger

        return fit_tagger
    if name == "DependencyParser":
        from spom.scale.parser import fit_parser

        return fit_parser
    why = INSTEAD.get(name, "SequenceTagger, OnlineClassifier and ProximalClassifier can, for example")
    raise Unsupported(f"{name} cannot learn from shards: {why}")
