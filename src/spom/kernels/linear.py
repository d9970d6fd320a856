"""The linear kernel."""

from __future__ import annotations

from spom.core.registry import register
from spom.kernels.base import Normalizable
from spom.kernels.gram import Reals


@register(
    "kernel",
    "linear",
    formula=r"\langle x, z \rangle",
    cost="one matrix product",
    examples=lambda: [Linear(), Linear(normalize=True)],
)
class Linear(Normalizable):
    """K(x, z) = <x, z>; with `normalize`, the cosine of the angle between x and z.

    >>> Linear().block([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _plain(self, P: Reals) -> Reals:
        return P
