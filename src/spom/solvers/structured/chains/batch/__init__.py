"""Random fields over chains, solved to the optimum with a certificate."""

from __future__ import annotations

from spom.solvers.structured.chains.batch.solver import BatchChain

__all__ = ["BatchChain"]
