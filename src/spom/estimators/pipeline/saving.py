"""A pipeline as a model file: the stages' arrays, packed, and their text in the header."""

from __future__ import annotations

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from spom.errors import ModelFileError
from spom.estimators.parser.parser import DependencyParser
from spom.estimators.pipeline.lemmas import LemmaStage
from spom.estimators.pipeline.multiword import Splitter
from spom.estimators.pipeline.packing import pack, unpack
from spom.estimators.pipeline.segmenter import Segmenter
from spom.estimators.pipeline.tags import TagStage
from spom.estimators.saving import Arrays, Saving
from spom.models.loading import Encoder, decode

# Features of characters are places of hashes: with other templates the weights of a file mean nothing.
VERSION, OLDEST = 5, 4


class SavingPipeline(Saving):
    """`model_state` and `from_model_state` of a pipeline."""

    def model_state(self) -> tuple[dict[str, Any], Arrays]:
        """What `spom.models` writes."""
        check_is_fitted(self, "segmenter_")
        held = vars(self)
        arrays: Arrays = {f"characters.{n}": a for n, a in held["segmenter_"].arrays().items()}
        arrays |= {f"tags.{n}": a for n, a in held["tagger_"].arrays().items()}
        arrays |= {f"multiword.{n}": a for n, a in held["splitter_"].arrays().items()}
        state: dict[str, Any] = {"splitter": held["splitter_"].state(), "scripts": None, "parser": None}
        state["tags"] = [list(name) for name in held["tagger_"].names]
        if held["lemmatizer_"] is not None:
            arrays |= {f"lemmas.{n}": a for n, a in held["lemmatizer_"].arrays().items()}
            state["scripts"] = held["lemmatizer_"].scripts
        if held["parser_"] is not None:
            inner, own = held["parser_"].model_state()
            params = {k: v for k, v in held["parser_"].get_params(deep=False).items() if k not in _NOT_KEPT}
            encoder = Encoder(own)
            state["parser"] = {"state": encoder.encode(inner, "parser"), "params": encoder.encode(params, "parser")}
            arrays |= {f"trees.{n}": a for n, a in own.items()}
        told, packed = pack(arrays)
        return {**state, "version": VERSION, "packed": told}, packed

    @classmethod
    def from_model_state(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        """The pipeline again."""
        found = state.get("version", 1)
        if not OLDEST <= found <= VERSION:
            raise ModelFileError(f"a pipeline of version {found}, not {VERSION}: train it again with this spom")
        pipeline = cls(**state["params"])
        every = unpack(state["packed"], arrays)

        def part(prefix: str) -> Arrays:
            return {n.removeprefix(prefix): a for n, a in every.items() if n.startswith(prefix)}

        names = [tuple(str(text) for text in name) for name in state["tags"]]
        held: dict[str, Any] = {"segmenter_": Segmenter.from_arrays(part("characters."))}
        held["splitter_"] = Splitter.from_state(state["splitter"], part("multiword."))
        held["tagger_"] = TagStage.from_arrays(part("tags."), names)
        held["lemmatizer_"] = held["parser_"] = None
        held["pruning_"] = {}
        if state["scripts"] is not None:
            held["lemmatizer_"] = LemmaStage.from_arrays(part("lemmas."), list(state["scripts"]), len(names))
        if state["parser"] is not None:
            own = part("trees.")
            inner = decode(state["parser"]["state"], own)
            inner["params"] = {**decode(state["parser"]["params"], own), "verbose": 0}
            held["parser_"] = DependencyParser.from_model_state(inner, own)
        vars(pipeline).update(held)
        return pipeline

    def _training(self) -> dict[str, Any]:
        held = vars(self)
        found: dict[str, Any] = {
            "labels": len(held["tagger_"].names),
            "tag_weights": held["tagger_"].weights.values.size,
        }
        if held["lemmatizer_"] is not None:
            found |= {"scripts": len(held["lemmatizer_"].scripts), "words_seen": len(held["lemmatizer_"].seen)}
        return found


_NOT_KEPT = ("callbacks", "verbose", "n_jobs")
