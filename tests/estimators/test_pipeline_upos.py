"""UPOS alone beside joint labels: the scores of tagged sequences are those of both models, also after saving."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.solvers.structured.chains.test_sparse_chain import dense, path_score, random_weights, sentences

from spom.data.treebank import Treebank
from spom.errors import ModelFileError
from spom.estimators.pipeline.tags import TagStage, label_parts, tags_of
from spom.estimators.pipeline.upos import FACTOR, added, upos_of, with_steps
from spom.solvers.structured.chains.sparse.parts import Parts

NAMES = [("NOUN", "_", "Case=Acc"), ("VERB", "_", "_"), ("NOUN", "_", "Case=Nom"), ("ADJ", "_", "Case=Acc")]


@pytest.mark.parametrize("seed", range(5))
def test_the_best_tags_have_the_highest_sum_of_both_scores(seed: int) -> None:
    features, k = 7, len(NAMES)
    parts, upos = Parts.of(label_parts(NAMES, True), k), upos_of(NAMES)
    assert upos.tolist() == [0, 1, 0, 2]
    joint = random_weights(seed, features, k, parts, 1.0)
    alone = random_weights(seed + 100, features, 3, Parts.of(None, 3), 1.0)
    both = with_steps(*added(joint, alone), NAMES)
    tokens = sentences(seed, [4], features, 2)
    rows = tokens.indices.reshape(4, -1)
    own, single = (dense(weights, features)[rows].sum(axis=1) for weights in (joint, alone))

    def score(path: tuple[int, ...]) -> float:
        tags = tuple(upos[list(path)].tolist())
        return path_score(own, joint.chain, path) + FACTOR * path_score(single, alone.chain, tags)

    assert tuple(both.tag(tokens).tolist()) == max(product(range(k), repeat=4), key=score)
    assert with_steps(joint, None, NAMES) is joint


def made() -> Treebank:
    """Return sentences of determiners and nouns, where a noun's case is told by its ending."""
    draw, endings = np.random.default_rng(0), {"a": "Nom", "o": "Acc"}

    def noun() -> dict[str, str]:
        end = str(draw.choice(list(endings)))
        return {"form": "".join(draw.choice(list("bdfg"), 3)) + end, "upos": "NOUN", "feats": f"Case={endings[end]}"}

    the = {"form": "the", "upos": "DET"}
    return Treebank.from_sentences([[the, noun(), noun(), the, noun()] for _ in range(60)])


def without(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    return {n: array for n, array in arrays.items() if n != name}


def test_scores_of_steps_of_upos_are_kept() -> None:
    bank = made()
    stage, _ = TagStage.fit(bank.columns, tags_of(bank))
    assert stage.shared
    assert stage.steps is not None
    # A determiner is followed by a noun, and ends no sentence.
    the, noun = (list(dict.fromkeys(name[0] for name in stage.names)).index(upos) for upos in ("DET", "NOUN"))
    assert stage.steps[the, noun] > stage.steps[the, the]
    assert stage.steps[3, noun] > stage.steps[3, the]
    again = TagStage.from_arrays(stage.arrays(), stage.names)
    np.testing.assert_array_equal(again.whole.chain, stage.whole.chain)
    np.testing.assert_array_equal(again.codes(bank.columns), stage.codes(bank.columns))


def test_tags_of_an_older_file_have_no_steps_of_upos() -> None:
    bank = made()
    stage, _ = TagStage.fit(bank.columns, tags_of(bank))
    old = TagStage.from_arrays(without(stage.arrays(), "steps"), stage.names)
    assert old.steps is None
    np.testing.assert_array_equal(old.codes(bank.columns), old.weights.tag(tokens_of(old, bank)))


def tokens_of(stage: TagStage, bank: Treebank) -> Any:
    from spom.solvers.structured.chains.data import as_tokens

    return as_tokens(stage.templates.transform(bank.columns))


def test_steps_of_another_shape_are_refused() -> None:
    bank = made()
    stage, _ = TagStage.fit(bank.columns, tags_of(bank))
    with pytest.raises(ModelFileError, match="'steps' has shape"):
        TagStage.from_arrays({**stage.arrays(), "steps": np.zeros((3, 2), dtype=np.float32)}, stage.names)


def test_labels_that_are_frequent_are_learnt_without_upos_alone() -> None:
    bank = Treebank.from_sentences([[{"form": f"w{k % 7}", "upos": "X"}] for k in range(200)])
    stage, _ = TagStage.fit(bank.columns, tags_of(bank))
    assert stage.steps is None
    assert "steps" not in stage.arrays()
