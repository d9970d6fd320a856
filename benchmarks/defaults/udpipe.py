"""UDPipe 1's parser on every treebank: `python -m benchmarks.defaults.udpipe`.

The setting is that of its manual (structured search every tenth tree, dynamic or lazy static oracle, hidden layer 200,
10 passes), and of the transition systems projective and swap the one that is better on the part to choose by, which
also chooses the pass. Gold tags. `--projective` leaves the swap system out, which takes half of the time. Results are
kept in `results/udpipe.json`, treebank by treebank, with the systems that were tried.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.defaults.sentence_sets import files, treebanks
from spom.data.conllu import parse_conllu, read_conllu
from spom.metrics.attachment import attachment

RESULTS = Path(__file__).parent / "results" / "udpipe.json"
COMMON = (
    "iterations=10;hidden_layer=200;structured_interval=10;embedding_upostag=20;embedding_feats=20;embedding_form=50;"
    "embedding_deprel=20"
)
SYSTEMS = {
    "projective": "transition_system=projective;transition_oracle=dynamic",
    "swap": "transition_system=swap;transition_oracle=static_lazy",
}


def sentences(path: Path) -> list[Any]:
    """The sentences of a file, as UDPipe reads them."""
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
    """The same as UDPipe's own list."""
    from ufal import udpipe

    out = udpipe.Sentences()
    for sentence in found:
        out.append(sentence)
    return out


def parsed(model: Any, path: Path) -> Any:
    """Trees of a file."""
    from ufal import udpipe

    writer, error, text = udpipe.OutputFormat.newConlluOutputFormat(), udpipe.ProcessingError(), []
    for sentence in sentences(path):
        model.parse(sentence, "", error)
        text.append(writer.writeSentence(sentence))
    return parse_conllu("".join(text).encode())


def one(name: str, systems: list[str]) -> dict[str, Any]:
    """Scores on the test part of the system that is better on the part to choose by, and its CPU seconds."""
    from ufal import udpipe

    found, best = files(name), None
    train = sentences(found["train"])
    held = sentences(found["dev"]) if "dev" in found else train[4::5]
    rest = train if "dev" in found else [s for i, s in enumerate(train) if i % 5 != 4]
    with tempfile.TemporaryDirectory() as place:
        for system in systems:
            options = SYSTEMS[system]
            error, begin = udpipe.ProcessingError(), time.process_time()
            data = udpipe.Trainer.train(
                *("morphodita_parsito", packed(rest), packed(held)), *("none", "none", f"{COMMON};{options}", error)
            )
            seconds, path = time.process_time() - begin, Path(place) / system
            path.write_bytes(data)
            model = udpipe.Model.load(str(path))
            dev, writer = Path(place) / "dev.conllu.gz", udpipe.OutputFormat.newConlluOutputFormat()
            dev.write_bytes(gzip.compress("".join(writer.writeSentence(s) for s in held).encode()))
            score = attachment(read_conllu(dev), parsed(model, dev)).las
            if best is None or score > best[0]:
                best = (score, system, model, seconds, len(data))
    assert best is not None
    result = attachment(read_conllu(found["test"]), parsed(best[2], found["test"]))
    found_by = best[1] if len(systems) > 1 else f"{best[1]}, the only one tried"
    return {"uas": result.uas, "las": result.las, "system": found_by, "seconds": best[3], "bytes": best[4]}


def main(names: list[str]) -> None:
    """All treebanks, or those named, that are not in the results yet."""
    systems = ["projective"] if "--projective" in names else list(SYSTEMS)
    for name in [name for name in names if name != "--projective"] or treebanks():
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name in done:
            continue
        found = one(name, systems)
        RESULTS.write_text(json.dumps({**done, name: found}, indent=1, sort_keys=True) + "\n")
        print(
            name,
            f"UAS {found['uas']:.4f} LAS {found['las']:.4f} {found['seconds']:.0f} s {found['system']}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
