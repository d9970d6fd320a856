"""The page of the guide: its example runs as it stands, and its model of many machines is what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from benchmarks import scale_model

from spom import load_model

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def test_the_example_runs_as_it_stands_on_a_local_cluster(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    text = (GUIDE / "scale.rst").read_text()
    begin = text.index("    from distributed import Client, LocalCluster")
    code = textwrap.dedent(text[begin : text.index('tagger.save("tagger.spom")')] + 'tagger.save("tagger.spom")\n')
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = load_model(tmp_path / "tagger.spom").predict([[("the", "DT"), ("cat", "NN"), ("sleeps", "VBZ")]])
    assert found == [["B-NP", "I-NP", "B-VP"]]


def test_the_model_of_many_machines_is_written_from_what_was_measured() -> None:
    if not scale_model.FILE.exists():
        pytest.skip("nothing was measured: python -m benchmarks scale:model")
    found = json.loads(scale_model.FILE.read_text())
    assert scale_model.page(found) in scale_model.PAGE.read_text()


def test_more_machines_stop_helping_where_sending_takes_over() -> None:
    speed = {"down": 1e9, "up": 1e9}
    cost = {"compute": 1.0, "state": 0.0, "result": 0.0, "unpack": 0.0, "merging": 0.0, "task": 0.0, **speed}
    assert scale_model.predicted(cost, 64, 64) == 1.0
    assert scale_model.best(cost, 64) == 64
    assert scale_model.best({**cost, "state": 1e10}, 64) < 8
    # Results that take as long as an eighth of the compute keep the driver busy from eight machines on.
    assert scale_model.best({**cost, "merging": 0.125}, 64) == 8
    assert scale_model.predicted({**cost, "result": 5e8}, 64, 64) == 33.0
    assert scale_model.predicted({**cost, "result": 5e8}, 1, 64) == 64.5
