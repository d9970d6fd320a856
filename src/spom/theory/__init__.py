"""The theory of the papers in numbers: regret bounds, rates, step sizes, radii and Lipschitz constants."""

from __future__ import annotations

from spom.theory.batch import (
    accelerated_gpm_gap,
    accelerated_gpm_rate,
    fobos_best,
    fobos_fixed_step,
    fobos_steps,
    gpm_gap,
)
from spom.theory.bounds import MirrorDescent, fobos_regret, mirror_descent_excess, spom_regret
from spom.theory.constants import largest_step, lipschitz, structured_lipschitz, structured_radius, vacuous_radius
from spom.theory.online_to_batch import (
    absorbed,
    averaged_excess,
    averaged_rounds,
    gradient_excess,
    l1_excess,
    strongly_convex_excess,
)
from spom.theory.splitting import Splitting, lemma2

__all__ = [
    "MirrorDescent",
    "Splitting",
    "absorbed",
    "accelerated_gpm_gap",
    "accelerated_gpm_rate",
    "averaged_excess",
    "averaged_rounds",
    "fobos_best",
    "fobos_fixed_step",
    "fobos_regret",
    "fobos_steps",
    "gpm_gap",
    "gradient_excess",
    "l1_excess",
    "largest_step",
    "lemma2",
    "lipschitz",
    "mirror_descent_excess",
    "spom_regret",
    "strongly_convex_excess",
    "structured_lipschitz",
    "structured_radius",
    "vacuous_radius",
]
