"""What fuzzing found, tried again, and a short run of it: the full one is `make fuzz`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import spom.estimators
from tests.fuzz.fuzz import KEPT, TURN, Target, targets, tried
from tests.fuzz.models import cases

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="forks, and asks Linux for memory")
CASES = [json.loads(line) for line in KEPT.read_text().splitlines()]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    hook = sys.unraisablehook
    yield targets(tmp_path_factory.mktemp("fuzz"))
    sys.unraisablehook = hook


def test_every_estimator_is_fuzzed() -> None:
    fuzzed = {type(estimator).__name__ for estimator, _, _ in cases().values()}
    assert fuzzed == set(spom.estimators.__all__)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=[f"{n} {case['target']}" for n, case in enumerate(CASES)])
def test_what_was_found_once(case: dict[str, object], known: dict[str, Target]) -> None:
    assert tried(known[str(case["target"])], case["input"]) == ""


def test_mutated_inputs_give_a_result_or_an_error_of_ours() -> None:
    """Run in a process of its own, because it forks, and a fork of a test runner has threads."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz", "1", "--first", str(10**7), "--scale", "0.1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]
    counts = json.loads(run.stderr.splitlines()[-1].partition(": ")[2].replace("'", '"'))
    assert set(counts) == set(TURN)
    assert all(count > 0 for count in counts.values())
