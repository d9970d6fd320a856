"""The plots people want, one call each: each returns matplotlib axes. Needs matplotlib (pip install spom[report])."""

from __future__ import annotations

from spom.plot.blocks import blocks, blocks_over_epochs
from spom.plot.features import contributions, top_features
from spom.plot.scores import confusion
from spom.plot.tree import tree
from spom.plot.weights import path

__all__ = ["blocks", "blocks_over_epochs", "confusion", "contributions", "path", "top_features", "tree"]
