"""`predict`: predictions of a fitted model for shards, in shard order, into memory or a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.atomic import replacing
from spom.scale.executor import executor_for
from spom.scale.fitting import team_for
from spom.scale.shards import Shards
from spom.scale.team import Team
from spom.scale.worker import load

# The number of shards in progress per worker: results that wait for an earlier one take up memory.
AHEAD = 4


@dataclass(frozen=True)
class Predicting:
    """What workers need: the model, and whether they return predictions as text."""

    model: Any
    text: bool


def predict(
    model: Any,
    shards: Shards,
    *,
    client: Any = None,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    timeout: float = 300.0,
) -> Any:
    """Predict for shards with any number of workers; predictions are in the order of the shards.

    Without `out`, predictions are returned as `model.predict` gives them. With `out`, they are written to that file as
    they arrive, so data and predictions may be larger than memory: one prediction per line for rows; one token per line
    with its label as the last column for sentences; CoNLL-U for trees. The file is never left half-written. `client`,
    `n_jobs` and `timeout` are those of `fit`.

    >>> import numpy as np
    >>> from spom import OnlineClassifier
    >>> X, y = np.array([[1.0], [-1.0]] * 20), np.array(["up", "down"] * 20)
    >>> model = OnlineClassifier(random_state=0, verbose=0).fit(X, y)
    >>> predict(model, Shards.arrays(X[:4], None, 3)).tolist()
    ['up', 'down', 'up', 'down']
    """
    with team_for(shards, executor_for(client, n_jobs, timeout), "raise") as team:
        team.teach(Predicting(model, out is not None))
        if out is None:
            return _joined(list(predictions(team)))
        with replacing(out) as file:
            for part in predictions(team):
                file.write(part)
    return Path(out)


def predictions(team: Team) -> Iterator[Any]:
    """Yield the predictions of each shard that is not empty; only a few shards are computed ahead."""
    window = AHEAD * team.executor.workers
    for first in range(0, len(team.shards), window):
        chosen = range(first, min(first + window, len(team.shards)))
        yield from (part for part in team.each("predict", predicted, None, only=chosen) if part is not None)


def predicted(common: Any, state: Any, shard: Any, index: int) -> Any:
    """Return the predictions of one shard, or their text; None if it is empty."""
    X, lesson = load(common, shard, index)[0], common.lesson
    if X is None:
        return None
    found = lesson.model.predict(X)
    return _text(X, found) if lesson.text else found


def _text(X: Any, found: Any) -> bytes:
    from spom.data.treebank import Treebank

    if isinstance(found, Treebank):
        from spom.data.conllu import conllu_text

        return conllu_text(found)
    if isinstance(found, np.ndarray):
        return "".join(f"{value}\n" for value in found.tolist()).encode()
    lines = []
    for sentence, labels in zip(X, found, strict=True):
        for token, label in zip(sentence, labels, strict=True):
            fields = (token,) if isinstance(token, str) else token
            lines.append(" ".join([*map(str, fields), str(label)]))
        lines.append("")
    return "".join(line + "\n" for line in lines).encode()


def _joined(parts: list[Any]) -> Any:
    """Join the predictions of all shards into one value."""
    if not parts:
        return []
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if isinstance(parts[0], list):
        return [labels for part in parts for labels in part]
    from spom.data.conllu import join_treebanks

    return join_treebanks(parts)
