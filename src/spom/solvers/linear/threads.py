"""Any engine in several threads: each runs its own part of the rows, and the results are averaged.

Parameter mixing (Zinkevich, Weimer, Li and Smola 2010), several times per pass. The loops release the GIL. The parts
depend on the number of threads alone, so the same seed and number give the same bits.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from spom.core.arrays import Arrays, Floats, Ints
from spom.solvers.linear.data import Rows

# How often the threads are averaged in one pass.
AVERAGES = 4


class Threaded:
    """The engine, and copies of it for the other threads."""

    def __init__(self, engine: Any, jobs: int) -> None:
        self.engine, self.jobs = engine, jobs
        self.name = f"{engine.name}, {jobs} threads"
        # Between passes there is one engine: the copies are gone.
        self.theta, self.pack, self.unpack = engine.theta, engine.pack, engine.unpack
        self.average = getattr(engine, "average", None)

    def run(self, rows: Rows, order: Ints, steps: Floats) -> float:
        """Run rounds over the rows in `order`, divided among the threads; return the sum of the losses."""
        batch = self.engine.batch
        total = 0.0
        for rounds in np.array_split(np.arange(steps.size), AVERAGES):
            shares = [share for share in np.array_split(rounds, self.jobs) if share.size]
            if not shares:
                continue
            engines = [copy.deepcopy(self.engine) for _ in shares]

            def work(engine: Any, share: Ints) -> float:
                part = order[share[0] * batch : (share[-1] + 1) * batch]
                # Steps of one size for all parts between two synchronisations: the threads run rounds at the same time.
                sizes = np.ascontiguousarray(steps[share])
                return float(engine.run(rows, np.ascontiguousarray(part), sizes))

            with ThreadPoolExecutor(self.jobs) as pool:
                total += sum(pool.map(work, engines, shares))
            self._average(engines, [share.size for share in shares])
        return total

    def _average(self, engines: list[Any], sizes: list[int]) -> None:
        """Give the engine the weighted mean of theta and of the other numbers of the copies."""
        weights = np.array(sizes, dtype=np.float64) / sum(sizes)
        before = self.engine.rounds
        states = [engine.pack() for engine in engines]
        mixed: Arrays = {}
        for name in states[0]:
            mixed[name] = sum(w * state[name] for w, state in zip(weights, states, strict=True))
        theta = sum(w * engine.theta() for w, engine in zip(weights, engines, strict=True))
        if "rounds" in mixed:
            mixed["rounds"] = np.array(before + max(sizes))
        if "clock" in mixed:
            mixed["clock"] = np.array([float(before + max(sizes)), float(states[0]["clock"][1])])
        self.engine.unpack(np.asarray(theta), mixed)
