"""Parsing English EWT with gold tags: `python -m benchmarks parsing`, or a part: `parsing:compact`, `:large`,
`:prune`, `:second`, `:order`, `:growth`.

The peer is UDPipe 1's parser alone, with the static oracle, which is better and faster here than its structured search
(`benchmarks.defaults.udpipe`), trained and run in this process on the same files. Seconds are CPU seconds of this
process, starting at the raw files; compiled code is loaded before the clock starts. Scores include punctuation, and LAS
the part of a relation before the colon, as in the CoNLL 2018 evaluation. Means of three seeds (`SPOM_SEEDS=1` for one).
"""

from __future__ import annotations

import gzip
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table, data_folder

PARTS = ("compact", "large", "prune", "second", "order", "growth")
SEEDS = int(os.environ.get("SPOM_SEEDS", "3"))
PEER = "iterations=10;structured_interval=0;transition_system=projective;transition_oracle=static"


def clock() -> float:
    return time.process_time()


def paths(folder: str) -> dict[str, Path]:
    return {part: Path(folder) / "ewt" / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev", "test")}


def warm(files: dict[str, Path], **settings: Any) -> None:
    """Compile everything, on a few sentences."""
    from spom import DependencyParser
    from spom.data import read_conllu

    some = read_conllu(files["dev"])[:60]
    DependencyParser(**{**settings, "epochs": 1, "label_epochs": 1, "verbose": 0}).fit(some).evaluate(some)


def ours(files: dict[str, Path], seed: int, **settings: Any) -> dict[str, Any]:
    """Measure seconds of learning from the raw file, words per second from the raw file to trees, and scores."""
    from spom import DependencyParser
    from spom.data import read_conllu

    begin = clock()
    parser = DependencyParser(**settings, random_state=seed, verbose=0).fit(read_conllu(files["train"]))
    seconds = clock() - begin
    rate, found = 0.0, None
    for _ in range(3):
        begin = clock()
        found = parser.predict(read_conllu(files["test"]).without_trees())
        rate = max(rate, found.n_words / (clock() - begin))
    gold = read_conllu(files["test"])
    from spom.metrics.attachment import attachment

    score, plain = attachment(gold, found), attachment(gold, found, punctuation=False)
    dev = parser.evaluate(read_conllu(files["dev"]))
    return {
        **{"seconds": seconds, "rate": rate, "uas": score.uas, "las": score.las, "uas_words": plain.uas},
        **{"dev": dev.uas, "templates": len(parser.blocks_), "blocks": parser.blocks_},
    }


def means(runs: list[dict[str, Any]]) -> dict[str, float]:
    keys = ("seconds", "rate", "uas", "las", "uas_words", "dev", "templates")
    return {key: float(np.mean([run[key] for run in runs])) for key in keys}


def several(files: dict[str, Path], label: str, seeds: int = SEEDS, **settings: Any) -> dict[str, Any]:
    runs = []
    for seed in range(seeds):
        run = ours(files, seed, **settings)
        runs.append(run)
        print(
            f"    {label}, seed {seed}: test UAS {run['uas']:.4f}, LAS {run['las']:.4f}, UAS without punctuation "
            f"{run['uas_words']:.4f}, dev UAS {run['dev']:.4f}; {run['seconds']:.1f} s, {run['rate']:.0f} words/s",
            flush=True,
        )
    return {**means(runs), "blocks": runs[0]["blocks"]}


# --- the peer ----------------------------------------------------------------------------------------


def udpipe_sentences(path: Path) -> Any:
    from ufal import udpipe

    reader, found, error = udpipe.InputFormat.newConlluInputFormat(), udpipe.Sentences(), udpipe.ProcessingError()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        reader.setText(file.read())
    while True:
        sentence = udpipe.Sentence()
        if not reader.nextSentence(sentence, error):
            return found
        found.append(sentence)


def udpipe(files: dict[str, Path]) -> dict[str, float] | None:
    """Measure UDPipe's parser; return None if the package is not installed."""
    try:
        from ufal import udpipe as peer
    except ImportError:
        print("  (no peer: pip install ufal.udpipe)")
        return None
    from spom.data.conllu import parse_conllu, read_conllu
    from spom.metrics.attachment import attachment

    error = peer.ProcessingError()
    begin = clock()
    model = peer.Trainer.train(
        *("morphodita_parsito", udpipe_sentences(files["train"]), peer.Sentences()),
        *("none", "none", PEER, error),
    )
    seconds = clock() - begin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "udpipe.model"
        path.write_bytes(model)
        loaded = peer.Model.load(str(path))
    text = gzip.decompress(files["test"].read_bytes()).decode()
    pipeline = peer.Pipeline(loaded, "conllu", peer.Pipeline.NONE, peer.Pipeline.DEFAULT, "conllu")
    # The best of three, as for us.
    spent = np.inf
    for _ in range(3):
        begin = clock()
        found = pipeline.process(text, error)
        spent = min(spent, clock() - begin)
    gold = read_conllu(files["test"])
    score = attachment(gold, parse_conllu(found.encode()))
    return {"seconds": seconds, "rate": gold.n_words / spent, "uas": score.uas, "las": score.las}


# --- parts -------------------------------------------------------------------------------------------


def compact(files: dict[str, Path]) -> None:
    warm(files)
    mine = several(files, "compact")
    flat = several(files, "compact, projective", projective=True)
    peer = udpipe(files)
    table = Table(f"Compact templates, against UDPipe; gold tags, means of {SEEDS} seeds", settings=f"UDPipe: {PEER}")
    nan = float("nan")
    theirs = peer or {"seconds": nan, "rate": nan, "uas": nan, "las": nan}
    for name, run in (("all trees", mine), ("projective trees", flat)):
        fast = None if peer is None else 10.0 * run["seconds"] <= peer["seconds"]
        quick = None if peer is None else run["rate"] >= 20.0 * peer["rate"]
        table.add(f"{name}: UAS", run["uas"], theirs["uas"], ">= .860", run["uas"] >= 0.860)
        table.add(f"{name}: LAS", run["las"], theirs["las"], ">= .838", run["las"] >= 0.838)
        table.add(f"{name}: learning, from the raw file", run["seconds"], theirs["seconds"], "<= 1/10", fast, " s")
        table.add(f"{name}: words a second (ratio: peer / ours)", run["rate"], theirs["rate"], ">= 20 times", quick)


def large(files: dict[str, Path]) -> dict[str, Any]:
    warm(files, templates="large", labels=False)
    found = several(files, "large", templates="large", labels=False)
    table = Table("Large template set")
    table.add(f"UAS with {found['templates']:.0f} templates", found["uas"], target=">= .870 (or a second stage)")
    table.add("learning", found["seconds"], unit=" s")
    return found


def prune(files: dict[str, Path]) -> None:
    full = large(files)
    warm(files, templates="large", labels=False, prune=0.2)
    few = several(files, "a fifth", templates="large", labels=False, prune=0.2)
    tenth = several(files, "a tenth", templates="large", labels=False, prune=0.1)
    table = Table(f"prune on {full['templates']:.0f} templates; 'peer' is all of them")
    lost = full["uas"] - few["uas"]
    table.add(f"UAS with {few['templates']:.0f} templates", few["uas"], full["uas"], "loses <= .001", lost <= 0.001)
    refit = ours(files, 0, templates=few["blocks"], labels=False)["seconds"]
    table.add("learning with those kept", refit, full["seconds"], "<= 1/4", refit <= full["seconds"] / 4, " s")
    table.add("the same and choosing them", few["seconds"], full["seconds"], "", None, " s")
    quick = few["rate"] >= 4 * full["rate"]
    table.add("words a second (ratio: peer / ours)", few["rate"], full["rate"], ">= 4 times", quick)
    less = full["uas"] - tenth["uas"]
    table.add(f"UAS with {tenth['templates']:.0f} templates", tenth["uas"], full["uas"], "loses <= .003", less <= 0.003)
    rankings(files)


def rankings(files: dict[str, Path]) -> None:
    """Compare our ranking, chance and the norms of a plain SVM, after three epochs with equally many templates."""
    from spom import DependencyParser
    from spom.data import read_conllu
    from spom.features.arcs import ArcTemplates

    train, dev, test = (read_conllu(files[part]) for part in ("train", "dev", "test"))
    names = ArcTemplates("large").blocks
    plain = {"templates": "large", "labels": False, "verbose": 0}
    svm = DependencyParser(**plain, loss="hinge", epochs=2).fit(train)
    norms = svm.arcs_.block_norms()
    del svm

    def refit(chosen: Any, seed: int) -> float:
        parser = DependencyParser([names[k] for k in chosen], labels=False, epochs=3, verbose=0, random_state=seed)
        parser.fit(train)
        return (parser.evaluate(dev).uas + parser.evaluate(test).uas) / 2

    table = Table("The same number of templates, other rankings (mean UAS of dev and test after three epochs)")
    for share in (0.1, 0.2):
        count = round(share * len(names))
        own, chance, by_norm = [], [], []
        for seed in range(SEEDS):
            parser = DependencyParser(**plain, epochs=3, prune=count, random_state=seed).fit(train)
            own.append((parser.evaluate(dev).uas + parser.evaluate(test).uas) / 2)
            chance.append(refit(np.random.default_rng(seed).permutation(len(names))[:count], seed))
            by_norm.append(refit(np.argsort(-norms)[:count], seed))
        for name, other in (("chance", chance), ("norms of a plain SVM", by_norm)):
            mine, theirs = float(np.mean(own)), float(np.mean(other))
            table.add(f"{count} templates, against {name}", mine, theirs, "above", mine > theirs)


def second(files: dict[str, Path]) -> None:
    warm(files, second_stage=True)
    seeds = min(SEEDS, 2)
    found = several(files, "second stage", seeds, second_stage=True)
    flat = several(files, "second stage, projective", seeds, second_stage=True, projective=True)
    table = Table(f"Compact templates and a second stage; means of {seeds} seeds")
    for name, run in (("all trees", found), ("projective trees", flat)):
        table.add(f"{name}: UAS", run["uas"], target=">= .870", reached=run["uas"] >= 0.870)
        table.add(f"{name}: UAS, stretch", run["uas"], target=">= .880", reached=run["uas"] >= 0.880)
        table.add(f"{name}: LAS", run["las"])
        table.add(f"{name}: learning", run["seconds"], unit=" s")
        table.add(f"{name}: words a second", run["rate"])


def order(files: dict[str, Path]) -> None:
    """Compare siblings and grandparents with a second stage and with arcs alone, all with the default templates."""
    seeds = min(SEEDS, 2)
    table = Table(f"Trees of second order, beside a second stage ('peer'); means of {seeds} seeds")
    runs = []
    for name, settings in (("order 1", {}), ("second stage", {"second_stage": True}), ("order 2", {"order": 2})):
        warm(files, **settings)
        runs.append(several(files, name, seeds, **settings))
    plain, staged, deep = runs
    for key, what, unit in (("uas", "UAS", ""), ("las", "LAS", ""), ("rate", "words a second", "")):
        table.add(f"{what} (order 1: {plain[key]:.4g})", deep[key], staged[key], "above", deep[key] > staged[key], unit)
    quick = deep["seconds"] <= staged["seconds"]
    table.add(f"learning (order 1: {plain['seconds']:.1f} s)", deep["seconds"], staged["seconds"], "less", quick, " s")


def growth(files: dict[str, Path]) -> None:
    """Print seconds per epoch by sentences and by templates."""
    from spom.data import read_conllu
    from spom.features.arcs import ArcTemplates, with_roots
    from spom.solvers.structured.trees.solver import ArcSolver

    train = read_conllu(files["train"])
    warm(files, labels=False)
    table = Table("Cost as it grows: ours is the second epoch, in microseconds a word")
    names = ArcTemplates("large").blocks
    order = np.random.default_rng(0).permutation(len(names))
    for sentences, templates in ((3136, 60), (6272, 60), (12544, 60), (6272, 110), (6272, 220), (6272, 447)):
        bank = train[:sentences]
        chosen = ArcTemplates([names[k] for k in order[:templates]])
        codes = chosen.fit(bank)
        solver = ArcSolver(chosen, codes, with_roots(bank.heads, codes), copies=False)
        solver.epoch()
        begin = clock()
        solver.epoch()
        micro = (clock() - begin) / bank.n_words * 1e6
        what = f"{bank.n_words} words, {templates} templates in {len(chosen.families)} families"
        table.add(what, micro, unit=" us")


def main(part: str = "") -> None:
    folder = data_folder()
    if folder is None:
        return
    files = paths(folder)
    if not files["train"].exists():
        print("  (skipped: spom data fetch ewt)")
        return
    if part and part not in PARTS:
        raise ValueError(f"there is no part {part!r}; there are: {', '.join(PARTS)}")
    for name in [part] if part else [p for p in PARTS if p != "large"]:
        globals()[name](files)
