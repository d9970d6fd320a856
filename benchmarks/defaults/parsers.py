"""`DependencyParser()`, plain and pruned, on every treebank with gold tags, against UDPipe 1: LAS on the test part.

UDPipe's results are stored (`results/udpipe.json`, made by `python -m benchmarks.defaults.udpipe`); its training takes
minutes per thousand sentences. Our parser learns from the training part alone, without development data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.defaults.rows import Row, is_stored, timed
from benchmarks.defaults.sentence_sets import files, treebanks
from benchmarks.defaults.udpipe import RESULTS
from spom import DependencyParser
from spom.data.conllu import read_conllu

PEER = "UDPipe 1"
LEARNERS: dict[str, dict[str, Any]] = {"DependencyParser": {}, "pruned": {"prune": "auto"}}


def run(kind: str, sets: str = "", learner: str = "") -> Iterator[Row]:
    """Yield the rows of the treebanks and learners whose names start with these."""
    seeds = int(os.environ.get("SPOM_SEEDS", "3"))
    peers = json.loads(RESULTS.read_text())
    for name in treebanks():
        if not name.startswith(sets):
            continue
        if name in peers and PEER.startswith(learner):
            peer = peers[name]
            note = f"UAS {peer['uas']:.4f}; {peer['system']}"
            yield Row(kind, name, PEER, 0, peer["las"], peer["seconds"], peer["bytes"], note=note)
        train, test = (read_conllu(files(name)[part]) for part in ("train", "test"))
        DependencyParser(verbose=0, epochs=1, label_epochs=1).fit(train[:20])
        for label, params in LEARNERS.items():
            for seed in range(seeds) if label.startswith(learner) else ():
                if is_stored(kind, name, label, seed):
                    continue
                made = DependencyParser(random_state=seed, verbose=0, **params)
                parser, seconds = timed(lambda made=made, train=train: made.fit(train))
                result = parser.evaluate(test)
                note = f"UAS {result.uas:.4f}; {parser.trees_}"
                note += "" if parser.pruning_ is None else f"; {parser.pruning_.why}"
                size = sum(int(np.count_nonzero(model.weights)) for model in (parser.arcs_, parser.labels_))
                print(f"  {name:<16} {label:<18} seed {seed}: LAS {result.las:.4f} {seconds:6.2f} s {size}", flush=True)
                yield Row(kind, name, label, seed, result.las, seconds, size, True, note=note)
