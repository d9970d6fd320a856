"""Losses phi(y, a) of a score: value, left derivative, conjugate, Hoelder and Lipschitz constants."""

from __future__ import annotations

from spom.losses.hinge import Hinge
from spom.losses.logistic import Logistic
from spom.losses.multiclass_hinge import MulticlassHinge
from spom.losses.multiclass_logistic import MulticlassLogistic
from spom.losses.multiclass_power_hinge import MulticlassPowerHinge
from spom.losses.power_absolute import PowerAbsolute
from spom.losses.power_hinge import PowerHinge
from spom.losses.squared import Squared

__all__ = [
    "Hinge",
    "Logistic",
    "MulticlassHinge",
    "MulticlassLogistic",
    "MulticlassPowerHinge",
    "PowerAbsolute",
    "PowerHinge",
    "Squared",
]
