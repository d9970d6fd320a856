"""Successive halving: who goes on, and that a resumed run is the run that made all passes at once."""

from __future__ import annotations

import numpy as np
import pytest

from spom import OnlineClassifier, SequenceTagger
from spom.errors import DataError, Unsupported
from spom.penalties import L1
from spom.scale import Shards, fit, search
from tests.scale.test_tagger import sentences

rng = np.random.default_rng(0)
X = rng.standard_normal((500, 10))
y = X[:, 0] + 0.2 * rng.standard_normal(500) > 0
DEV = (X[400:], y[400:])


def test_the_better_half_goes_on_and_the_best_is_a_whole_run() -> None:
    shards = Shards.arrays(X[:400], y[:400], 4)
    model = OnlineClassifier(penalty=L1(1.0), epochs=8, random_state=0, verbose=0)
    with pytest.warns(UserWarning, match="every weight is zero"):
        found = search(model, {"penalty__strength": [10.0, 0.02, 5.0, 2.0, 0.05]}, shards, dev=DEV)
    assert [trial["epochs"] for trial in found.trials] == [1] * 5 + [2] * 3 + [4] * 2 + [8]
    assert found.params["penalty__strength"] in (0.02, 0.05)
    whole = OnlineClassifier(penalty=L1(found.params["penalty__strength"]), epochs=8, random_state=0, verbose=0)
    np.testing.assert_array_equal(found.best.coef_, fit(whole, shards, dev=DEV).coef_)
    assert found.score == found.best.score(*DEV)


def test_templates_of_a_tagger_can_be_chosen() -> None:
    tagger = SequenceTagger(epochs=4, random_state=0, verbose=0, patience=None)
    grid = {"templates": [["w.length[0]"], ["w[0]", "w[-1]"]]}
    found = search(tagger, grid, Shards.arrays(sentences(150), None, 3), dev=sentences(60, 1))
    assert found.params["templates"] == ["w[0]", "w[-1]"]
    assert [trial["epochs"] for trial in found.trials] == [2, 2, 4]


def test_wrong_calls_are_told() -> None:
    shards = Shards.arrays(X, y, 2)
    with pytest.raises(DataError, match="dev"):
        search(OnlineClassifier(), {"epochs": [1]}, shards, dev=None)
    with pytest.raises(Unsupported, match="epochs="):
        search(SequenceTagger(), {"loss": ["log"]}, shards, dev=DEV)
