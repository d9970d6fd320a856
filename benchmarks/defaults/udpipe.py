"""UDPipe 1's parser on every treebank: `python -m benchmarks.defaults.udpipe`.

Hidden layer 200, embeddings as in its manual, 20 passes, gold tags. The best of the settings in `SYSTEMS` on the
development part is taken; that part also chooses the pass. `--fast` skips the settings with structured
search, which take five minutes of CPU per 500 sentences. Results are kept in `results/udpipe.json`, one treebank at a
time, with the LAS on the development part of each setting that was tried.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.defaults.sentence_sets import files, treebanks
from spom.data.conllu import parse_conllu, read_conllu
from spom.metrics.attachment import attachment

RESULTS = Path(os.environ.get("SPOM_UDPIPE", str(Path(__file__).parent / "results" / "udpipe.json")))
COMMON = "iterations=20;hidden_layer=200;embedding_upostag=20;embedding_feats=20;embedding_form=50;embedding_deprel=20;"
SYSTEMS = {
    "projective, static oracle": "structured_interval=0;transition_system=projective;transition_oracle=static",
    "swap, lazy oracle": "structured_interval=0;transition_system=swap;transition_oracle=static_lazy",
    "projective, structured": "structured_interval=10;transition_system=projective;transition_oracle=dynamic",
    "swap, structured": "structured_interval=10;transition_system=swap;transition_oracle=static_lazy",
}


def sentences(path: Path) -> list[Any]:
    """Return the sentences of a file, as UDPipe reads them."""
    from ufal import udpipe

    reader, error, found = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError(), []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        reader.setText(file.read())
    while True:
        sentence = udpipe.Sentence()
        if not reader.nextSentence(sentence, error):
            return found
        found.append(sentence)


def packed(found: list[Any]) -> Any:
    """Return sentences as UDPipe's own list."""
    from ufal import udpipe

    out = udpipe.Sentences()
    for sentence in found:
        out.append(sentence)
    return out


def parsed(model: Any, path: Path) -> Any:
    """Return the parsed trees of a file."""
    from ufal import udpipe

    writer, error, text = udpipe.OutputFormat.newConlluOutputFormat(), udpipe.ProcessingError(), []
    for sentence in sentences(path):
        model.parse(sentence, "", error)
        text.append(writer.writeSentence(sentence))
    return parse_conllu("".join(text).encode())


def one(name: str, systems: list[str]) -> dict[str, Any]:
    """Return test scores and CPU seconds of the system that is best on the development part."""
    from ufal import udpipe

    found, best, tried = files(name), None, {}
    train = sentences(found["train"])
    held = sentences(found["dev"]) if "dev" in found else train[4::5]
    rest = train if "dev" in found else [s for i, s in enumerate(train) if i % 5 != 4]
    with tempfile.TemporaryDirectory() as place:
        dev, writer = Path(place) / "dev.conllu.gz", udpipe.OutputFormat.newConlluOutputFormat()
        dev.write_bytes(gzip.compress("".join(writer.writeSentence(s) for s in held).encode()))
        for system in systems:
            error, begin = udpipe.ProcessingError(), time.process_time()
            data = udpipe.Trainer.train(
                *("morphodita_parsito", packed(rest), packed(held), "none", "none", COMMON + SYSTEMS[system], error)
            )
            seconds, path = time.process_time() - begin, Path(place) / "model"
            path.write_bytes(data)
            model = udpipe.Model.load(str(path))
            tried[system] = attachment(read_conllu(dev), parsed(model, dev)).las
            if best is None or tried[system] > tried[best[0]]:
                best = (system, model, seconds, len(data))
    assert best is not None
    system, model, seconds, size = best
    result = attachment(read_conllu(found["test"]), parsed(model, found["test"]))
    return {"uas": result.uas, "las": result.las, "system": system, "tried": tried, "seconds": seconds, "bytes": size}


def main(names: list[str]) -> None:
    """Run all treebanks, or the named ones, that are not in the results yet."""
    systems = [name for name in SYSTEMS if "--fast" not in names or "structured" not in name]
    for name in [name for name in names if name != "--fast"] or treebanks():
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name in done:
            continue
        found = one(name, systems)
        RESULTS.write_text(json.dumps({**done, name: found}, indent=1, sort_keys=True) + "\n")
        print(f"{name} LAS {found['las']:.4f} {found['seconds']:.0f} s {found['system']} {found['tried']}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
