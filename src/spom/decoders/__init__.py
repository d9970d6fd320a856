"""Decoders: the best of the admissible outputs of a structured predictor, and expectations over all of them."""

from __future__ import annotations

from spom.decoders.chain import Chain, ChainParts
from spom.decoders.costs import ArcCost, Cost, Hamming, LabelCost
from spom.decoders.multiclass import Multiclass
from spom.decoders.nonprojective import NonProjectiveTree
from spom.decoders.projective import ProjectiveTree
from spom.decoders.schemes import Constraints, tag_constraints

__all__ = [
    "ArcCost",
    "Chain",
    "ChainParts",
    "Constraints",
    "Cost",
    "Hamming",
    "LabelCost",
    "Multiclass",
    "NonProjectiveTree",
    "ProjectiveTree",
    "tag_constraints",
]
