"""Learning pipelines from treebanks."""

from __future__ import annotations

from typing import Any

from spom.cli import options
from spom.cli.building import pruning_of
from spom.cli.record import Recorder
from spom.cli.scores import pipeline_scores
from spom.cli.sharded import check_shards
from spom.cli.train_parser import examples
from spom.errors import DataError, Unsupported


def train(**o: Any) -> None:
    """Read, learn, score, write."""
    from spom import Pipeline
    from spom.data.conllu import read_conllu

    if o["format"] not in (None, "conllu"):
        raise Unsupported(f"pipelines are learnt from CoNLL-U, not {o['format']!r}")
    if o["resume"] or o["checkpoint"] is not None:
        raise Unsupported("a pipeline keeps no checkpoints: leave --checkpoint and --resume out")
    check_shards(o, supported=False)
    settings = None if o["prune"] is None else {"prune": pruning_of(o["prune"])}
    pipeline = Pipeline(
        settings, size=o["size"], random_state=o["seed"], n_jobs=o["jobs"], verbose=0 if o["quiet"] else 1
    )
    pipeline.set_params(**options.parsed(o["settings"]))
    recorder, banks = Recorder("pipeline", o), {}
    for part in ("train", "dev"):
        if o[part] is None:
            continue
        banks[part] = read_conllu(o[part])
        if len(banks[part]) == 0:
            raise DataError("expected sentences, found none", o[part])
        recorder.data(part, o[part], "conllu", sentences=len(banks[part]), tokens=banks[part].n_words)
    dev = banks.get("dev")
    pipeline.fit(banks["train"], dev=dev)
    result = {} if dev is None else dict(pipeline_scores(pipeline, dev, raw=True).flat)
    trees = [] if dev is None or not pipeline.trees else examples(dev, pipeline.predict(dev.without_trees()))
    training = {**pipeline._training(), "task": "pipeline", "format": "conllu"}
    recorder.finish(pipeline, training, result, examples=trees)
