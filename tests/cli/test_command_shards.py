"""`--shards`, `--jobs` and `--dask`: the same model file, and the same predictions, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from spom.data.conllu import conllu_text
from tests.cli.common import Command
from tests.scale.cluster import local_cluster
from tests.scale.test_parser import trees
from tests.scale.test_tagger import sentences


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    for name, columns in (("train", sentences(120)), ("dev", sentences(40, 1))):
        text = "\n".join("".join(" ".join(token) + "\n" for token in s) for s in columns)
        (folder / f"{name}.txt").write_text(text)
    (folder / "train.conllu").write_bytes(conllu_text(trees(80, 0)))
    (folder / "train.csv").write_text("a,b,kind\n" + "".join(f"{k % 7},{k % 5},{k % 7 > k % 5}\n" for k in range(90)))
    return folder


@pytest.mark.parametrize("task", ["tagger", "parser", "classifier"])
def test_the_model_does_not_depend_on_jobs(spom: Command, files: Path, tmp_path: Path, task: str) -> None:
    file = {"tagger": "train.txt", "parser": "train.conllu", "classifier": "train.csv"}[task]
    words = ["train", task, "--train", files / file, "--epochs", "2", "--quiet", "--shards", "3"]
    for jobs in ("1", "2"):
        spom.well(*words, "--model", tmp_path / jobs, "--jobs", jobs)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_what_workers_took_is_told(spom: Command, files: Path, tmp_path: Path) -> None:
    words = ["train", "tagger", "--train", files / "train.txt", "--epochs", "1", "--model", tmp_path / "m"]
    told = spom.well(*words, "--shards", "3").err
    assert "3 shards: " in told
    assert "s of computing on workers" in told


def test_dask_trains_and_predicts_the_same_bytes(
    spom: Command, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spom.cli import sharded

    monkeypatch.setattr(sharded, "PIECE", 300)
    words = ["train", "tagger", "--train", files / "train.txt", "--epochs", "2", "--quiet", "--shards", "3"]
    with local_cluster(2) as (cluster, _):
        spom.well(*words, "--model", tmp_path / "here")
        spom.well(*words, "--model", tmp_path / "there", "--dask", cluster.scheduler_address)
        assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
        spom.well("predict", "--model", tmp_path / "here", files / "dev.txt", "-o", tmp_path / "a.txt")
        more = ["--dask", cluster.scheduler_address]
        spom.well("predict", "--model", tmp_path / "here", files / "dev.txt", "-o", tmp_path / "b.txt", *more)
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()
