"""The general proximal step, in norms that need not be Euclidean.

    general_prox(penalty, norm, u, z, L) = argmin over x of  z.x + L/2 norm(x - u)^2 + penalty(x)

It is exact and greedy if the norm matches the penalty, and solved by linear programs for all polyhedral pairs.
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
