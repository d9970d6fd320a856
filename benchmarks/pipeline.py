"""Pipelines from raw text against UDPipe 1 on every treebank: `python -m benchmarks pipeline[:treebank[,treebank]]`.

Both learn from the same training file with their defaults; only UDPipe also gets the development file. A treebank
without a training file is learnt from its development file. The measures are those of CoNLL 2018 on the
text of the test file. UDPipe takes minutes to hours, so results are kept in `results/pipeline.json`, and only missing
ones are run. `python -m benchmarks.pipeline udpipe|tagger|tokenizer|spom NAME ...` runs the named ones again.
If UDPipe takes more than an hour, only its tokenizer is trained, which determines words and sentences, or its
tokenizer and tagger (`tagger`), which also determine UPOS and lemmas. UDPipe's results for Turkish and Vietnamese
are from an earlier day, and lack some measures.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.defaults.sentence_sets import files, treebanks
from benchmarks.defaults.udpipe import packed, sentences
from spom import Pipeline
from spom.data.conllu import parse_conllu, read_conllu
from spom.data.surface import Surface
from spom.data.treebank import Treebank
from spom.metrics.conll2018 import conll2018

RESULTS = Path(__file__).parent / "results" / "pipeline.json"
MEASURES = ("words", "sentences", "upos", "xpos", "feats", "lemmas", "uas", "las")
# UDPipe takes more than an hour for each of these, so only its tokenizer is run.
TOO_LONG = ("ar_padt_v1.3", "es_ancora", "ewt", "pt_bosque", "zh_gsd_v1.3")


def rounded(gold: Treebank, found: Treebank) -> dict[str, float]:
    """Return the measures in percent."""
    scores = conll2018(gold, found)
    return {name: round(100 * scores[name], 2) for name in MEASURES}


def udpipe(found: dict[str, Path], parts: int = 3) -> dict[str, Any]:
    """Run UDPipe 1 with the defaults of the first `parts` of its tokenizer, tagger and parser."""
    from ufal import udpipe as peer

    train, error = sentences(found["train"]), peer.ProcessingError()
    held = sentences(found["dev"]) if "dev" in found else []
    begin = time.process_time()
    options = [""] * parts + ["none"] * (3 - parts)
    data = peer.Trainer.train("morphodita_parsito", packed(train), packed(held), *options, error)
    seconds = time.process_time() - begin
    if not data:
        raise RuntimeError(error.message)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.udpipe"
        path.write_bytes(data)
        model = peer.Model.load(str(path))
        after = [peer.Pipeline.DEFAULT if k < parts else peer.Pipeline.NONE for k in (1, 2)]
        runner = peer.Pipeline(model, "tokenize", *after, "conllu")
        result: dict[str, Any] = {}
        for part in ("dev", "test"):
            if part in found:
                gold = read_conllu(found[part])
                text = Surface.of(gold).text()
                begin = time.process_time()
                written = runner.process(text, error)
                used = time.process_time() - begin
                scores = rounded(gold, parse_conllu(_flat(written).encode()))
                result[part] = {name: scores[name] for name in MEASURES[: (2, 6, 8)[parts - 1]]}
    return {**result, "seconds": round(seconds, 1), "bytes": len(data), "words_per_second": round(gold.n_words / used)}


def _flat(written: str) -> str:
    """Return CoNLL-U with trees added where missing: all words depend on the first."""
    lines = []
    for line in written.split("\n"):
        cells = line.split("\t")
        if len(cells) == 10 and cells[0].isdigit() and cells[6] == "_":
            cells[6:8] = ("0", "root") if cells[0] == "1" else ("1", "dep")
        lines.append("\t".join(cells))
    return "\n".join(lines)


def tokenizer(found: dict[str, Path]) -> dict[str, Any]:
    """Run the tokenizer of UDPipe 1 alone."""
    return udpipe(found, 1)


def tagger(found: dict[str, Path]) -> dict[str, Any]:
    """Run the tokenizer and the tagger of UDPipe 1."""
    return udpipe(found, 2)


def spom(found: dict[str, Path]) -> dict[str, Any]:
    """Run `Pipeline()`."""
    bank, begin = read_conllu(found["train"]), time.process_time()
    pipeline = Pipeline(verbose=0).fit(bank)
    seconds = time.process_time() - begin
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.spom"
        pipeline.save(path)
        size = path.stat().st_size
    for part in ("dev", "test"):
        if part in found:
            gold = read_conllu(found[part])
            text = Surface.of(gold).text()
            begin = time.process_time()
            written = pipeline.predict(text)
            used = time.process_time() - begin
            result[part] = rounded(gold, written)
    return {**result, "seconds": round(seconds, 1), "bytes": size, "words_per_second": round(gold.n_words / used)}


LEARNERS = {"spom": spom, "udpipe": udpipe, "tokenizer": tokenizer, "tagger": tagger}


def stored() -> dict[str, dict[str, Any]]:
    """Return the results by treebank and learner."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def run(learner: str, name: str) -> None:
    """Run one and keep its result."""
    found = LEARNERS[learner](files(name))
    done = stored()
    done.setdefault(name, {})[learner] = found
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(done, indent=1, sort_keys=True) + "\n")
    print(learner, name, found["test"], f"{found['seconds']} s", flush=True)


def main(part: str = "") -> None:
    """Run the missing ones; `python tools/readme.py` writes the table of docs/benchmarks.md."""
    for name in part.split(",") if part else treebanks():
        for learner in ("spom", "tokenizer" if name in TOO_LONG else "udpipe"):
            if learner not in stored().get(name, {}):
                run(learner, name)


if __name__ == "__main__":
    for treebank in sys.argv[2:]:
        run(sys.argv[1], treebank)
