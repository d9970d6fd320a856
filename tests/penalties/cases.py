"""The examples of every registered penalty, for the generic suites."""

from __future__ import annotations

from typing import Any

import pytest

from spom.core import registry

DIMENSION = 6  # what every example takes; those without a structure take any

# Relative accuracy of the prox where it is not 1e-12: proxes that come from an iteration of their own.
ACCURACY: dict[str, float] = {"LatentGroupLasso": 1e-7}
# The naive twins of these are iterations; they, not the prox, set the tolerance.
TWIN_ACCURACY: dict[str, float] = {"Sum": 1e-9, "MoreauEnvelope": 1e-9, "OverlappingGroupLasso": 1e-9}


def name(penalty: Any) -> str:
    return type(penalty).__name__


def examples() -> list[Any]:
    return [p for entry in registry.entries("penalty") for p in entry.examples()]


def over(cases: list[Any]) -> Any:
    """Parametrise a test over these penalties."""
    return pytest.mark.parametrize("penalty", cases, ids=lambda p: repr(p)[:60])


EVERY = examples()
EXACT = [p for p in EVERY if p.exact]


def takes_any_size(penalty: Any) -> bool:
    inner = getattr(penalty, "penalty", None)
    structured = ("groups", "weights", "parts")
    if any(getattr(penalty, part, None) is not None for part in structured):
        return False
    if name(penalty) in ("Box", "Translated"):
        return all(not hasattr(getattr(penalty, a, 0.0), "__len__") for a in ("lower", "upper", "shift"))
    if name(penalty) == "Sum":
        return all(takes_any_size(term) for term in penalty.terms)
    return inner is None or takes_any_size(inner)
