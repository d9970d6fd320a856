"""Penalties: Omega(w), its prox, its conjugate, and its forms for solvers. One file per operator."""

from spom.penalties.base import Penalty
from spom.penalties.box import Box
from spom.penalties.calculus import Conjugate, MoreauEnvelope, Scaled, SeparableSum, Translated
from spom.penalties.elastic_net import ElasticNet
from spom.penalties.elastic_net_mkl import ElasticNetMKL
from spom.penalties.group_lasso import GroupLasso
from spom.penalties.group_linf import GroupLInf
from spom.penalties.l1 import L1
from spom.penalties.l1_ball import L1Ball
from spom.penalties.l2 import L2
from spom.penalties.l2_ball import L2Ball
from spom.penalties.latent_group_lasso import LatentGroupLasso
from spom.penalties.linf import LInf
from spom.penalties.linf_ball import LInfBall
from spom.penalties.lq_mkl import LqMKL
from spom.penalties.overlapping_group_lasso import OverlappingGroupLasso
from spom.penalties.power import Power
from spom.penalties.simplex import Simplex
from spom.penalties.sparse_group_lasso import SparseGroupLasso
from spom.penalties.sparse_mkl import SparseMKL
from spom.penalties.squared_l1 import SquaredL1
from spom.penalties.squared_l2 import SquaredL2
from spom.penalties.sum import Sum
from spom.penalties.tree_group_lasso import TreeGroupLasso
from spom.penalties.zero import Zero

__all__ = [
    "L1",
    "L2",
    "Box",
    "Conjugate",
    "ElasticNet",
    "ElasticNetMKL",
    "GroupLInf",
    "GroupLasso",
    "L1Ball",
    "L2Ball",
    "LInf",
    "LInfBall",
    "LatentGroupLasso",
    "LqMKL",
    "MoreauEnvelope",
    "OverlappingGroupLasso",
    "Penalty",
    "Power",
    "Scaled",
    "SeparableSum",
    "Simplex",
    "SparseGroupLasso",
    "SparseMKL",
    "SquaredL1",
    "SquaredL2",
    "Sum",
    "Translated",
    "TreeGroupLasso",
    "Zero",
]
