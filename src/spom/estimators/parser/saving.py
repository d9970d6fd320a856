"""A parser as a model file: names, vocabularies, and the non-zero weights."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Arrays, under
from spom.core.container import check_indices, check_shape, take
from spom.errors import ModelFileError
from spom.estimators.saving import Saving
from spom.estimators.training import last_entry
from spom.features.arcs import ArcTemplates
from spom.solvers.structured.trees.model import ArcModel, Entries, weight_count
from spom.solvers.structured.trees.relations import LabelModel
from spom.solvers.structured.trees.second_order.model import SecondOrderModel
from spom.solvers.structured.trees.second_order.templates import PartTemplates


class SavingParser(Saving):
    """`model_state` and `from_model_state` of a parser; only kept templates and non-zero weights are written."""

    arcs_: ArcModel
    second_: ArcModel | SecondOrderModel | None
    labels_: LabelModel | None
    relations_: tuple[str, ...]
    converged_: bool
    projective_: bool
    penalty_: Any
    trees_: str
    history_: list[dict[str, Any]]

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state and the arrays of a model file."""
        check_is_fitted(self, "arcs_")
        stages: dict[str, Any] = {"arcs": self.arcs_, "second": self.second_, "labels": self.labels_}
        if isinstance(self.second_, SecondOrderModel):
            stages["parts"] = stages.pop("second")
        stages = {name: model for name, model in stages.items() if model is not None}
        words = self.arcs_.templates.arrays()
        arrays: Arrays = {f"words.{key}": value for key, value in words.items() if "." in key}
        # The same model must give the same file: parts come first, as in older files.
        for name, model in sorted(stages.items(), key=lambda stage: stage[0] != "parts"):
            if name == "parts":
                arrays["parts.names"] = np.frombuffer("\n".join(model.templates.names).encode(), dtype=np.uint8)
            else:
                own = model.templates.arrays()
                arrays |= {f"{name}.{key}": own[key] for key in ("names", "numbers", "also")}
            arrays[f"{name}.places"], arrays[f"{name}.values"] = model.entries()
            if name in ("arcs", "second"):
                arrays[f"{name}.limits"] = model.limits
        state = {"stages": list(stages), "relations": list(self.relations_), "converged": bool(self.converged_)}
        state |= {"projective": bool(self.projective_), "trees": self.trees_, "penalty": self.penalty_}
        state["root"] = -1 if self.labels_ is None else self.labels_.root
        return {**state, "history": last_entry(self.history_)}, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """Return the parser of a model file."""
        parser = cls(**state["params"])
        names = tuple(state["relations"])
        words = under(arrays, "words.")
        parser.second_ = parser.labels_ = None
        vars(parser).update(pruning_=None, selection_=None, _learners=None)
        shared = None
        stages = list(state["stages"])
        known = {"arcs", "second", "parts", "labels"}
        if stages[:1] != ["arcs"] or len(set(stages)) < len(stages) or not set(stages) <= known:
            raise ModelFileError(
                f"the stages of a parser are arcs, second or parts, labels, not {stages}: it is damaged"
            )
        if not all(isinstance(name, str) for name in names) or ("labels" in stages) != bool(names):
            raise ModelFileError("the relations of the parser are no names, or there are none: the file is damaged")
        root = int(state["root"])
        if not -1 <= root < max(1, len(names)):
            raise ModelFileError(f"there is no relation {root} for the root: the file is damaged")
        for stage in stages:
            if stage == "parts":
                names_of = take(arrays, "parts.names", "u").tobytes().decode().split("\n")
                parts = PartTemplates(parser.arcs_.templates, tuple(names_of))
                entries = _entries(arrays, stage, weight_count(parts.arcs, parts.arcs.layout()) + parts.size)
                parser.second_ = SecondOrderModel(parts, entries, parser.arcs_.limits)
                continue
            own = under(arrays, f"{stage}.")
            templates = ArcTemplates.from_arrays({**words, **own})
            # All stages share one set of vocabularies.
            shared = templates.vocabularies if shared is None else shared
            templates.vocabularies = shared
            if stage == "arcs" and templates.guided:
                # Compiled code would read a tree that does not exist yet.
                raise ModelFileError("the templates of the arcs look at a tree of a first stage: the file is damaged")
            layout = templates.layout(apart=stage == "labels")
            if stage == "labels":
                entries = _entries(arrays, stage, layout.rows * len(names))
                parser.labels_ = LabelModel(templates, layout, names, entries, root)
                continue
            entries = _entries(arrays, stage, weight_count(templates, layout))
            radix = templates.radix("upos")
            limits = check_shape(take(arrays, f"{stage}.limits", "i", 3), (2, radix, radix), "limits")
            model = ArcModel(templates, layout, np.ascontiguousarray(limits, dtype=np.int16), entries)
            setattr(parser, f"{stage}_", model)
        # Older files have these only as parameters.
        given = state["params"].get("penalty")
        parser.penalty_ = state.get("penalty", None if isinstance(given, str) else given)
        parser.projective_ = bool(state.get("projective", state["params"].get("projective", False)))
        parser.trees_, parser.relations_ = state.get("trees", "as given"), names
        parser.converged_, parser.history_ = state["converged"], state["history"]
        return parser

    def _training(self) -> dict[str, Any]:
        model = self.arcs_
        count, kept = weight_count(model.templates, model.layout), int(np.count_nonzero(model.block_norms()))
        return {"nonzeros": model.entries().places.size, "weights": count, "blocks_kept": kept}


def _entries(arrays: Arrays, stage: str, size: int) -> Entries:
    """Read and check the places and weights of a stage."""
    values = take(arrays, f"{stage}.values", "f")
    places = check_indices(take(arrays, f"{stage}.places", "i"), size, f"{stage}.places")
    if bool((places[1:] <= places[:-1]).any()):
        raise ModelFileError(f"the indices '{stage}.places' do not rise: the file is damaged")
    values = check_shape(values, places.shape, f"{stage}.values").astype(np.float32, copy=False)
    return Entries(places, values)
