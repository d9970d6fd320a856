"""Learning parsers and pipelines from treebanks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spom.cli import options
from spom.cli.live import Live
from spom.cli.options import check_shards, penalty_of, pruning_of
from spom.cli.record import Recorder, Resuming, fitted
from spom.cli.scores import pipeline_scores, tree_scores
from spom.errors import DataError, Unsupported

# Sentences of the dev data whose trees, gold and predicted, the record keeps.
EXAMPLES = 8
_LONGEST = 25


def train(**o: Any) -> None:
    """Read, learn, score, write."""
    from spom import DependencyParser
    from spom.data.conllu import read_conllu

    if o["format"] not in (None, "conllu"):
        raise Unsupported(f"parsers take CoNLL-U, not {o['format']!r}")
    live = Live(o["epochs"], o["quiet"] or o["json"], "words/s", stopping=o["stopping"])
    parser = DependencyParser(**_parameters(o, live))
    parser.set_params(**options.parsed(o["settings"]))
    live.total = parser.epochs
    recorder, resuming = Recorder("parser", o), Resuming(o)
    bank = read_conllu(o["train"])
    _not_empty(bank, o["train"])
    recorder.data("train", o["train"], "conllu", sentences=len(bank), tokens=bank.n_words)
    dev = None
    if o["dev"] is not None:
        dev = read_conllu(o["dev"])
        _not_empty(dev, o["dev"])
        recorder.data("dev", o["dev"], "conllu", sentences=len(dev), tokens=dev.n_words)
    with live:
        fitted(parser, (bank, None), dev, o, resuming.arguments)
    recorder.stopped = "interrupted" if live.interrupted else "converged" if parser.converged_ else "end"
    _finish(parser, dev, recorder)
    recorder.end(live.stopping, resuming)


def _not_empty(bank: Any, path: str) -> None:
    if len(bank) == 0:
        raise DataError("expected sentences, found none", path)


def _parameters(o: dict[str, Any], live: Live) -> dict[str, Any]:
    from spom.penalties import SparseMKL

    found: dict[str, Any] = {"random_state": o["seed"], "verbose": 0, "callbacks": [live], "n_jobs": o["jobs"]}
    found["labels"], found["second_stage"], found["order"] = o["labels"], o["second_stage"], o["order"]
    found["projective"] = "auto" if o["projective"] is None else o["projective"]
    found["prune"] = pruning_of(o["prune"])
    if o["penalty"] == "none":
        found["penalty"] = None
    elif o["penalty"] is not None or o["strength"] is not None:
        found["penalty"] = penalty_of(o["penalty"], o["strength"], None, SparseMKL(1e-4))
    if o["templates"] is not None:
        found["templates"] = _templates(o["templates"])
    for name in ("loss", "epochs"):
        if o[name] is not None:
            found[name] = o[name]
    return found


def _templates(text: str) -> Any:
    """A set by its name, or the lines of a file."""
    path = Path(text)
    if not path.is_file():
        return text
    lines = [line.strip() for line in path.read_text().splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise DataError("expected templates, found none", text)
    return found


def _finish(parser: Any, dev: Any, recorder: Recorder) -> None:
    result: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if dev is not None:
        found = parser.predict(dev)
        result = dict(tree_scores(dev, found).flat)
        more["examples"] = examples(dev, found)
    training = {**parser._training(), "task": "parser", "format": "conllu"}
    recorder.history(parser.history_)
    recorder.blocks(list(parser.blocks_), parser.block_weights_)
    result.update({k: training[k] for k in ("nonzeros", "weights", "blocks_kept")})
    result["settings"] = parser.settings_
    if parser.pruning_ is not None:
        more["pruning"] = parser.pruning_.table()
    recorder.finish(parser, training, result, **more)


def examples(gold: Any, found: Any) -> list[dict[str, Any]]:
    """A few sentences that are neither very short nor very long, with both trees."""
    picked = []
    for i in range(len(gold)):
        words = gold[i]
        if 6 <= len(words) <= _LONGEST:
            guess = found[i]
            picked.append(
                {
                    "words": [word[1] for word in words],
                    "tags": [word[3] for word in words],
                    "heads": [int(word[6]) for word in words],
                    "relations": [word[7] for word in words],
                    "predicted_heads": [int(word[6]) for word in guess],
                    "predicted_relations": [word[7] for word in guess],
                }
            )
        if len(picked) == EXAMPLES:
            break
    return picked


def train_pipeline(**o: Any) -> None:
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
