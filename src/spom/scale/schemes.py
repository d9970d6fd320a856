"""Constraints of labels chosen from shards: each counts the sentences that break a scheme."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.decoders.schemes import Constraints, tag_constraints
from spom.estimators.tagger.defaults import BROKEN, SCHEMES, Allowed, is_auto, report_broken


def candidates(given: Any, names: list[str]) -> dict[str, Constraints]:
    """The schemes that `constraints=` may mean for these labels, in the order in which they are preferred."""
    if given is None:
        return {}
    if isinstance(given, Constraints):
        return {"as given": given}
    if not is_auto(given):
        return {given: tag_constraints(names, given)}
    found: dict[str, Constraints] = {}
    # With I alone (or B alone) every sequence is allowed in IOB1, and nothing is gained.
    if not {"B", "I"} <= {name.partition("-")[0] for name in names}:
        return found
    for scheme in SCHEMES:
        try:
            found[scheme] = tag_constraints(names, scheme)
        except ValueError:
            continue
    return found


def allowed_of(given: Any, schemes: dict[str, Constraints], broken: dict[str, int], sentences: int) -> Allowed:
    """The scheme that fewest sentences break, where there are few enough, or the one that was given."""
    nothing = np.empty(0, dtype=np.int64)
    few = [name for name in schemes if not is_auto(given) or broken[name] <= BROKEN * sentences]
    if not few:
        return Allowed(None, None, nothing)
    best = min(few, key=lambda name: broken[name])
    found = Allowed(best, schemes[best], np.arange(broken[best], dtype=np.int64))
    report_broken(found, known=False)
    return found
