"""`spom predict --dask`: predicting on a cluster."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spom.errors import DataError, Unsupported

# Bytes of a file that one task predicts.
PIECE = 1 << 22


def predicted_on_dask(asked: Any, make: Callable[[Any], Any]) -> Callable[[str], Iterator[bytes]]:
    """Return a function that yields the parts of a file in order, with pieces predicted by the workers of a cluster."""
    from spom.scale.cutting import pieces_of
    from spom.scale.executor import executor_for
    from spom.scale.fitting import team_for
    from spom.scale.predicting import AHEAD
    from spom.scale.shards import SENTENCE, Shards

    model = asked["model"].read_bytes()

    def parts(source: str) -> Iterator[bytes]:
        if source == "-":
            raise Unsupported("--dask cuts files, and standard input is none: leave --dask out, or give a file")
        count = max(1, os.path.getsize(source) // PIECE if os.path.exists(source) else 1)
        runs = [run for run in pieces_of([source], count, SENTENCE) if run]
        if not runs:
            raise DataError("expected sentences, found none", source)
        # Shards are recipes of any kind; here each recipe is a list of file pieces, which `predict_piece` reads.
        recipes: Any = runs
        with team_for(Shards(recipes), executor_for(asked["dask"], None, 60.0), "raise") as team:
            team.teach((make, {**asked, "dask": None, "jobs": 1}, model))
            window = AHEAD * team.executor.workers
            for first in range(0, len(runs), window):
                yield from team.each("predict", predict_piece, None, only=range(first, min(first + window, len(runs))))

    return parts


def predict_piece(common: Any, state: Any, run: Any, index: int) -> bytes:
    """Return the command's output for one piece of a file; the model is sent as the bytes of its file."""
    from spom.scale.worker import CACHE, room

    make, asked, model = common.lesson
    (piece,) = run
    with tempfile.TemporaryDirectory() as folder:

        def load() -> Any:
            path = Path(folder) / "model.spom"
            path.write_bytes(model)
            return make({**asked, "model": path})

        parts = CACHE.get((common.fit, 0), load, room(common.siblings))
        source = Path(folder) / "piece"
        source.write_bytes(piece.read())
        return b"".join(parts(str(source)))
