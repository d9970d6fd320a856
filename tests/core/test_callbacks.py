from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spom.core.callbacks import Callbacks, as_callbacks


class Everything:
    def __init__(self, stop_at: int = 99) -> None:
        self.seen: list[tuple[str, object]] = []
        self.stop_at = stop_at

    def on_epoch(self, info):
        self.seen.append(("epoch", dict(info)))
        info.clear()
        return info == {} and self.seen[-1][1]["epoch"] >= self.stop_at

    def on_checkpoint(self, path):
        self.seen.append(("checkpoint", path))

    def on_end(self, info):
        self.seen.append(("end", info))


class OnlyEnd:
    def on_end(self, info):
        self.info = info


def test_whichever_methods_exist_are_called_and_each_gets_its_own_dict() -> None:
    first, second, third = Everything(), Everything(), OnlyEnd()
    watching = Callbacks([first, second, third])
    assert watching.epoch({"epoch": 1, "loss": 0.5}) is False
    watching.checkpoint("a.state")
    watching.end("converged", seconds=2.0)
    expected = [
        ("epoch", {"epoch": 1, "loss": 0.5}),
        ("checkpoint", Path("a.state")),
        ("end", {"epoch": 1, "loss": 0.5, "seconds": 2.0, "stopped": "converged"}),
    ]
    assert first.seen == second.seen == expected
    assert third.info == expected[-1][1]


def test_one_true_stops_and_the_others_are_still_told() -> None:
    stopper, witness = Everything(stop_at=2), Everything()
    watching = Callbacks((stopper, witness))
    assert [watching.epoch({"epoch": k}) for k in (1, 2)] == [False, True]
    watching.end()
    watching.end("interrupted")
    assert [kind for kind, _ in witness.seen] == ["epoch", "epoch", "end"]
    assert witness.seen[-1][1]["stopped"] == "callback"


def test_what_is_no_callback_is_refused_by_name() -> None:
    assert as_callbacks(None) == as_callbacks([]) == []
    one = OnlyEnd()
    assert as_callbacks(one) == [one]
    with pytest.raises(TypeError, match="str has none"):
        as_callbacks(["a"])
    with pytest.raises(TypeError, match=r"write OnlyEnd\(\)"):
        as_callbacks(OnlyEnd)


def test_errors_of_a_callback_are_not_swallowed() -> None:
    class Broken:
        def on_epoch(self, info):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Callbacks(Broken()).epoch({"epoch": 1})


def test_the_log_has_a_line_an_epoch(caplog: pytest.LogCaptureFixture) -> None:
    watching = Callbacks(None, "SequenceTagger")
    with caplog.at_level(logging.INFO, logger="spom"):
        watching.epoch({"epoch": 3, "objective": float("nan"), "loss": 0.25, "dev": None, "nonzeros": 17})
        watching.checkpoint("run.state")
        watching.end()
    assert [r.name for r in caplog.records] == ["spom"] * 3
    assert [r.getMessage() for r in caplog.records] == [
        "SequenceTagger: epoch 3, loss 0.25, nonzeros 17",
        "SequenceTagger: checkpoint run.state",
        "SequenceTagger: over (end), epoch 3, loss 0.25, nonzeros 17",
    ]
