from __future__ import annotations

import io

import numpy as np
import pytest

from spom.core.state import State
from spom.solvers import iterate


def numbers(n: int = 1000, start: State | None = None):
    """Run a toy solver with memory: theta halves towards a seeded random walk; resumable."""
    rng = np.random.default_rng(7)
    first, theta = 1, np.array([1.0, -1.0])
    if start is not None:
        rng.bit_generator.state = start.random
        first, theta = start.k + 1, start.theta.copy()
    for k in range(first, n + 1):
        theta = theta / 2 + 1e-3 * rng.standard_normal(2)
        yield State(k=k, theta=theta.copy(), objective=2.0**-k, random=rng.bit_generator.state)


def test_take_every_and_last():
    assert [s.k for s in iterate.take(numbers(), 3)] == [1, 2, 3]
    assert [s.k for s in iterate.every(numbers(7), 3)] == [3, 6, 7]
    assert [s.k for s in iterate.every(numbers(6), 3)] == [3, 6]
    assert iterate.last(numbers(5)).k == 5
    with pytest.raises(ValueError, match="no state"):
        iterate.last(iter(()))


def test_halt_yields_the_state_that_satisfies_the_rule():
    assert [s.k for s in iterate.halt(numbers(), lambda s: s.k == 4)] == [1, 2, 3, 4]
    assert iterate.last(iterate.halt(numbers(), iterate.target(0.01))).k == 7
    assert iterate.last(iterate.halt(numbers(), iterate.rounds(9))).k == 9
    assert iterate.last(iterate.halt(numbers(), iterate.small("objective", 0.2))).k == 3
    assert iterate.last(iterate.halt(numbers(), iterate.any_of(iterate.rounds(9), iterate.target(0.3)))).k == 2


def test_stalled_waits_for_patience_and_ignores_missing_objectives():
    values = [5.0, 4.0, 4.0, 3.0, 3.0, 3.0, 3.0]
    states = [State(k=k, theta=np.zeros(1), objective=v) for k, v in enumerate(values)]
    assert iterate.last(iterate.halt(states, iterate.stalled(1e-3))).k == 2
    assert iterate.last(iterate.halt(states, iterate.stalled(1e-3, patience=2))).k == 5
    blank = [State(k=k, theta=np.zeros(1)) for k in range(5)]
    assert iterate.last(iterate.halt(blank, iterate.stalled())).k == 4


def test_diverged_sees_infinite_theta_and_objective():
    assert not iterate.diverged(State(k=1, theta=np.ones(2)))
    assert iterate.diverged(State(k=1, theta=np.array([1.0, np.nan])))
    assert iterate.diverged(State(k=1, theta=np.ones(2), objective=np.inf))


def test_tee_and_history_keep_columns():
    seen: list[int] = []
    history = iterate.History(keep_theta=True)
    states = iterate.record(iterate.tee(numbers(4), lambda s: seen.append(s.k)), history)
    iterate.last(states)
    assert seen == history.k == [1, 2, 3, 4]
    assert history.objective == [0.5, 0.25, 0.125, 0.0625]
    assert len(history) == len(history.theta) == 4
    assert set(history.as_dict()) >= {"k", "objective", "nnz", "seconds"}


def test_average_is_the_weighted_mean_of_the_iterates():
    thetas = np.array([s.theta for s in numbers(6)])
    final = iterate.last(iterate.average(numbers(6)))
    np.testing.assert_allclose(final.theta, thetas.mean(axis=0), atol=1e-15)
    weighted = iterate.last(iterate.average(numbers(6), weight=float))
    np.testing.assert_allclose(weighted.theta, np.average(thetas, axis=0, weights=range(1, 7)), atol=1e-15)
    np.testing.assert_array_equal(iterate.iterate_of(final).theta, thetas[-1])


def test_checkpoint_resumes_to_the_same_bits(tmp_path):
    path = tmp_path / "run.npz"
    assert iterate.saved(path) is None
    whole = iterate.last(iterate.average(numbers(20)))
    iterate.last(iterate.take(iterate.checkpoint(iterate.average(numbers(20)), path, every=3), 8))
    state = iterate.saved(path)
    assert state is not None
    assert state.k == 8  # the loop was left at 8: nothing of it is lost
    rest = iterate.average(numbers(20, start=iterate.iterate_of(state)), start=state)
    resumed = iterate.last(rest)
    assert resumed.k == 20
    assert resumed.theta.tobytes() == whole.theta.tobytes()


def test_checkpoint_by_time_saves_the_last_state(tmp_path):
    path = tmp_path / "run.npz"
    iterate.last(iterate.checkpoint(numbers(5), path, every="1h"))
    assert iterate.saved(path).k == 5
    for bad in ("soon", -1, 0, "xs", ""):
        with pytest.raises(ValueError, match="every must be"):
            iterate.last(iterate.checkpoint(numbers(5), path, every=bad))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_silent_without_a_terminal_and_cleans_up_on_one():
    quiet = io.StringIO()
    assert iterate.last(iterate.progress(numbers(5), stream=quiet, delay=0.0)).k == 5
    assert quiet.getvalue() == ""
    screen = Terminal()
    iterate.last(iterate.progress(numbers(5), total=5, label="fit", stream=screen, delay=0.0, refresh=0.0))
    text = screen.getvalue()
    assert "fit" in text
    assert "5/5" in text
    assert "objective" in text
    assert text.endswith("\r")
    early = Terminal()
    iterate.last(iterate.progress(numbers(5), stream=early))
    assert early.getvalue() == ""
