"""Learning taggers from files."""

from __future__ import annotations

from typing import Any

from spom.cli import options
from spom.cli.live import Live
from spom.cli.options import penalty_of, pruning_of
from spom.cli.record import Recorder, Resuming, fitted
from spom.cli.scores import tag_scores
from spom.cli.sentences import Tagged, like_training, read_tagged
from spom.errors import DataError


def train(**o: Any) -> None:
    """Read, learn, score, write."""
    from spom.estimators.tagger.tagger import SequenceTagger

    live = Live(o["epochs"], o["quiet"] or o["json"], "tokens/s", stopping=o["stopping"])
    tagger = SequenceTagger(**_parameters(o, live))
    tagger.set_params(**options.parsed(o["settings"]))
    live.total = tagger.epochs if isinstance(tagger.epochs, int) else None
    recorder, resuming = Recorder("tagger", o), Resuming(o)
    names = None if o["columns"] is None else [name.strip() for name in o["columns"].split(",")]
    data = read_tagged(o["train"], o["format"], names, o["label"], o["encoding"])
    recorder.data("train", data.path, data.format, sentences=data.sentences, tokens=data.tokens)
    dev = None
    if o["dev"] is not None:
        dev = like_training(o["dev"], o["format"], {**data.summary(), "encoding": o["encoding"]}, o["label"])
        recorder.data("dev", dev.path, dev.format, sentences=dev.sentences, tokens=dev.tokens)
        _check_labels(data, dev)
    with live:
        held = None if dev is None else (dev.X, dev.y)
        fitted(tagger, (data.X, data.y), held, o, resuming.arguments)
    recorder.stopped = "interrupted" if live.interrupted else "converged" if tagger.converged_ else "end"
    _finish(tagger, data, dev, recorder)
    recorder.end(live.stopping, resuming)


def _parameters(o: dict[str, Any], live: Live) -> dict[str, Any]:
    found: dict[str, Any] = {"random_state": o["seed"], "verbose": 0, "callbacks": [live]}
    found["templates"] = "auto" if o["templates"] is None else o["templates"]
    found["penalty"] = _penalty(o["penalty"], o["strength"])
    found["prune"] = pruning_of(o["prune"])
    found["constraints"] = {None: "auto", "none": None}.get(o["constraints"], o["constraints"])
    for name in ("loss", "epochs"):
        if o[name] is not None:
            found[name] = o[name]
    return found


def _penalty(name: str | None, strength: float | None) -> Any:
    """What the options mean: the tagger chooses what is left out; `none` is no penalty."""
    from spom.penalties import L1

    if name == "none":
        return None
    if strength is not None:
        return penalty_of(name, strength, None, L1(1e-4))
    return "auto" if name is None else name


def _check_labels(data: Tagged, dev: Tagged) -> None:
    known, held = label_set(data.y), label_set(dev.y)
    if not known & held:
        shown = [", ".join(sorted(labels)[:5]) for labels in (held, known)]
        raise DataError(f"the labels ({shown[0]}) are of another set than those of {data.path} ({shown[1]})", dev.path)


def label_set(y: Any) -> set[str]:
    """The labels that occur."""
    if hasattr(y, "distinct"):
        return {str(label) for label in y.distinct(0)[1]}
    return {label for sentence in y for label in sentence}


def _finish(tagger: Any, data: Tagged, dev: Tagged | None, recorder: Recorder) -> None:
    result: dict[str, Any] = {}
    confusion = None
    if dev is not None:
        scores = tag_scores(tagger, dev.X, dev.y)
        result, confusion = dict(scores.flat), scores.confusion
    training = {**tagger._training(), "task": "tagger", **data.summary()}
    recorder.history(tagger.history_)
    recorder.blocks(list(tagger.blocks_), tagger.block_weights_)
    result.update({k: training[k] for k in ("nonzeros", "weights", "blocks_kept")})
    result["settings"] = tagger.settings_
    pruned = {} if tagger.pruning_ is None else {"pruning": str(tagger.pruning_)}
    recorder.finish(tagger, training, result, confusion, **pruned)
