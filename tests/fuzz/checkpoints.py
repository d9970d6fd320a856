"""Checkpoints of every solver with a run that is resumed, and saved states of solvers that are started from one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import spom
from spom import penalties as P
from spom.core.state import State
from spom.losses import Logistic
from spom.mirror import PNorm
from spom.scale import Shards
from spom.scale import fit as fit_shards
from spom.solvers import BatchProximal, GeneralProximal, LinearSmooth, OnlineProximal, VarianceReduced
from spom.solvers.iterate import take
from spom.solvers.steps import AdaGrad
from tests.fuzz.files import File
from tests.fuzz.models import KERNELS, SPARSE, TAGS, TEXT, THREE, TREES, TWO, VECTORS, X, trees

SIGNS = np.where(TWO == "a", 1.0, -1.0)
SMOOTH = LinearSmooth(X, SIGNS, Logistic())


class StopAt:
    """Ends a run after so many epochs, of whatever stage."""

    def __init__(self, count: int) -> None:
        self.count = count

    def on_epoch(self, info: dict[str, Any]) -> bool:
        self.count -= 1
        return self.count <= 0


def linear() -> dict[str, tuple[Any, Any, Any]]:
    """Return a case for each engine of the online linear solver."""

    def online(penalty: Any = None, loss: str = "logistic", **more: Any) -> Any:
        return spom.OnlineClassifier(loss, penalty, epochs=3, random_state=0, **more)

    rows, pairs = P.GroupLasso(0.01, groups="rows"), [[0, 1], [2, 3]]
    forward = {"update": "forward-backward"}
    return {
        "default": (spom.OnlineClassifier(epochs=3, random_state=0), X, TWO),
        "default-three": (spom.OnlineClassifier(epochs=3, random_state=0), X, THREE),
        "stopping": (online(P.L1(0.01), early_stopping=True, validation_fraction=0.3), X, TWO),
        "point": (online(P.L1(0.01)), SPARSE, TWO),
        "point-threads": (online(P.L1(0.01), n_jobs=2), SPARSE, TWO),
        "point-rows": (online(rows), X, THREE),
        "point-ridge": (online(P.SquaredL2(0.1)), X, THREE),
        "lazy": (online(P.L1(0.01), step="sqrt", **forward), SPARSE, TWO),
        "lazy-rows": (online(rows, step=AdaGrad(), **forward), SPARSE, THREE),
        "adagrad": (online(P.L1(0.01), step=AdaGrad(), **forward), X, TWO),
        "averaged": (online(P.L1(0.01), step="sqrt", output="average", **forward), X, TWO),
        "batches": (online(P.L1(0.01), step="sqrt", batch_size=5, **forward), X, THREE),
        "block-scales": (online(P.GroupLasso(0.01, groups=pairs), step="sqrt", **forward), SPARSE, TWO),
        "p-norm": (online(P.L1(0.01), mirror=PNorm(), **forward), X, TWO),
        "mirror": (online(P.L1(0.01), mirror=PNorm(), batch_size=3, **forward), X, TWO),
        "dual-averaging": (online(P.L1(0.01), step="sqrt", update="dual-averaging"), SPARSE, TWO),
        "dual-averaging-three": (online(P.L1(0.01), step="sqrt", update="dual-averaging"), X, THREE),
        "projected": (online(None, step="sqrt", projection=P.L2Ball(1.0), **forward), X, TWO),
        "regressor": (spom.OnlineRegressor(epochs=3, random_state=0), X, X[:, 0]),
    }


def kernels() -> dict[str, tuple[Any, Any, Any]]:
    """Return a case for each solver with kernels."""

    def mkl(**more: Any) -> Any:
        return spom.MKLClassifier(KERNELS, epochs=3, random_state=0, **more)

    return {
        "kernels": (mkl(), X, THREE),
        "kernels-sparse": (mkl(), SPARSE, TWO),
        "kernels-forward": (mkl(update="forward-backward"), X, THREE),
        "kernels-log": (mkl(loss="log", output="average"), X, THREE),
        "kernels-frank-wolfe": (mkl(solver="frank-wolfe", tol=0.1), X, THREE),
        "kernels-rows": (mkl(update="forward-backward", memory="10kB"), X, THREE),
    }


def taggers() -> dict[str, tuple[Any, Any, Any]]:
    """Return a case for each engine of chains, and for chains with kernels."""

    def tagger(**more: Any) -> Any:
        return spom.SequenceTagger(**{"epochs": 3, "random_state": 0, "verbose": 0, **more})

    return {
        "tagger": (tagger(), TEXT, TAGS),
        "tagger-blocks": (tagger(loss="hinge", penalty=P.SparseMKL(1e-3)), TEXT, TAGS),
        "tagger-perceptron": (tagger(loss="perceptron", penalty=None), TEXT, TAGS),
        "tagger-learnt": (tagger(transitions="learnt", penalty=P.GroupLasso(1e-3)), TEXT, TAGS),
        "tagger-averaged": (tagger(update="dual-averaging", penalty=P.GroupLasso(1e-3)), TEXT, TAGS),
        "tagger-select": (tagger(update="select", penalty=P.GroupLasso(1e-3)), TEXT, TAGS),
        "tagger-few": (tagger(max_weights=6), TEXT, TAGS),
        "tagger-kernels": (tagger(kernels=KERNELS, penalty=P.SparseMKL(0.1)), VECTORS, TAGS),
        "tagger-kernels-log": (tagger(kernels=KERNELS, loss="log", transitions="learnt"), VECTORS, TAGS),
        "tagger-frank-wolfe": (tagger(kernels=KERNELS, solver="frank-wolfe"), VECTORS, TAGS),
    }


def checkpoints(folder: Path) -> dict[str, File]:
    """Return by name a checkpoint and a way to resume it; some also with development data."""
    found = {}
    plain = {name: (model, (A, b), None) for name, (model, A, b) in {**linear(), **kernels(), **taggers()}.items()}
    dev = {"default": (X, TWO), "kernels": (X, THREE), "tagger": (TEXT, TAGS), "tagger-few": (TEXT, TAGS)}
    plain |= {f"{name}-dev": (*plain[name][:2], held) for name, held in dev.items()}
    for name, (model, given, held) in plain.items():
        found[f"checkpoint {name}"] = _stopped(folder, model, given, held, 2)
    for name in ("parser", "parser-second"):
        model = clone(trees()[name][0])
        # Stopped among the arcs, the arcs of a second stage, the relations.
        for stop in (1, 3, 5) if name == "parser-second" else (1, 3):
            found[f"checkpoint {name}-{stop}"] = _stopped(folder, model, (TREES,), None, stop)
    batch = spom.SequenceTagger(solver="batch", penalty=P.L1(1e-3), epochs=3, random_state=0, verbose=0)
    for stop in (2, 5):
        found[f"checkpoint tagger-batch-{stop}"] = _stopped(folder, batch, (TEXT, TAGS), None, stop)
    sparse = clone(trees()["parser"][0]).set_params(penalty=P.GroupLasso(1e-3))
    found["checkpoint parser-blocks"] = _stopped(folder, sparse, (TREES,), None, 1)
    found |= shards(folder)
    found["checkpoint parser-dev"] = _stopped(folder, clone(trees()["parser"][0]), (TREES,), TREES, 3)
    return found


def shards(folder: Path) -> dict[str, File]:
    """Return checkpoints of runs over shards."""
    online = spom.OnlineClassifier("logistic", P.L1(0.01), epochs=3, random_state=0, verbose=0)
    tagger = spom.SequenceTagger(["w[0]", "w[-1]"], epochs=3, random_state=0, verbose=0)
    cases: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "shards-linear": (online, (X, TWO)),
        "shards-tagger": (tagger, (TEXT, TAGS)),
        "shards-parser": (clone(trees()["parser"][0]), (TREES,)),
    }
    found = {}
    for name, (model, given) in cases.items():
        data = Shards.arrays(*given, n=2)
        found[f"checkpoint {name}"] = _stopped(folder, model, (), None, 2, partial(_fit_shards, data))
    return found


def _fit_shards(data: Shards, model: Any, **watch: Any) -> Any:
    return fit_shards(model, data, n_jobs=1, **watch)


def _fit(model: Any, *given: Any, **watch: Any) -> Any:
    return model.fit(*given, **watch)


def _stopped(
    folder: Path, model: Any, given: tuple[Any, ...], dev: Any, stop: int, fit: Callable[..., Any] = _fit
) -> File:
    """Return the checkpoint of a run that was stopped, and a way to resume it."""
    path, more = folder / "checkpoint", {} if dev is None else {"dev": dev}
    begun = clone(model).set_params(callbacks=StopAt(stop))
    fit(begun, *given, checkpoint=path, checkpoint_every="stop", **more)

    def resume(where: Path) -> None:
        # A few epochs: a solver that stops at a gap may need many from numbers that were changed.
        going = clone(model).set_params(callbacks=StopAt(5))
        fit(going, *given, checkpoint=where, checkpoint_every="stop", resume=True, **more)

    file = File(path, resume, avoid=("fingerprint", "history"))
    resume(path)
    path.unlink()
    return file


def states(folder: Path) -> dict[str, File]:
    """Saved states, and solvers that start from them."""
    makes: dict[str, Callable[[State | None], Any]] = {
        "online": lambda start: OnlineProximal(X, SIGNS, penalty=P.L1(0.1), epochs=2, random_state=0, start=start),
        "online-groups": lambda start: OnlineProximal(
            X, SIGNS, penalty=P.GroupLasso(0.1, groups=[[0, 1], [2, 3]]), epochs=2, random_state=0, start=start
        ),
        "variance-reduced": lambda start: VarianceReduced(X, SIGNS, penalty=P.L1(0.1), epochs=2, start=start),
        "general": lambda start: GeneralProximal(SMOOTH, P.L1(0.1), start=start),
        "general-accelerated": lambda start: GeneralProximal(SMOOTH, P.L1(0.1), accelerated=True, start=start),
        "batch": lambda start: BatchProximal(SMOOTH, P.L1(0.1), start=start),
    }
    found = {}
    for name, make in makes.items():
        path = folder / "state"
        list(take(make(None), 1))[-1].save(path)

        def use(where: Path, make: Callable[[State | None], Any] = make) -> None:
            list(take(make(State.load(where)), 2))

        found[f"state {name}"] = File(path, use)
        use(path)
    return found
