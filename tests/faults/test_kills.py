"""A few of the trials of `tests.faults.kills`: the full number is `make faults`."""

from __future__ import annotations

import sys

import pytest

from tests.faults.kills import TASKS, campaign


@pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")
@pytest.mark.parametrize("dev", [False, True], ids=["alone", "dev"])
@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_was_killed_resumes_to_the_same_bytes(task: str, dev: bool) -> None:
    assert campaign(task, dev, trials=1, seed=TASKS.index(task) + 3 * dev, size=120)["trials"] == 1
