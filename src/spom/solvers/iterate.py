"""Combinators over any iterator of states: stopping, history, progress, time, averages, checkpoints.

Solvers do not depend on these. Each combinator takes an iterable of states and
yields states, so they nest in any order:

>>> import numpy as np
>>> def solver():
...     for k in range(1, 100):
...         yield State(k=k, theta=np.array([2.0 ** -k]), objective=2.0 ** -k)
>>> history = History()
>>> final = last(record(halt(solver(), stalled(tol=1e-3)), history))
>>> final.k, history.k[:3]
(10, [1, 2, 3])
"""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from spom.core.arrays import Floats
from spom.core.state import State

States = Iterable[State]
Rule = Callable[[State], bool]

# --- how many --------------------------------------------------------------------------------------


def take(states: States, n: int) -> Iterator[State]:
    """Yield the first `n` states."""
    return islice(iter(states), n)


def every(states: States, n: int) -> Iterator[State]:
    """Yield every `n`-th state, and the last one."""
    if n < 1:
        raise ValueError(f"n must be >= 1; it is {n!r}")
    kept: State | None = None
    for count, state in enumerate(states, 1):
        kept = state
        if count % n == 0:
            kept = None
            yield state
    if kept is not None:
        yield kept


def last(states: States) -> State:
    """Return the last state; raise an error if there is none."""
    found: State | None = None
    for found in states:  # noqa: B007  # running to the end is the point
        pass
    if found is None:
        raise ValueError("the solver yielded no state: it had nothing to do")
    return found


# --- when to stop ----------------------------------------------------------------------------------


def halt(states: States, rule: Rule) -> Iterator[State]:
    """Yield the states up to and including the first that satisfies the rule."""
    for state in states:
        yield state
        if rule(state):
            return


def rounds(n: int) -> Rule:
    """Stop when `n` rounds are done, including those before a resume."""
    return lambda state: state.k >= n


def seconds(limit: float) -> Rule:
    """Stop when `limit` seconds have passed since the rule was made."""
    end = time.perf_counter() + limit
    return lambda state: time.perf_counter() >= end


def target(objective: float) -> Rule:
    """Stop when the objective is at most this."""
    return lambda state: state.objective <= objective


def small(name: str, tol: float) -> Rule:
    """Stop when a scalar of the state (a gap or a residual that a solver keeps in `internal`) is <= tol.

    >>> rule = small("gap", 1e-3)
    >>> rule(State(k=1, theta=np.zeros(1), internal={"gap": np.array(1e-4)}))
    True
    """

    def rule(state: State) -> bool:
        value = state.internal[name] if name in state.internal else getattr(state, name)
        return bool(np.max(value) <= tol)

    return rule


def stalled(tol: float = 1e-4, patience: int = 1) -> Rule:
    """Stop when the objective fell by less than tol * max(1, abs(best)) in each of `patience` states."""
    best, bad = math.inf, 0

    def rule(state: State) -> bool:
        nonlocal best, bad
        if math.isnan(state.objective):
            return False
        gained = best - state.objective
        bad = bad + 1 if gained < tol * max(1.0, abs(state.objective)) else 0
        best = min(best, state.objective)
        return bad >= patience

    return rule


def diverged(state: State) -> bool:
    """Return whether the objective, the loss or an entry of theta is infinite or NaN after it was computed."""
    bad_value = math.isinf(state.objective) or math.isinf(state.loss)
    return bad_value or not bool(np.isfinite(state.theta).all())


def any_of(*rules: Rule) -> Rule:
    """Stop when one of the rules is met; each rule sees every state."""
    return lambda state: sum(bool(rule(state)) for rule in rules) > 0


# --- watching ------------------------------------------------------------------------------------


def tee(states: States, function: Callable[[State], Any]) -> Iterator[State]:
    """Yield the same states; call `function` with each of them first."""
    for state in states:
        function(state)
        yield state


@dataclass
class History:
    """The history of a run as columns, with one entry per state; NaN if a solver did not compute a number.

    `theta` is filled only with `History(keep_theta=True)`.
    """

    keep_theta: bool = False
    k: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    nnz: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    examples: list[int] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    proxes: list[int] = field(default_factory=list)
    block_norms: list[Floats | None] = field(default_factory=list)
    theta: list[Floats] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.k)

    def add(self, state: State) -> None:
        """Append one state."""
        for name in ("k", "objective", "loss", "step", "nnz", "seconds", "block_norms"):
            getattr(self, name).append(getattr(state, name))
        for name in ("examples", "gradients", "proxes"):
            getattr(self, name).append(getattr(state.counters, name))
        if self.keep_theta:
            self.theta.append(state.theta)

    def as_dict(self) -> dict[str, list[Any]]:
        """Return the scalar columns by name, for a data frame or a JSON file."""
        names = ("k", "objective", "loss", "step", "nnz", "seconds", "examples", "gradients", "proxes")
        return {name: list(getattr(self, name)) for name in names}


def record(states: States, history: History) -> Iterator[State]:
    """Yield the same states; add each to the history."""
    return tee(states, history.add)


def progress(
    states: States,
    total: int | None = None,
    label: str = "",
    stream: TextIO | None = None,
    delay: float = 2.0,
    refresh: float = 0.2,
) -> Iterator[State]:
    """Yield the same states; keep a progress line up to date on standard error, or below the cell of a notebook.

    Nothing is shown without a terminal or notebook, nor before `delay` seconds have passed. `total`
    is the number of states to come, if known.
    """
    notebook, out = stream is None and in_notebook(), sys.stderr if stream is None else stream
    if not notebook and not out.isatty():
        yield from states
        return
    begin, shown, line = time.perf_counter(), -math.inf, Line() if notebook else TerminalLine(out)
    try:
        for count, state in enumerate(states, 1):
            now = time.perf_counter()
            if now - begin >= delay and now - shown >= refresh:
                text = _line(state, count, total, label, now - begin, bar=not notebook)
                line.show(text, min(1.0, count / total) if total else None)
                shown = now
            yield state
    finally:
        line.close()


def _line(state: State, count: int, total: int | None, label: str, elapsed: float, bar: bool) -> str:
    parts = [label] if label else []
    if total:
        done = min(1.0, count / total)
        cells = int(20 * done)
        parts.append(f"[{'#' * cells}{'.' * (20 - cells)}] {count}/{total}" if bar else f"{count}/{total}")
        parts.append(f"{elapsed:.0f} s, {elapsed * (1 - done) / done:.0f} s to go")
    else:
        parts.append(f"round {count}, {elapsed:.0f} s")
    for name in ("objective", "loss"):
        value = getattr(state, name)
        if not math.isnan(value):
            parts.append(f"{name} {value:.6g}")
            break
    if state.theta.size:
        parts.append(f"{state.nnz} of {state.theta.size} non-zero")
    return "  ".join(parts)


# --- averages --------------------------------------------------------------------------------------


def average(
    states: States, weight: Callable[[int], float] | None = None, start: State | None = None
) -> Iterator[State]:
    """Yield states with theta = (sum of weight(k) theta_k) / (sum of weight(k)), with all weights 1 by default.

    The iterate itself is kept, see `iterate_of`. `start` is the averaged state to resume from.
    """
    mean: Floats | None = None
    mass = 0.0
    if start is not None and "average.mass" in start.internal:
        mean, mass = start.theta.copy(), float(start.internal["average.mass"])
    for state in states:
        w = 1.0 if weight is None else float(weight(state.k))
        if w < 0:
            raise ValueError(f"the weight of round {state.k} must be >= 0; it is {w}")
        mass += w
        if mean is None:
            mean = state.theta.copy()
        elif mass > 0:
            mean = mean + (w / mass) * (state.theta - mean)
        extra = {"average.iterate": state.theta, "average.mass": np.array(mass)}
        yield replace(state, theta=mean.copy(), internal={**state.internal, **extra})


def iterate_of(state: State) -> State:
    """Return the solver's own state behind an average, from which a solver can start."""
    if "average.iterate" not in state.internal:
        return state
    internal = {name: a for name, a in state.internal.items() if not name.startswith("average.")}
    return replace(state, theta=state.internal["average.iterate"], internal=internal)


# --- checkpoints -----------------------------------------------------------------------------------


def checkpoint(states: States, path: str | Path, every: int | float | str = "60s") -> Iterator[State]:
    """Yield the same states; save some of them, and always the last one.

    `every` is a number of states, or a time such as `"60s"`, `"5m"`, `"2h"`. The file is written under a
    temporary name and moved, so a crash leaves the previous file. To resume: `solver(..., start=saved(path))`.
    The last state is also saved when the loop is left early.
    """
    wait, by_time = period(every)
    mark = time.perf_counter() if by_time else 0.0
    unsaved: State | None = None
    try:
        for count, state in enumerate(states, 1):
            unsaved = state
            now = time.perf_counter() if by_time else float(count)
            if now - mark >= wait:
                state.save(path)
                unsaved, mark = None, now
            yield state
    finally:
        if unsaved is not None:
            unsaved.save(path)


def period(every: int | float | str) -> tuple[float, bool]:
    """Return (amount, whether it is in seconds) of a number of states, or of a time such as `"60s"`, `"5m"`, `"2h"`."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    try:
        if isinstance(every, str) and every[-1:] in units:
            value, by_time = float(every[:-1]) * units[every[-1]], True
        else:
            value, by_time = float(every), False
    except ValueError:
        value, by_time = -1.0, False
    if not 0 <= value < math.inf or (not by_time and value < 1):
        raise ValueError(f"every must be a number of states or a time such as '60s'; it is {every!r}")
    return value, by_time


def saved(path: str | Path) -> State | None:
    """Return the state at `path`, or None if there is no file yet: `solver(..., start=saved(path))` resumes."""
    return State.load(path) if Path(path).exists() else None


def in_notebook() -> bool:
    """Return whether code runs in a notebook: IPython is loaded, with a kernel that shows HTML."""
    module = sys.modules.get("IPython")
    if module is None:
        return False
    shell = module.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class TerminalLine:
    """A line of text on a terminal; `show` replaces it, `close` removes it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.width = stream, 0

    def show(self, text: str, done: float | None = None) -> None:
        """Show this text, which has its own bar."""
        self._write("\r" + text.ljust(self.width))
        self.width = max(self.width, len(text))

    def close(self) -> None:
        """Remove the line."""
        if self.width:
            self._write("\r" + " " * self.width + "\r")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class Line:
    """A line of text with a bar below the cell of a notebook; `show` replaces it, `close` removes it."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, done: float | None = None) -> None:
        """Show this text; `done` is the filled share of the bar, None if it is unknown."""
        from IPython.display import HTML, display  # type: ignore[import-not-found]  # there in a notebook

        share = "" if done is None else f" max='1' value='{done:.3f}'"
        content = HTML(f"<progress{share} style='width:12em'></progress> <code>{html.escape(text)}</code>")
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)

    def close(self) -> None:
        """Remove the line."""
        from IPython.display import HTML

        if self._handle is not None:
            self._handle.update(HTML(""))
            self._handle = None
