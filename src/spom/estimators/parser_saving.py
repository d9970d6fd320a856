"""A parser as a model file: names, vocabularies, and the weights that are not zero."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import aligned_singles
from spom.estimators.saving import Arrays, Saving, last_entry
from spom.features.arcs import ArcTemplates
from spom.models.checks import check_indices, check_shape, take
from spom.solvers.arcs.labels import LabelModel, label_width
from spom.solvers.arcs.model import ArcModel
from spom.solvers.arcs.scoring import Singles


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
        for name in stages:
            model = held[f"{name}_"]
            own = model.templates.arrays()
            arrays.update({f"{name}.{key}": own[key] for key in ("names", "numbers", "also")})
            places = np.flatnonzero(model.weights)
            arrays[f"{name}.places"], arrays[f"{name}.values"] = places, model.weights[places]
            if name != "labels":
                arrays[f"{name}.limits"] = model.limits
        state = {"stages": stages, "relations": list(held["relations_"]), "converged": bool(held["converged_"])}
        state["root"] = -1 if held["labels_"] is None else held["labels_"].root
        return {**state, "history": last_entry(held["history_"])}, arrays

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """The parser again."""
        parser = cls(**state["params"])
        names = tuple(state["relations"])
        words = {key.removeprefix("words."): value for key, value in arrays.items() if key.startswith("words.")}
        held: dict[str, Any] = {"second_": None, "labels_": None, "pruning_": None, "_learners": None}
        shared = None
        for stage in state["stages"]:
            own = {key.removeprefix(f"{stage}."): value for key, value in arrays.items() if key.startswith(f"{stage}.")}
            templates = ArcTemplates.from_arrays({**words, **own})
            # One set of vocabularies serves all stages.
            shared = templates.vocabularies if shared is None else shared
            templates.vocabularies = shared
            layout = templates.layout(apart=stage == "labels")
            size = layout.rows * label_width(len(names)) if stage == "labels" else layout.size
            weights = _dense(arrays, stage, size)
            if stage == "labels":
                held["labels_"] = LabelModel(templates, layout, names, weights, int(state["root"]))
                continue
            radix = templates.radix("upos")
            limits = check_shape(take(arrays, f"{stage}.limits", "i", 3), (2, radix, radix), "limits")
            held[f"{stage}_"] = ArcModel(templates, layout, np.ascontiguousarray(limits, dtype=np.int16), weights)
        held |= {"relations_": names, "converged_": state["converged"], "history_": state["history"]}
        vars(parser).update(held)
        return parser

    def _training(self) -> dict[str, Any]:
        model = vars(self)["arcs_"]
        kept = len(model.templates.blocks)
        return {"nonzeros": int(np.count_nonzero(model.weights)), "weights": model.weights.size, "blocks_kept": kept}


def _dense(arrays: Arrays, stage: str, size: int) -> Singles:
    values = take(arrays, f"{stage}.values", "f")
    places = check_indices(take(arrays, f"{stage}.places", "i"), size, f"{stage}.places")
    weights = aligned_singles(size)
    weights[places] = check_shape(values, places.shape, f"{stage}.values")
    return weights
