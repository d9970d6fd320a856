"""Sixteen threads that predict with one model agree with one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom import load_model
from spom.data import Treebank

FIXTURES = Path(__file__).parent / "fixtures"


def plain(predicted: Any) -> list[Any]:
    return predicted.heads.tolist() if isinstance(predicted, Treebank) else [np.asarray(p).tolist() for p in predicted]


@pytest.mark.parametrize("name", ["tagger", "parser", "classifier", "kernels"])
def test_sixteen_threads_agree_with_one(name: str) -> None:
    told = json.loads((FIXTURES / f"v1-{name}.json").read_text())
    given: Any = np.array(told["X"]) if "X" in told else told.get("sentences")
    if "trees" in told:
        given = Treebank.from_sentences(told["trees"]).without_trees()
    alone = plain(load_model(FIXTURES / f"v1-{name}.spom").predict(given))
    shared = load_model(FIXTURES / f"v1-{name}.spom")
    with ThreadPoolExecutor(16) as pool:
        every = list(pool.map(lambda _: plain(shared.predict(given)), range(160)))
    assert all(found == alone for found in every)
