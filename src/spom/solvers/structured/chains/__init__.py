"""Solvers of chains: label sequences learnt one sentence at a time, with penalties on weights or on blocks.

Names are imported on first use, so that tagging does not load the code for learning.
"""

from __future__ import annotations

from spom.core.lazy import lazy

_NAMES = {"LinearDecay": "spom.solvers.steps", "OnlineChain": "spom.solvers.structured.chains.solver"}

__all__ = [*_NAMES]
__getattr__, __dir__ = lazy(__name__, _NAMES)
