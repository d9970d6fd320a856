"""Which solver takes an operator: the solvers are asked, on a problem of twelve examples and six features.

A solver that does not take an operator says so with `Unsupported` before it works, so one round is enough
to know. The rule behind the answers is in `RULES`, which the page of operators shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from spom import losses
from spom.errors import Unsupported
from spom.norms import GeneralProx
from spom.solvers.batch.datafit import LinearSmooth
from spom.solvers.batch.proximal_gradient import BatchProximal
from spom.solvers.batch.working_set.solver import WorkingSet
from spom.solvers.linear.online import OnlineProximal
from spom.solvers.linear.variance_reduced import VarianceReduced

RULES = {
    "batch": (
        "`~spom.solvers.BatchProximal`, full gradients (ISTA and FISTA): any convex penalty, by its "
        "prox; any loss with a Lipschitz derivative (Hölder exponent 1)."
    ),
    "working set": (
        "`~spom.solvers.WorkingSet`, coordinate descent on the few blocks that matter: a penalty that is a "
        "sum over coordinates or disjoint groups and sets them to zero; the squared and the logistic losses."
    ),
    "variance-reduced": (
        "`~spom.solvers.VarianceReduced`, example by example to the optimum, with a certificate: l1 and squared "
        "l2 penalties; for several scores, sums of norms of rows too, and no loss with kinks."
    ),
    "other norms": (
        "`~spom.solvers.GeneralProximal`, steps in the l1 or the l-infinity norm: penalties that match the norm, "
        "and polyhedral ones, by linear programs."
    ),
    "online": (
        "`~spom.solvers.OnlineProximal`, one example after another, all of theta in each round: "
        "anything with a prox, any loss."
    ),
    "online, sparse": (
        "`~spom.solvers.OnlineProximal` at the cost of the non-zeros of a row: penalties whose skipped steps have a "
        "closed form for each coordinate, or row of a matrix (*lazy*), or one scale per block (MKL)."
    ),
}
WAYS = tuple(RULES)


def _problem(classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 6)) * (rng.random((12, 6)) < 0.5)
    y = rng.integers(0, classes, 12)
    y[:classes] = np.arange(classes)
    return sparse.csr_matrix(X), (2.0 * y - 1.0 if classes == 2 else y)


def _runs(make: Callable[[], Iterable[Any]], refusal: type[Exception] = Unsupported) -> bool:
    """Whether two rounds run; an error that is no refusal is a fault and ends the build."""
    try:
        list(islice(make(), 2))
    except refusal:
        return False
    return True


def _ways(X: Any, y: Any, loss: Any, penalty: Any) -> set[str]:
    online = {"loss": loss, "penalty": penalty, "step": "sqrt", "update": "forward-backward", "epochs": 1}
    found = {
        "online": _runs(lambda: OnlineProximal(X, y, lazy=False, **online)),
        "online, sparse": _runs(lambda: OnlineProximal(X, y, lazy=True, **online)),
    }
    outputs = 3 if loss.target == "class" else None
    found["variance-reduced"] = _runs(lambda: VarianceReduced(X, y, loss=loss, penalty=penalty, outputs=outputs))
    f = LinearSmooth(X, y, loss, outputs=outputs)
    # The batch solver says no when it is made; its rounds would only cost time.
    found["batch"] = _runs(lambda: [BatchProximal(f, penalty)])
    found["working set"] = _runs(lambda: WorkingSet(f, penalty), ValueError)  # of groups that overlap, too
    return {way for way, runs in found.items() if runs}


def _in_other_norms(penalty: Any) -> bool:
    return any(_runs(lambda norm=norm: [GeneralProx(penalty, norm, 6)]) for norm in ("l1", "linf"))


def takers_of_penalty(examples: Iterable[Any]) -> set[str]:
    """The ways that take an example of this penalty: of a vector, or of a matrix with one row per feature."""
    found: set[str] = set()
    for penalty in examples:
        if _in_other_norms(penalty):
            found.add("other norms")
        for classes, loss in ((2, losses.Logistic()), (3, losses.MulticlassLogistic())):
            if classes == 3 and not _fits(penalty, (6, 3)):
                continue  # made for vectors: bounds or weights for each of six coordinates
            found |= _ways(*_problem(classes), loss, penalty)
    return found


def _fits(penalty: Any, shape: tuple[int, ...]) -> bool:
    try:
        penalty.prox(np.ones(shape))
    except ValueError:
        return False
    return True


def takers_of_loss(loss: Any) -> set[str]:
    """The ways that take this loss, with an l1 penalty (lazy: of one score)."""
    from spom.penalties import L1

    X, y = _problem(3 if loss.target == "class" else 2)
    return _ways(X, y, loss, L1(0.01))


def takers_of_mirror(mirror: Any) -> set[str]:
    """Mirror maps are for the online solver."""
    from spom.penalties import L1

    X, y = _problem(2)
    made = {"mirror": mirror, "penalty": L1(0.01), "step": "sqrt", "epochs": 1, "loss": losses.Logistic()}
    return {"online"} if _runs(lambda: OnlineProximal(X, y, **made)) else set()
