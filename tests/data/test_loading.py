"""Fetching with checksums, and the loaders against what is known of the data."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spom.data import Dataset, catalogue, data_folder, fetch, fetching, load
from spom.data.catalogue import Source
from spom.errors import DataError, Unsupported


def needs(name):
    root = os.environ.get("SPOM_DATA", "")
    here = bool(root) and (Path(root) / name).is_dir()
    reason = f"needs the data set {name}: run spom.data.fetch({name!r}), and set SPOM_DATA to its folder"
    return pytest.mark.skipif(not here, reason=reason)


@needs("landsat")
def test_landsat():
    data = load("landsat")
    assert data.X.shape == (6435, 36)
    assert (data.train.size, data.test.size) == (4435, 2000)
    assert data.classes.tolist() == [1, 2, 3, 4, 5, 7]
    assert np.bincount(data.part("train")[1]).tolist() == [0, 1072, 479, 961, 415, 470, 0, 1038]


@needs("mnist")
def test_mnist():
    data = load("mnist")
    assert data.X.shape == (70000, 784)
    assert data.X.min() == 0.0
    assert data.X.max() == 1.0
    assert data.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert np.bincount(data.y[data.test]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@needs("polarity")
def test_polarity_is_the_problem_of_the_benchmarks():
    data = load("polarity")
    X, y = data.part("train")
    assert X.shape == (8529, 112500)
    assert X.nnz / X.shape[0] == pytest.approx(38.66, abs=0.01)
    assert set(np.unique(data.y)) == {-1, 1}
    assert (data.y == 1).sum() == (data.y == -1).sum() == 5331
    assert sorted(np.concatenate([data.train, data.test])) == list(range(10662))
    assert y.shape == (8529,)
    assert set(np.unique(X.data)) == {1.0}


@needs("polarity")
def test_fetch_finds_an_altered_file(tmp_path):
    source = Path(os.environ["SPOM_DATA"]) / "polarity"
    assert fetch("polarity") == source
    shutil.copytree(source, tmp_path / "polarity", copy_function=shutil.copyfile)
    path = tmp_path / "polarity" / "rt-polarity.pos.gz"
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content, compresslevel=1))  # packed again: the same content
    assert fetch("polarity", tmp_path) == tmp_path / "polarity"
    path.write_bytes(gzip.compress(content[:-1]))
    with pytest.raises(DataError, match="sha256"):
        fetch("polarity", tmp_path)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Create a data set of three files, published as a gzip file, in a tar and in a zip."""
    texts = {"a.txt.gz": b"alpha\n", "b.txt": b"beta\n", "c.txt": b"gamma\n"}
    tar, archive = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as file:
        info = tarfile.TarInfo("inside/b.txt")
        info.size = len(texts["b.txt"])
        file.addfile(info, io.BytesIO(texts["b.txt"]))
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("c.txt", texts["c.txt"])
    web = {"x://a": gzip.compress(texts["a.txt.gz"]), "x://b": tar.getvalue(), "x://c": archive.getvalue()}
    members = {"a.txt.gz": None, "b.txt": "inside/b.txt", "c.txt": "c.txt"}
    sources = tuple(
        Source(f"toy/{n}", ("x://down", f"x://{n[0]}"), hashlib.sha256(texts[n]).hexdigest(), members[n]) for n in texts
    )
    asked = []

    def get(address):
        asked.append(address)
        if address not in web:
            raise OSError("no route")
        return web[address]

    monkeypatch.setitem(catalogue.CATALOGUE, "toy", sources)
    monkeypatch.setattr(fetching, "_get", get)
    monkeypatch.setenv("SPOM_DATA", str(tmp_path))
    return tmp_path, web, asked


def test_fetch_downloads_checks_and_moves_into_place(toy):
    root, _, asked = toy
    assert fetch("toy") == root / "toy"
    assert sorted(p.name for p in (root / "toy").iterdir()) == ["a.txt.gz", "b.txt", "c.txt"]
    assert gzip.decompress((root / "toy" / "a.txt.gz").read_bytes()) == b"alpha\n"
    count = len(asked)
    fetch("toy")
    assert len(asked) == count  # nothing is downloaded twice


def test_fetch_without_a_network_or_with_other_content_says_what_to_do(toy):
    root, web, _ = toy
    web["x://a"] = gzip.compress(b"altered\n")
    with pytest.raises(DataError, match="sha256") as raised:
        fetch("toy")
    assert "SPOM_DATA" in str(raised.value)
    del web["x://a"]
    with pytest.raises(DataError, match="no route"):
        fetch("toy")
    assert not (root / "toy" / "a.txt.gz").exists()


def test_names():
    with pytest.raises(Unsupported, match="the names are"):
        fetch("nothing")
    with pytest.raises(Unsupported, match=r"landsat, mnist, .*polarity"):
        load("nothing")


def test_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SPOM_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("SPOM_DATA")
    assert data_folder().name == "spom"


def test_damaged_files(monkeypatch, tmp_path):
    monkeypatch.setenv("SPOM_DATA", str(tmp_path))
    (tmp_path / "landsat").mkdir()
    (tmp_path / "landsat" / "sat.trn").write_text("1 2 3\n")
    (tmp_path / "landsat" / "sat.tst").write_text(" ".join(["1"] * 37) + "\n")
    with pytest.raises(DataError, match=r"sat.trn, line 1: expected 37 integers, found 3"):
        load("landsat")
    (tmp_path / "mnist").mkdir()
    for source in catalogue.CATALOGUE["mnist"]:
        (tmp_path / source.path).write_bytes(gzip.compress(b"\x00\x00\x08\x01" + b"\x00" * 3))
    with pytest.raises(DataError, match="idx file"):
        load("mnist")
    for source in catalogue.CATALOGUE["mnist"]:
        (tmp_path / source.path).write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(DataError, match="damaged"):
        load("mnist")


def test_parts():
    data = Dataset("toy", X=np.eye(2), y=np.arange(2), train=np.array([1]))
    assert data.part("train")[1].tolist() == [1]
    assert "toy" in repr(data)
    with pytest.raises(ValueError, match="no part 'test'"):
        data.part("test")
