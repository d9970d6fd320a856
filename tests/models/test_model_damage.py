"""Model files that are truncated, altered, or written by a clever hand: refused, and never run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import spom
from spom.core import container as files
from spom.errors import ModelFileError, Unsupported
from spom.models import read_header, save_model

FIXTURES = Path(__file__).parent / "fixtures"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 8))
Y = np.where(X[:, 0] - X[:, 3] > 0.3, "größer", np.where(X[:, 1] > 0, "mid", "low"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.spom"
    spom.OnlineClassifier(random_state=0).fit(X, Y).save(path)
    return path


def test_every_truncation_is_refused(model: Path, tmp_path: Path) -> None:
    raw = model.read_bytes()
    cut = tmp_path / "cut"
    for size in [*range(0, 40), *range(40, len(raw), 97), len(raw) - 1]:
        cut.write_bytes(raw[:size])
        with pytest.raises(ModelFileError, match="cut"):
            spom.load_model(cut)
    cut.write_bytes(raw + b"\0")
    with pytest.raises(ModelFileError, match="after its end"):
        spom.load_model(cut)


def test_every_altered_byte_is_found(model: Path, tmp_path: Path) -> None:
    raw = model.read_bytes()
    other = tmp_path / "altered"
    for at in [*range(0, len(raw), 13), len(raw) - 1]:
        changed = bytearray(raw)
        changed[at] ^= 1
        other.write_bytes(changed)
        with pytest.raises(ModelFileError):
            spom.load_model(other, verify=True)


def test_arrays_over_the_budget_are_checked_on_request(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = bytearray(model.read_bytes())
    raw[read_header(model).data + 3] ^= 4  # coef, the largest
    altered = tmp_path / "altered"
    altered.write_bytes(raw)
    with pytest.raises(ModelFileError, match="'coef' was altered"):
        spom.load_model(altered)
    monkeypatch.setattr(files, "BUDGET", 100)
    spom.load_model(altered)
    with pytest.raises(ModelFileError, match="'coef' was altered"):
        spom.load_model(altered, verify=True)


def rewritten(path: Path, change: Any) -> None:
    """Rewrite the file with another header and a matching hash, as a careful attacker could."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    change(header)
    metadata = header.pop("__metadata__")
    metadata["header"] = files._header_hash(metadata, header)
    text = json.dumps({"__metadata__": metadata, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


def test_a_newer_format_is_refused_by_name(model: Path) -> None:
    rewritten(model, lambda h: h["__metadata__"].update(format="2", spom="9.0"))
    with pytest.raises(ModelFileError, match=r"spom 9\.0 in format 2; this spom reads up to format 1"):
        spom.load_model(model)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h: h["__metadata__"].update(estimator="os.system"), "no estimator"),
        (lambda h: h["__metadata__"].update(estimator="__init__"), "no estimator"),
        (lambda h: h["__metadata__"].update(format="0"), "no format 0"),
        (lambda h: h["__metadata__"].pop("model"), "no model of spom"),
        (lambda h: h["__metadata__"].update(model="[1]"), "altered"),
        (lambda h: h["coef"].update(shape=[3, 9]), "size is not that of its shape"),
        (lambda h: h["coef"].update(shape=[-3, -8]), "shape"),
        (lambda h: h["coef"].update(shape=[8, 3]), "shape"),
        (lambda h: h["coef"].update(dtype="O"), "damaged"),
        (lambda h: h["coef"].update(dtype="I64"), "does not fit"),
        (lambda h: h["coef"].update(data_offsets=[8, 200]), "hole"),
        (lambda h: h.pop("coef"), "altered"),
    ],
)
def test_what_a_clever_hand_writes_is_refused(model: Path, change: Any, says: str) -> None:
    rewritten(model, change)
    with pytest.raises(ModelFileError, match=says):
        spom.load_model(model)


def with_model(change: Any) -> Any:
    def apply(header: dict[str, Any]) -> None:
        inner = json.loads(header["__metadata__"]["model"])
        change(inner)
        header["__metadata__"]["model"] = json.dumps(inner)

    return apply


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["params"].update(loss={"kind": "estimator", "name": "x", "params": {}}),
        lambda m: m["params"].update(loss={"kind": "loss", "name": "__import__", "params": {}}),
        lambda m: m["params"].update(step={"kind": "step", "name": "np", "params": {}}),
        lambda m: m["params"].update(penalty={"kind": "penalty", "name": "l1", "params": {"strength": -1}}),
        lambda m: m["params"].update(nothing=1),
        lambda m: m["params"].update(loss={"array": "nowhere"}),
        lambda m: m["state"].update(n_features_in_=7),
        lambda m: m["state"].pop("classes_") and m["state"].update(classes_={"text": ["value.0", "value.0"]}),
        lambda m: m["state"].pop("coef"),
        lambda m: m.pop("state"),
    ],
)
def test_what_the_header_says_is_not_believed(model: Path, change: Any) -> None:
    rewritten(model, with_model(change))
    with pytest.raises(ModelFileError, match=str(model)):
        spom.load_model(model)


def test_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    from spom.models import check_indices, check_offsets

    for offsets in ([1, 2], [0, 3, 2], [0, 1], [[0, 2]], [0.0, 2.0], []):
        with pytest.raises(ModelFileError, match="do not rise"):
            check_offsets(np.array(offsets), 2, "x")
    for indices in ([0, 5], [-1], [0.5]):
        with pytest.raises(ModelFileError, match="not all from"):
            check_indices(np.array(indices), 5, "x")
    check_indices(np.array([], dtype=np.int32), 0, "x")


def test_what_is_no_model_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        spom.load_model(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="folder"):
        spom.load_model(tmp_path)
    safetensors.numpy.save_file({"a": np.zeros(3)}, tmp_path / "plain")
    with pytest.raises(ModelFileError, match="no model of spom"):
        spom.load_model(tmp_path / "plain")
    (tmp_path / "text").write_text("word POS chunk\n" * 100)
    with pytest.raises(ModelFileError, match="no model file"):
        spom.load_model(tmp_path / "text")


def test_what_cannot_be_kept_is_said_before_anything_is_written(tmp_path: Path) -> None:
    fitted = spom.OnlineClassifier(step=lambda t: 0.1, random_state=0).fit(X, Y)
    with pytest.raises(Unsupported, match="cannot hold step"):
        fitted.save(tmp_path / "m")
    with pytest.raises(Unsupported, match="object cannot be saved"):
        save_model(object(), tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        spom.OnlineClassifier().save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# --- hands that know the hashes ---------------------------------------------------------------------------

HAND = """
import json, sys
from pathlib import Path
import numpy as np
import spom
from spom.data import Treebank
from spom.errors import ModelFileError, SpomError
from spom.core import container as files

def altered(array, rng):
    limits = np.iinfo(array.dtype)
    for value in (limits.max, limits.min, min(limits.max, array.size + 7), 1):
        changed = array.copy()
        changed.reshape(-1)[rng.integers(array.size)] = value
        yield changed


folder, rng = Path(sys.argv[1]), np.random.default_rng(0)
for source in map(Path, sys.argv[2:]):
    told = json.loads(source.with_suffix(".json").read_text())
    if "trees" in told:
        given = Treebank.from_sentences(told["trees"]).without_trees()
    else:
        given = np.array(told["X"]) if "X" in told else told["sentences"]
    header, arrays = files.read_file(source)
    refused = used = 0
    for name, array in arrays.items():
        if array.dtype.kind not in "iu" or not array.size:
            continue
        for changed in altered(array, rng):
            files.write_file(folder / "m", header.estimator, header.model, {**arrays, name: changed})
            print(source.name, name, flush=True, file=sys.stderr)
            try:
                spom.load_model(folder / "m").predict(given)
                used += 1
            except ModelFileError:
                refused += 1
            except (SpomError, ValueError):
                used += 1
    print(source.name, refused, used)
"""


def test_no_integer_in_a_file_can_crash_a_prediction(tmp_path: Path) -> None:
    """Change numbers in indices, offsets and tables, with matching hashes: they must be rejected or harmless."""
    paths = sorted(map(str, FIXTURES.glob("*.spom")))
    done = subprocess.run([sys.executable, "-c", HAND, tmp_path, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert len(counts) == len(paths)
    assert sum(counts.values()) > 50
