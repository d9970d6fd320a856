"""The one trainer: checkpoints that resume to the same bytes and refuse another run; arrays from outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import spom
from spom import (
    DependencyParser,
    MKLClassifier,
    OnlineClassifier,
    OnlineRegressor,
    ProximalClassifier,
    SequenceTagger,
)
from spom.core import container
from spom.core.atomic import previous, remove_stale, replacing
from spom.data import Treebank
from spom.errors import DataError, ModelFileError, SpomError
from spom.estimators.training import Checkpoint
from spom.estimators.training.trainer import Writer
from spom.kernels import Gaussian, Linear
from spom.penalties import L1, SparseMKL

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(60) > 0, "a", "b")
WORDS = ["the", "cat", "sleeps", "dogs", "bark", "old", "loud"]
TEXT = [[str(RNG.choice(WORDS)) for _ in range(5)] for _ in range(30)]
TAGS = [[("N" if w in ("cat", "dogs") else "V" if w in ("bark", "sleeps") else "D") for w in s] for s in TEXT]
TREES = [{"a": 2, "b": 0, "c": 2, "d": 3}, {"b": 3, "d": 3, "a": 0, "c": 3}, {"c": 0, "a": 1, "d": 4, "b": 2}]
BANK = Treebank.from_sentences(
    [{"form": w, "upos": "X", "head": h, "deprel": "dep" if h else "root"} for w, h in tree.items()] for tree in TREES
)
KERNELS = [Linear(), Gaussian(1.0)]

# (the estimator, its data, its development data)
CASES: dict[str, Any] = {
    "classifier": (OnlineClassifier(epochs=6, random_state=3), (X, Y), (X[:20], Y[:20])),
    "regressor": (OnlineRegressor(epochs=6, random_state=3, update="forward-backward"), (X, X[:, 0]), (X, X[:, 0])),
    "tagger": (SequenceTagger(epochs=6, random_state=3), (TEXT, TAGS), (TEXT[:9], TAGS[:9])),
    "tagger, spom": (
        SequenceTagger(epochs=6, loss="hinge", penalty=SparseMKL(1e-3), random_state=3),
        (TEXT, TAGS),
        (TEXT[:9], TAGS[:9]),
    ),
    "tagger, few weights": (SequenceTagger(epochs=3, max_weights=6, random_state=3), (TEXT, TAGS), (TEXT, TAGS)),
    "parser": (DependencyParser(epochs=4, label_epochs=3, min_count=1, second_stage=True), (BANK,), BANK),
    "parser, second order": (
        DependencyParser(epochs=3, label_epochs=2, min_count=1, order=2, folds=2, table_bits=8, projective=True),
        (BANK,),
        BANK,
    ),
    "kernels": (MKLClassifier(KERNELS, epochs=6, random_state=3), (X, Y), (X[:20], Y[:20])),
    "frank-wolfe": (MKLClassifier(KERNELS, solver="frank-wolfe", tol=1e-4, random_state=3), (X, Y), (X[:20], Y[:20])),
}


class StopAt:
    """Ends a run after so many epochs, of whatever stage."""

    def __init__(self, count: int) -> None:
        self.count = count

    def on_epoch(self, info: dict[str, Any]) -> bool:
        self.count -= 1
        return self.count <= 0


@pytest.mark.parametrize("scored", [False, True], ids=["alone", "dev"])
@pytest.mark.parametrize("name", CASES)
def test_a_stopped_run_resumes_to_the_same_model_file(name: str, scored: bool, tmp_path: Path) -> None:
    model, data, held = CASES[name]
    model.set_params(verbose=0, callbacks=None)
    more = {"dev": held} if scored else {}
    whole = model.fit(*data, **more)
    whole.save(tmp_path / "whole")
    path = tmp_path / "over"
    model.fit(*data, **more, checkpoint=path)
    model.fit(*data, **more, checkpoint=path, resume=True).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes(), "resumed after the last epoch"
    for stop in range(1, len(whole.history_)):
        path = tmp_path / f"state{stop}"
        model.set_params(callbacks=StopAt(stop)).fit(*data, **more, checkpoint=path, checkpoint_every="stop")
        assert path.exists()
        again = model.set_params(callbacks=None).fit(*data, **more, checkpoint=path, resume=True)
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes(), f"stopped after {stop}"


def refusal(run: Any, path: Path) -> str:
    before = path.read_bytes()
    with pytest.raises(SpomError) as error:
        run()
    assert path.read_bytes() == before
    return str(error.value)


def test_a_checkpoint_of_another_run_is_refused_by_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "state"
    base: dict[str, Any] = {"epochs": 4, "random_state": 0, "verbose": 0}

    def fit(text: Any = TEXT, tags: Any = TAGS, **more: Any) -> Any:
        return lambda: SequenceTagger(**{**base, **more}).fit(text, tags, checkpoint=path, resume=True)

    SequenceTagger(**base, callbacks=StopAt(2)).fit(TEXT, TAGS, checkpoint=path)
    renamed = [["V" if tag == "N" else "N" if tag == "V" else tag for tag in tags] for tags in TAGS]
    assert "data.digest was" in refusal(fit(TEXT[::-1], TAGS[::-1]), path)
    assert "data.sentences was 30, now it is 29" in refusal(fit(TEXT[1:], TAGS[1:]), path)
    assert "targets was" in refusal(fit(tags=renamed), path)
    extra = [["X" if i == t == 0 else tag for t, tag in enumerate(tags)] for i, tags in enumerate(TAGS)]
    assert "labels was ['D', 'N', 'V'], now it is ['D', 'N', 'V', 'X']" in refusal(fit(tags=extra), path)
    assert "parameters.penalty was 'auto'" in refusal(fit(penalty=L1(1.0)), path)
    assert "parameters.loss was 'auto', now it is 'hinge'" in refusal(fit(loss="hinge"), path)
    assert "parameters.random_state was 0, now it is 1" in refusal(fit(random_state=1), path)
    assert "templates was" in refusal(fit(templates=["w[0]"]), path)
    fit(epochs=6)()


def test_a_state_with_other_arrays_never_reaches_compiled_code(tmp_path: Path) -> None:
    path = tmp_path / "state"
    SequenceTagger(epochs=4, random_state=0, verbose=0, callbacks=StopAt(2)).fit(TEXT, TAGS, checkpoint=path)
    header, arrays = container.read_file(path)
    for name in [n for n in arrays if n.startswith("state.internal.engine.")]:
        for bad in (arrays[name].reshape(-1)[:-1], np.full_like(arrays[name], np.nan), arrays[name].astype("f2")):
            container.write_file(path, "Checkpoint", header.model, {**arrays, name: bad})
            with pytest.raises(SpomError):
                SequenceTagger(epochs=4, random_state=0, verbose=0).fit(TEXT, TAGS, checkpoint=path, resume=True)


def test_resume_needs_a_checkpoint_and_the_one_before_serves_where_the_last_is_damaged(tmp_path: Path) -> None:
    path, model = tmp_path / "state", OnlineClassifier(epochs=3, random_state=0, verbose=0)
    with pytest.raises(DataError, match="there is no checkpoint to resume from"):
        model.fit(X, Y, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="needs checkpoint="):
        model.fit(X, Y, resume=True)
    model.set_params(callbacks=StopAt(2)).fit(X, Y, checkpoint=path)
    model.set_params(callbacks=None).fit(X, Y, checkpoint=path, resume=True)
    assert previous(path).exists()
    path.write_bytes(path.read_bytes()[:100])
    resumed = model.fit(X, Y, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.coef_, OnlineClassifier(epochs=3, random_state=0).fit(X, Y).coef_)


def test_what_a_killed_process_left_is_removed_and_what_others_write_stays(tmp_path: Path) -> None:
    path = tmp_path / "state"
    child = os.fork()
    if child == 0:
        with replacing(path) as file:
            file.write(b"half")
            os._exit(9)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    with replacing(path):
        assert remove_stale(path) == 1
        assert len(list(tmp_path.iterdir())) == 1, "our own is being written"
    OnlineClassifier(epochs=2).fit(X, Y, checkpoint=path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state", "state.previous"]


def test_a_kill_while_the_old_checkpoint_is_kept_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("first")
    # As a kill between the two moves leaves it: one file under both names.
    os.link(path, previous(path))
    with replacing(path, keep=True) as file:
        file.write(b"second")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state", "state.previous"]
    assert (path.read_text(), previous(path).read_text()) == ("second", "first")


def test_checkpoints_that_cost_much_wait(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "state", 1, lambda path: None)
    assert writer.due()
    writer.spent = writer.cost = 1.0
    assert not writer.due(), "two seconds of a run that has just begun"
    writer.begin -= 1000.0
    assert writer.due(), "two of a thousand"
    for every, there in ((2, True), ("2 or stop", False), ("stop", False)):
        path = tmp_path / f"end {every}"
        OnlineClassifier(epochs=1).fit(X, Y, checkpoint=path, checkpoint_every=every)
        assert path.exists() is there


def test_a_folder_that_cannot_be_written_to_is_noticed_before_training(tmp_path: Path) -> None:
    seen = StopAt(1)
    with pytest.raises(OSError, match="no such folder"):
        OnlineClassifier(callbacks=seen).fit(X, Y, checkpoint=tmp_path / "none" / "state")
    assert seen.count == 1


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    class Told:
        def on_problem(self, text: str) -> None:
            texts.append(text)

    def full(self: Checkpoint, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoint, "write", full)
    model = OnlineClassifier(epochs=5, random_state=0, callbacks=Told())
    model.fit(X, Y, checkpoint=tmp_path / "state", checkpoint_every=1)
    np.testing.assert_array_equal(model.coef_, OnlineClassifier(epochs=5, random_state=0).fit(X, Y).coef_)
    assert texts
    assert "No space left" in texts[0]
    with pytest.raises(OSError, match="No space left"):
        OnlineClassifier(epochs=5, callbacks=StopAt(2)).fit(X, Y, checkpoint=tmp_path / "state")


def broken(how: str) -> Any:
    B = sparse.random(50, 20, 0.2, format="csr", random_state=0)
    if how == "too large":
        B.indices[0] = 10**6
    elif how == "negative":
        B.indices[0] = -1
    elif how == "falls":
        B.indptr[3], B.indptr[4] = B.indptr[4], B.indptr[3] - 1
    elif how == "too long":
        B.indptr[-1] = 10**6
    elif how == "csc":
        B = B.tocsc()
        B.indices[0] = 10**6
    else:
        B = B.tocoo()
        B.coords[0][0] = 10**6
    return B


@pytest.mark.parametrize("how", ["too large", "negative", "falls", "too long", "csc", "coo"])
def test_malformed_sparse_matrices_are_refused(how: str) -> None:
    good, y = sparse.random(50, 20, 0.2, format="csr", random_state=0), np.arange(50) % 2
    for model in (OnlineClassifier(), ProximalClassifier(), MKLClassifier(KERNELS, epochs=2)):
        with pytest.raises(SpomError, match="not a valid sparse matrix"):
            model.fit(broken(how), y)
        model.fit(good, y)
        with pytest.raises(SpomError, match="not a valid sparse matrix"):
            model.predict(broken(how))
    with pytest.raises(SpomError, match="not a valid sparse matrix"):
        OnlineClassifier().partial_fit(broken(how), y, classes=[0, 1])
    with pytest.raises(SpomError, match="not a valid sparse matrix"):
        SequenceTagger().fit([broken(how)], [["a"] * 50])


def test_support_vectors_of_a_file_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "m"
    MKLClassifier([Linear()], epochs=2, random_state=0).fit(sparse.csr_matrix(X), Y).save(path)
    header, arrays = container.read_file(path)
    arrays["support.indices"][0] = 2**31 - 1
    container.write_file(path, header.estimator, header.model, arrays)
    with pytest.raises(ModelFileError, match="column 2147483647"):
        spom.load_model(path, verify=True)


@pytest.mark.parametrize("name", ["classifier", "tagger", "parser", "kernels"])
def test_weights_that_are_not_finite_are_refused(name: str, tmp_path: Path) -> None:
    model, data, _ = CASES[name]
    path = tmp_path / "m"
    model.set_params(verbose=0, callbacks=None).fit(*data).save(path)
    header, arrays = container.read_file(path)
    weights = {"classifier": "coef", "tagger": "weights.values", "parser": "arcs.values", "kernels": "coef"}[name]
    weights = weights if weights in arrays else f"{weights}.data"
    arrays[weights].reshape(-1)[0] = np.nan
    container.write_file(path, header.estimator, header.model, arrays)
    with pytest.raises(ModelFileError, match="not finite"):
        spom.load_model(path)


def test_nested_state_and_a_parser_without_stages_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    OnlineClassifier(epochs=1).fit(X, Y).save(path)
    header, arrays = container.read_file(path)
    nested: Any = 0
    for _ in range(320):
        nested = {"tuple": [nested]}
    deep = {**header.model, "state": {**header.model["state"], "classes_": nested}}
    container.write_file(path, header.estimator, deep, arrays)
    with pytest.raises(ModelFileError):
        spom.load_model(path)
    DependencyParser(epochs=1, label_epochs=1, min_count=1, verbose=0).fit(BANK).save(path)
    header, arrays = container.read_file(path)
    container.write_file(
        path, header.estimator, {**header.model, "state": {**header.model["state"], "stages": []}}, arrays
    )
    with pytest.raises(ModelFileError, match="stages of a parser"):
        spom.load_model(path)
