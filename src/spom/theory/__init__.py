"""What the papers promise, in numbers: regret bounds, step sizes, radii and Lipschitz constants."""

from __future__ import annotations

from spom.theory.bounds import MirrorDescent, fobos_regret, mirror_descent_excess, spom_regret
from spom.theory.constants import largest_step, lipschitz, structured_lipschitz, structured_radius, vacuous_radius

__all__ = [
    "MirrorDescent",
    "fobos_regret",
    "largest_step",
    "lipschitz",
    "mirror_descent_excess",
    "spom_regret",
    "structured_lipschitz",
    "structured_radius",
    "vacuous_radius",
]
