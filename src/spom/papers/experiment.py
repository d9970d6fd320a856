"""The parts of an experiment: an entry of the list, and a module with six names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from spom.papers.progress import Bar
from spom.papers.result import Numbers, Row, Settings

PAPERS = {
    "SPOM": "Martins, Smith, Xing, Aguiar, Figueiredo: Online Learning of Structured Predictors with Multiple "
    "Kernels (2011)",
    "FOBOS": "Duchi, Singer: Efficient Learning using Forward-Backward Splitting (2009)",
    "OCMD": "Lei, Zhou: Analysis of Online Composite Mirror Descent Algorithm (2017)",
    "GPM": "El Halabi, Hsieh, Vu, Nguyen, Cevher: General Proximal Gradient Method: A Case for Non-Euclidean "
    "Norms (2017)",
}


class Code(Protocol):
    """The module of an experiment.

    `compute` returns numbers that JSON can hold, and depends only on its arguments and the data set. `compare` and
    `draw` get only those numbers, so a table or figure can be rebuilt from a saved result.
    """

    FULL: Settings
    QUICK: Settings  # the quick run's differences from FULL
    TINY: Settings  # differences from the quick run, for a run of about a second
    compute: Callable[[Settings, int, Bar], Numbers]
    compare: Callable[[Numbers, Settings], list[Row]]
    draw: Callable[[Numbers, Settings], Any]


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its id, the paper (a key of `PAPERS`) and part, a title, the data sets it reads.

    >>> Experiment("fobos-fig1", "FOBOS", "Figure 1", "FOBOS against Pegasos").reference
    'Duchi, Singer: Efficient Learning using Forward-Backward Splitting (2009)'
    """

    id: str
    paper: str
    part: str
    title: str
    data: tuple[str, ...] = ()

    @property
    def code(self) -> Code:
        """The module, imported on access."""
        name = "spom.papers." + self.id.replace("-", "_")
        return cast(Code, importlib.import_module(name))

    @property
    def reference(self) -> str:
        """The full reference of the paper."""
        return PAPERS[self.paper]

    def settings(self, quick: bool = False, **changes: Any) -> Settings:
        """Return the settings of the full or quick run, overridden by `changes`."""
        code = self.code
        unknown = sorted(set(changes) - set(code.FULL))
        if unknown:
            raise ValueError(f"{self.id} has no setting {unknown[0]!r}; its settings are: {', '.join(code.FULL)}")
        return {**code.FULL, **(code.QUICK if quick else {}), **changes}
