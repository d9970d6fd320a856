"""Containers (model files, checkpoints, states) that are changed behind their hashes, and then used."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spom.core import container
from tests.fuzz.mutations import array_change, changed_array, changed_json, json_change, mutated

Change = dict[str, Any]


class File:
    """A container whose hashes are computed again after each change; `use` is what is done with it.

    Fields of the header that `avoid` names are hardly ever changed: a fingerprint is compared as a whole.
    """

    def __init__(self, path: Path, use: Callable[[Path], Any], avoid: tuple[str, ...] = ()) -> None:
        self.header, arrays = container.read_file(path, verify=True)
        self.arrays, self.use, self.avoid = {name: np.array(a) for name, a in arrays.items()}, use, avoid
        self.raw = path.read_bytes()

    def draw(self, draw: random.Random) -> list[Change]:
        """Draw one to three changes."""
        if draw.random() < 0.05:
            return [{"bytes": mutated(self.raw, draw).decode("latin-1")}]
        made: list[Change] = []
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            if self.arrays and draw.random() < 0.65:
                made.append(array_change(draw.choice(sorted(self.arrays)), self.arrays, draw))
            elif draw.random() < 0.03:
                made.append({"estimator": draw.choice(("SequenceTagger", "MKLClassifier", "Checkpoint", "", "os"))})
            else:
                made.append(json_change(self.header.model, draw, self.avoid))
        return made

    def run(self, changes: list[Change], folder: Path) -> None:
        """Write the file with these changes, and use it."""
        path = folder / "file"
        if "bytes" in changes[0]:
            path.write_bytes(changes[0]["bytes"].encode("latin-1"))
        else:
            self._write(path, changes)
        self.use(path)

    def _write(self, path: Path, changes: list[Change]) -> None:
        arrays, model, kind = dict(self.arrays), self.header.model, self.header.estimator
        for change in changes:
            try:
                if "estimator" in change:
                    kind = change["estimator"]
                elif "json" in change:
                    model = changed_json(model, change)
                elif change["do"] == "drop":
                    arrays.pop(change["array"], None)
                elif change["array"] in arrays:
                    arrays[change["array"]] = changed_array(change, arrays)
            except (KeyError, IndexError, TypeError, ValueError, OverflowError):
                # An earlier change has taken the place away, or left a dtype that cannot hold the number.
                continue
        container.write_file(path, kind, model, arrays)
