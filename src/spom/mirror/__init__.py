"""Mirror maps Psi: to the dual and back, Bregman divergences, and composite steps with penalties."""

from __future__ import annotations

from spom.mirror.euclidean import Euclidean
from spom.mirror.p_norm import PNorm
from spom.mirror.smoothed_bregman import SmoothedBregman

__all__ = ["Euclidean", "PNorm", "SmoothedBregman"]
