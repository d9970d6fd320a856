"""A parser as a model file: names, vocabularies, and the weights that are not zero."""

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

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """What `spom.models` writes."""
        check_is_fitted(self, "arcs_")
        held = vars(self)
        arrays: Arrays = {}
        stages = [name for name in ("arcs", "second", "labels") if held[f"{name}_"] is not None]
        vocabularies = held["arcs_"].templates.arrays()
        arrays.update({f"words.{key}": value for key, value in vocabularies.items() if "." in key})
        if isinstance(held["second_"], SecondOrderModel):
            stages.remove("second")
            stages.append("parts")
            model = held["second_"]
            arrays["parts.names"] = np.frombuffer("\n".join(model.templates.names).encode(), dtype=np.uint8)
            arrays["parts.places"], arrays["parts.values"] = model.entries()
        for name in (name for name in stages if name != "parts"):
            model = held[f"{name}_"]
            own = model.templates.arrays()
            arrays.update({f"{name}.{key}": own[key] for key in ("names", "numbers", "also")})
            arrays[f"{name}.places"], arrays[f"{name}.values"] = model.entries()
            if name != "labels":
                arrays[f"{name}.limits"] = model.limits
        state = {"stages": stages, "relations": list(held["relations_"]), "converged": bool(held["converged_"])}
        state |= {"projective": bool(held["projective_"]), "trees": held["trees_"], "penalty": held["penalty_"]}
        state["root"] = -1 if held["labels_"] is None else held["labels_"].root
        return {**state, "history": last_entry(held["history_"])}, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """The parser again."""
        parser = cls(**state["params"])
        names = tuple(state["relations"])
        words = under(arrays, "words.")
        held: dict[str, Any] = {"second_": None, "labels_": None, "pruning_": None, "selection_": None}
        held |= {"_learners": None}
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
                parts = PartTemplates(held["arcs_"].templates, tuple(names_of))
                entries = _entries(arrays, stage, weight_count(parts.arcs, parts.arcs.layout()) + parts.size)
                held["second_"] = SecondOrderModel(parts, entries, held["arcs_"].limits)
                continue
            own = under(arrays, f"{stage}.")
            templates = ArcTemplates.from_arrays({**words, **own})
            # One set of vocabularies serves all stages.
            shared = templates.vocabularies if shared is None else shared
            templates.vocabularies = shared
            if stage == "arcs" and templates.guided:
                # Compiled code would read a tree that does not exist yet.
                raise ModelFileError("the templates of the arcs look at a tree of a first stage: the file is damaged")
            layout = templates.layout(apart=stage == "labels")
            if stage == "labels":
                entries = _entries(arrays, stage, layout.rows * len(names))
                held["labels_"] = LabelModel(templates, layout, names, entries, root)
                continue
            entries = _entries(arrays, stage, weight_count(templates, layout))
            radix = templates.radix("upos")
            limits = check_shape(take(arrays, f"{stage}.limits", "i", 3), (2, radix, radix), "limits")
            held[f"{stage}_"] = ArcModel(templates, layout, np.ascontiguousarray(limits, dtype=np.int16), entries)
        # Files from before the choice have the parameter alone.
        projective = bool(state.get("projective", state["params"].get("projective", False)))
        # Older files have no penalty but the parameter.
        given = state["params"].get("penalty")
        held["penalty_"] = state.get("penalty", None if isinstance(given, str) else given)
        held |= {"projective_": projective, "trees_": state.get("trees", "as given")}
        held |= {"relations_": names, "converged_": state["converged"], "history_": state["history"]}
        vars(parser).update(held)
        return parser

    def _training(self) -> dict[str, Any]:
        model = vars(self)["arcs_"]
        kept, count = len(model.templates.blocks), weight_count(model.templates, model.layout)
        return {"nonzeros": model.entries().places.size, "weights": count, "blocks_kept": kept}


def _entries(arrays: Arrays, stage: str, size: int) -> Entries:
    """Places and weights of a stage, checked."""
    values = take(arrays, f"{stage}.values", "f")
    places = check_indices(take(arrays, f"{stage}.places", "i"), size, f"{stage}.places")
    if bool((places[1:] <= places[:-1]).any()):
        raise ModelFileError(f"the indices '{stage}.places' do not rise: the file is damaged")
    values = check_shape(values, places.shape, f"{stage}.values").astype(np.float32, copy=False)
    return Entries(places, values)
