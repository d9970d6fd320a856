"""`Templates`: columns of tokens to rows of feature ids, one block per template."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import Ints, under
from spom.data.columns import Columns
from spom.data.treebank import Treebank
from spom.errors import DataError, ModelFileError, Unsupported
from spom.features.clusters import Clusters
from spom.features.conjunctions import Coder, Conjunctions
from spom.features.hashed import Hashed
from spom.features.ready import SETS, read_templates, ready
from spom.features.rows import Blocks, Rows, check_kind, opening, read_spec, write_spec
from spom.features.streams import Template, check_step, grouped

_VERSION = 1
_FAR = 1 << 16


class Templates:
    """Feature (m, v) of token t is 1 where template m has the values v at t: a conjunction of (column, offset) each.

    `templates` is the name of a ready set (`"chunking"`, `"pos"`, `"entities"`), the path of a file (one of CRF++, or
    one template per line), or a list of templates as text: `"w[-1]|w[0]"` are the words before and at the token,
    `"w.lower.suffix3[0]"` the last three letters of the word in lower case. The steps that derive strings from a
    column are lower, prefixK, suffixK, shape, pattern, length, digit, case, cluster, clusterK (`clusters` is then a
    mapping or a file of word<TAB>cluster lines). Beyond the ends of a sentence there are markers, one per distance
    (none with `boundaries=False`). Features that `fit` saw fewer than `min_count` times, or never, are left out. With
    `table`, features are hashed into that many slots instead, and nothing is learnt.

    >>> columns = Columns.from_lists([["the", "cat"], ["the", "dog"]])
    >>> templates = Templates(["w[0]", "w[-1]|w[0]"])
    >>> rows = templates.fit(columns)
    >>> [templates.name(id) for id in rows.indices[rows.indptr[1] : rows.indptr[2]]]
    ['w[0]=cat', 'w[-1]|w[0]=the|cat']
    >>> templates.blocks.names, templates.blocks.sizes
    (('w[0]', 'w[-1]|w[0]'), array([3, 3]))
    >>> templates.transform(Columns.from_lists([["cat", "the", "dog"]])).to_csr(6).sum(axis=1).ravel()
    matrix([[1., 1., 2.]])
    """

    kind = "templates"

    def __init__(
        self,
        templates: str | Path | Iterable[str | Template] = "chunking",
        *,
        min_count: int = 1,
        table: int | None = None,
        boundaries: bool = True,
        clusters: Any = None,
    ) -> None:
        self.min_count, self.table, self.boundaries = min_count, table, boundaries
        self.transitions: bool | None = None
        if isinstance(templates, (str, Path)) and str(templates) not in SETS and Path(templates).is_file():
            found, self.transitions = read_templates(templates)
        elif isinstance(templates, (str, Path)):
            found = ready(str(templates))
        else:
            found = [part if isinstance(part, Template) else Template.parse(part) for part in templates]
        self.clusters = None if clusters is None else Clusters.read(clusters)
        self._set(found)

    def _set(self, templates: Iterable[Template]) -> None:
        self._groups = grouped(templates)
        self.templates = [template for part in self._groups.values() for template in part]
        if not self.templates:
            raise ValueError("templates must have at least one template")
        for template in self.templates:
            if any(abs(offset) > _FAR for _, offset in template.atoms):
                raise DataError(f"template {template.text!r}: an offset is at most {_FAR}")
            for stream in template.streams:
                for step in stream.steps:
                    check_step(step, template.text, self.clusters is not None)
        if isinstance(self.min_count, bool) or self.min_count < 1 or (self.table is not None and self.min_count > 1):
            raise ValueError(f"min_count must be at least 1, and 1 with a table; it is {self.min_count!r}")
        if self.table is not None and not len(self._groups) <= self.table < 2**31:
            raise ValueError(f"table must be from {len(self._groups)} (the blocks) to 2**31 - 1; it is {self.table!r}")
        self._model: Conjunctions | Hashed | None = None
        if self.table is not None:
            self._model = Hashed(self._groups, self.table, self.boundaries, self.clusters)

    def fit(self, X: Columns | Treebank | Iterable[Any]) -> Rows:
        """Learn the features of sentences (`Columns`, or lists of tokens), and return their rows."""
        columns = self._columns(X)
        if self.table is not None:
            return self.transform(columns)
        self._model, rows = Conjunctions.fit(self._coder(), self._groups, columns)
        if self.min_count == 1:
            return rows
        counts = np.bincount(rows.indices, minlength=self._model.blocks.total)
        # A block that lost all its features stays, empty: no template that was asked for is dropped.
        every = range(len(self._groups))
        self._model = self._model.compact(np.flatnonzero(counts >= self.min_count), every)
        return self._model.transform(columns)

    def transform(self, X: Columns | Treebank | Iterable[Any]) -> Rows:
        """Return the rows of sentences: the known features, at most one per template. Threads may share this object."""
        return self._fitted.transform(self._columns(X))

    def _columns(self, X: Any) -> Columns:
        if isinstance(X, Columns):
            return X
        check_kind(X, self.kind)
        return X.columns if isinstance(X, Treebank) else Columns.from_lists(X)

    def fresh(self) -> Templates:
        """Return the same templates with nothing learnt."""
        model = Hashed(self._groups, self.table, self.boundaries, self.clusters) if self.table is not None else None
        return self._like(list(self._groups), model)

    @property
    def blocks(self) -> Blocks:
        """The features of each template."""
        return self._fitted.blocks

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.blocks.total

    @property
    def fitted(self) -> bool:
        """Whether `transform` can be called."""
        return self._model is not None

    def name(self, id: int) -> str:
        """Return a feature as text: template=values."""
        m = int(self.blocks.of(id))
        if not 0 <= id < self.blocks.total:
            raise IndexError(f"there are {self.blocks.total} features, no {id}")
        local = int(id) - int(self.blocks.starts[m])
        model = self._fitted
        return f"{self.blocks.names[m]}={model.name(m, local) if isinstance(model, Conjunctions) else f'#{local}'}"

    def keep(self, blocks: Sequence[int] | Ints) -> Templates:
        """Return the templates of some blocks, in their old order, with what they have learnt; ids are renumbered."""
        chosen = sorted({int(m) for m in blocks})
        names = list(self._groups)
        if not chosen or chosen[0] < 0 or chosen[-1] >= len(names):
            raise ValueError(f"blocks must be some of 0 to {len(names) - 1}; they are {list(blocks)}")
        if self._model is None:
            return self._like([names[m] for m in chosen], None)
        return self._like([names[m] for m in chosen], self._model.compact(self.blocks.ids(chosen), chosen))

    def compact(self, used: Sequence[int] | Ints) -> Templates:
        """Return only the features `used` (sorted ids): the k-th of them is feature k of the result.

        Templates without any of these features are dropped, and so are strings that no feature needs. Meant for model
        files.
        """
        ids = np.asarray(used, dtype=np.int64)
        total = self.blocks.total
        if ids.ndim != 1 or (ids.size and (ids[0] < 0 or ids[-1] >= total or bool((np.diff(ids) <= 0).any()))):
            raise ValueError(f"used must be increasing ids of features, from 0 to {total - 1}")
        alive = np.unique(self.blocks.of(ids)).tolist() or [0]
        names = list(self._groups)
        return self._like([names[m] for m in alive], self._fitted.compact(ids, alive))

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file; `spec` is JSON as UTF-8."""
        model = self._fitted
        spec = {
            "version": _VERSION,
            "templates": [template.text for template in self.templates],
            "min_count": self.min_count,
            "table": self.table,
            "boundaries": self.boundaries,
            "transitions": self.transitions,
            "reach": model.coder.reach if isinstance(model, Conjunctions) else 0,
        }
        return {"spec": write_spec(spec), **model.arrays()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Templates:
        """Rebuild the templates from `arrays()`; the arrays may be read-only. Damaged ones raise a `ModelFileError`."""
        with opening("templates"):
            spec = read_spec(arrays, _VERSION)
            parts = under(arrays, "clusters.")
            found = cls(
                [Template.parse(text) for text in spec["templates"]],
                min_count=spec["min_count"],
                table=spec["table"],
                boundaries=bool(spec["boundaries"]),
                clusters=Clusters.from_arrays(parts) if parts else None,
            )
            found.transitions = spec["transitions"]
            if found.table is not None:
                found._model = Hashed.from_arrays(found._groups, found.table, found.boundaries, found.clusters, arrays)
            else:
                coder = found._coder()
                if not isinstance(spec["reach"], int) or not coder.reach <= spec["reach"] <= _FAR:
                    raise ModelFileError("the templates of the model reach further than it says")
                coder.reach = spec["reach"]
                found._model = Conjunctions.from_arrays(coder, found._groups, arrays)
            return found

    def _coder(self) -> Coder:
        streams = tuple(dict.fromkeys(stream for template in self.templates for stream in template.streams))
        reach = max((abs(offset) for template in self.templates for _, offset in template.atoms), default=0)
        return Coder(streams, reach, self.boundaries, self.clusters)

    def _like(self, names: list[str], model: Conjunctions | Hashed | None) -> Templates:
        """Return the same templates with only some of the blocks."""
        found = copy.copy(self)
        found._groups = {name: self._groups[name] for name in names}
        found.templates = [template for part in found._groups.values() for template in part]
        found._model = model
        return found

    @property
    def _fitted(self) -> Conjunctions | Hashed:
        if self._model is None:
            raise Unsupported("these templates have learnt no features yet: call fit with columns first")
        return self._model

    def __repr__(self) -> str:
        size = f", {self.n_features} features" if self.fitted else ""
        return f"Templates({len(self.templates)} templates{size})"
