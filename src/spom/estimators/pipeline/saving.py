"""A pipeline as a model file: the stages' arrays, packed, and their text in the header."""

from __future__ import annotations

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Arrays, under
from spom.errors import ModelFileError
from spom.estimators.parser.parser import DependencyParser
from spom.estimators.pipeline.lemmas import LemmaStage
from spom.estimators.pipeline.multiword import Splitter
from spom.estimators.pipeline.packing import pack, unpack
from spom.estimators.pipeline.segmenter import Segmenter
from spom.estimators.pipeline.tags import TagStage
from spom.estimators.saving import Saving
from spom.models.loading import Encoder, decode

# Features of characters are places of hashes: with other templates the weights of a file are meaningless.
VERSION, OLDEST = 7, 4
# Parameters of the parser that a file does not store.
_NOT_KEPT = ("callbacks", "verbose", "n_jobs")


class SavingPipeline(Saving):
    """`model_state` and `from_model_state` of a pipeline."""

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state and arrays that `spom.models` writes."""
        check_is_fitted(self, "segmenter_")
        held = vars(self)
        stages = {"characters": "segmenter_", "tags": "tagger_", "multiword": "splitter_", "lemmas": "lemmatizer_"}
        parts: dict[str, Arrays] = {name: held[at].arrays() for name, at in stages.items() if held[at] is not None}
        state: dict[str, Any] = {"splitter": held["splitter_"].state(), "scripts": None, "parser": None}
        state["tags"] = [list(name) for name in held["tagger_"].names]
        if held["lemmatizer_"] is not None:
            state["scripts"] = held["lemmatizer_"].scripts
        if held["parser_"] is not None:
            inner, own = held["parser_"].model_state()
            params = {k: v for k, v in held["parser_"].get_params(deep=False).items() if k not in _NOT_KEPT}
            encoder = Encoder(own)
            state["parser"] = {"state": encoder.encode(inner, "parser"), "params": encoder.encode(params, "parser")}
            parts["trees"] = own
        told, packed = pack({f"{name}.{n}": a for name, part in parts.items() for n, a in part.items()})
        return {**state, "version": VERSION, "packed": told}, packed

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """Return the pipeline restored from a model file."""
        found = state.get("version", 1)
        if not OLDEST <= found <= VERSION:
            raise ModelFileError(f"a pipeline of version {found}, not {VERSION}: train it again")
        every = unpack(state["packed"], arrays)
        names = [tuple(str(text) for text in name) for name in state["tags"]]
        held: dict[str, Any] = {"segmenter_": Segmenter.from_arrays(under(every, "characters."))}
        held["splitter_"] = Splitter.from_state(state["splitter"], under(every, "multiword."))
        held["tagger_"] = TagStage.from_arrays(under(every, "tags."), names)
        held |= {"lemmatizer_": None, "parser_": None, "pruning_": {}}
        if state["scripts"] is not None:
            held["lemmatizer_"] = LemmaStage.from_arrays(under(every, "lemmas."), list(state["scripts"]), len(names))
        if state["parser"] is not None:
            own = under(every, "trees.")
            inner = decode(state["parser"]["state"], own)
            inner["params"] = {**decode(state["parser"]["params"], own), "verbose": 0}
            held["parser_"] = DependencyParser.from_model_state(inner, own)
        pipeline = cls(**state["params"])
        vars(pipeline).update(held)
        return pipeline

    def _training(self) -> dict[str, Any]:
        held = vars(self)
        found = {"labels": len(held["tagger_"].names), "tag_weights": held["tagger_"].weights.values.size}
        if held["lemmatizer_"] is not None:
            found |= {"scripts": len(held["lemmatizer_"].scripts), "words_seen": len(held["lemmatizer_"].seen)}
        return found
