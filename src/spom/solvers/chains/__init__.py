"""Solvers of chains: label sequences learnt sentence by sentence, with penalties on weights or on blocks."""

from __future__ import annotations

from spom.solvers.chains.online import OnlineChain
from spom.solvers.steps import LinearDecay

__all__ = ["LinearDecay", "OnlineChain"]
