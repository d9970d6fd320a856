"""Many labels: when a tagger has weights only for features and labels that were seen together.

With more than 100 labels a table of features by labels is large and mostly zero, and sums over all pairs of labels take
most of the time. Learning then keeps weights for pairs that occur, and for those that a first pass confuses, and
looks at the labels that score best at each token (`solvers.structured.chains.sparse`); tagging is exact.
"""

from __future__ import annotations

from typing import Any

from spom.core.arrays import Ints
from spom.solvers.steps import AdaGrad
from spom.solvers.structured.chains.sparse.engine import LOSSES, Candidates

# More labels than this are many.
MANY = 100
# Candidates of a token in learning, and the least probability at which a wrong label counts as confused. On EWT's dev
# sentences (features as labels, 230 of them) accuracy is .9499 without confused pairs, .9512 at .02, .9516 at .002, and
# .9517 at .002 with 32 candidates instead of 16; dense tables have .9526, in seven times the time.
WIDTH, CONFUSED = 32, 0.002


def candidates_for(tagger: Any, labels: int, y: Ints, step: Any) -> Candidates | None:
    """What `OnlineChain` takes for many labels; None for few, and for settings that need a weight for every label."""
    exact = tagger.solver == "batch" or tagger.tol is not None
    chosen = tagger.prune is not None or tagger.max_weights is not None
    plain = tagger.loss_ in LOSSES and tagger.penalty_.elastic() is not None and tagger.average in (False, "auto")
    plain = plain and tagger.update in ("auto", "dual-averaging") and isinstance(step, AdaGrad)
    known = y.size == 0 or int(y.min()) >= 0
    many = labels > MANY and plain and known and not exact and not chosen
    return Candidates(width=WIDTH, confused=CONFUSED) if many else None
