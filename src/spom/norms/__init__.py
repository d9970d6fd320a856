"""The general proximal step, in a norm that need not be Euclidean.

    general_prox(penalty, norm, u, z, L) = argmin over x of  z.x + L/2 norm(x - u)^2 + penalty(x)

Exact and greedy where the norm fits the penalty; by linear programs for everything polyhedral.
"""

from spom.norms.atomic import AtomicBall, AtomicNorm, AtomicPenalty
from spom.norms.base import Certificate, ProxResult, as_norm
from spom.norms.polyhedral import Polyhedral
from spom.norms.prox import GeneralProx, general_prox, local_conjugate

__all__ = [
    "AtomicBall",
    "AtomicNorm",
    "AtomicPenalty",
    "Certificate",
    "GeneralProx",
    "Polyhedral",
    "ProxResult",
    "as_norm",
    "general_prox",
    "local_conjugate",
]
