"""Solvers of chains: label sequences learnt sentence by sentence, with penalties on weights or on blocks."""

from __future__ import annotations

from spom.solvers.steps import LinearDecay
from spom.solvers.structured.chains.solver import OnlineChain

__all__ = ["LinearDecay", "OnlineChain"]
