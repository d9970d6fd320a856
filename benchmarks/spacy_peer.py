"""spaCy from scratch: tags and trees of a treebank, and entities, with its own early stopping, against ours.

spaCy learns with the configuration that `spacy init config --optimize efficiency` writes, without vectors, from the
training part, and stops by its scores on the development part. Both sides get gold tokens and no gold tags. Ours learns
from the training part alone. `SPOM_SPACY` names the Python that has spaCy, where it is not this one;
`SPOM_SPACY_SECONDS` ends its training after so many CPU seconds, with the best model until then, and the row says so.
spaCy's models are kept in the folder `SPOM_SPACY_MODELS` (default: the user's cache), so that the steps after an hour
of training can be run again; a fully trained model is not trained again. Its figures are kept in `results/spacy.json`:
ours are measured each time, and `SPOM_AGAIN=1` measures spaCy's again.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import Table
from spom import Pipeline, SequenceTagger
from spom.data import read_conll, read_conllu
from spom.data.conllu import parse_conllu
from spom.metrics.attachment import attachment
from spom.metrics.phrases import phrase_scores

ENTITIES = "wnut17"
PYTHON = os.environ.get("SPOM_SPACY", sys.executable)
MODELS = Path(
    os.environ.get("SPOM_SPACY_MODELS")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spom-spacy"
)
FIGURES = Path(__file__).parent / "results" / "spacy.json"
LIMIT = int(os.environ.get("SPOM_SPACY_SECONDS", "0"))
# Reads one token per line and a blank line after each sentence; writes the same with the model's annotations.
PREDICT = """
import sys, time, spacy
from spacy.tokens import Doc
model = spacy.load(sys.argv[1])
sentences = [block.split("\\n") for block in open(sys.argv[2], encoding="utf-8").read().strip("\\n").split("\\n\\n")]
docs = (Doc(model.vocab, words=words, sent_starts=[i == 0 for i in range(len(words))]) for words in sentences)
begin = time.process_time()
with open(sys.argv[3], "w", encoding="utf-8") as out:
    for doc in model.pipe(docs):
        for t in doc:
            head = 0 if t.head.i == t.i else t.head.i + 1
            entity = t.ent_iob_ if t.ent_iob_ in ("", "O") else f"{t.ent_iob_}-{t.ent_type_}"
            tags = [t.pos_ or "_", t.tag_ or "_", str(t.morph) or "_"]
            relation = "root" if t.dep_ == "ROOT" else t.dep_ or "_"
            row = [str(t.i + 1), t.text, "_", *tags, str(head), relation, "_", entity or "O"]
            out.write("\\t".join(row) + "\\n")
        out.write("\\n")
print(time.process_time() - begin)
"""


def call(*words: str, limit: int = 0) -> tuple[float, str, bool]:
    """Run spaCy's Python; return its CPU seconds, its output, and whether a limit of seconds ended it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    bound = (lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))) if limit else None
    done = subprocess.run([PYTHON, *words], capture_output=True, text=True, check=False, preexec_fn=bound)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ended = bool(limit) and done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    if done.returncode and not ended:
        raise RuntimeError(f"spaCy failed: {' '.join(words[:4])}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return seconds, done.stdout, ended


def trained(place: Path, parts: dict[str, Path], pipeline: str, language: str, converter: str) -> dict[str, Any]:
    """Return CPU seconds of training and prediction, bytes of the model, and the predicted rows of the test part."""
    place.mkdir(parents=True, exist_ok=True)
    tokens, done = place / "tokens.txt", place / "trained.json"
    tokens.write_text(_tokens(gzip.decompress(parts["test"].read_bytes()).decode(), converter), encoding="utf-8")
    if not done.exists() or (json.loads(done.read_text())["stopped"] and not LIMIT):
        done.write_text(json.dumps(_train(place, parts, pipeline, language, converter)))
    model = place / "out" / "model-best"
    every = json.loads((model / "meta.json").read_text())["performance"]
    scores = {name: round(value, 4) for name, value in every.items() if isinstance(value, float) and "loss" not in name}
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    _, spent, _ = call("-c", PREDICT, str(model), str(tokens), str(place / "found.tsv"))
    found = {"bytes": size, "predicting": float(spent.split()[-1]), **json.loads(done.read_text())}
    print(f"  spaCy: {found['seconds']:.0f} CPU s; best on the development part: {scores}; in {place}")
    return {**found, "found": (place / "found.tsv").read_text("utf-8")}


def _train(place: Path, parts: dict[str, Path], pipeline: str, language: str, converter: str) -> dict[str, Any]:
    """Convert the data and train; return CPU seconds, and whether a limit ended it."""
    for part in ("train", "dev"):
        path = place / f"{part}{'.conllu' if converter == 'conllu' else '.iob'}"
        path.write_bytes(gzip.decompress(parts[part].read_bytes()))
        call("-m", "spacy", "convert", str(path), str(place), "--converter", converter)
    config = str(place / "config.cfg")
    call("-m", "spacy", "init", "config", config, "--lang", language, "--pipeline", pipeline, "--force")
    where = ["--paths.train", str(place / "train.spacy"), "--paths.dev", str(place / "dev.spacy")]
    seconds, _, ended = call("-m", "spacy", "train", config, "--output", str(place / "out"), *where, limit=LIMIT)
    return {"seconds": seconds, "stopped": ended}


def ending(peer: dict[str, Any]) -> str:
    """Return how spaCy's training ended, for the line of settings."""
    if peer["stopped"]:
        return f"ended after {peer['seconds']:.0f} CPU s, before its early stopping; its best model until then"
    return "stopped by its score on the development part"


def _tokens(text: str, converter: str) -> str:
    """Return one word per line, with a blank line after each sentence."""
    column, lines = (1 if converter == "conllu" else 0), []
    for line in text.split("\n"):
        cells = line.split("\t")
        if not line.strip():
            lines.append("")
        elif converter != "conllu" or cells[0].isdigit():
            lines.append(cells[column])
    return "\n".join(lines)


def columns(bank: Any) -> dict[str, list[str]]:
    """Return the words' tags, one list per column."""
    return {name: [tag for tags in bank.columns.strings(name) for tag in tags] for name in ("upos", "xpos", "feats")}


def peer_figures(name: str, measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return spaCy's figures on a data set: the stored ones, or, if there are none, newly measured ones."""
    stored: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if name not in stored or os.environ.get("SPOM_AGAIN"):
        if not installed():
            return {}
        stored[name] = measured()
        FIGURES.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return stored[name]


def figures(peer: dict[str, Any], scores: dict[str, float], words: int) -> dict[str, Any]:
    """Return spaCy's figures to store: scores, seconds, speed and size, and how its training ended."""
    speed = {"words per CPU second": words / peer["predicting"], "MB": peer["bytes"] / 1e6}
    return {**scores, "CPU seconds of training": peer["seconds"], **speed, "ending": ending(peer)}


def shares(gold: Any, found: Any) -> dict[str, float]:
    """Return the shares of words with the right tags, head, and head with relation."""
    right, own, trees = columns(gold), columns(found), attachment(gold, found)
    same = {name: sum(a == b for a, b in zip(own[name], right[name], strict=True)) / gold.n_words for name in right}
    return {**same, "UAS": trees.uas, "LAS": trees.las}


def show(title: str, what: str, ours: dict[str, float], peer: dict[str, Any]) -> None:
    """Print the table of both sides."""
    table = Table(
        title,
        settings=f"Ours: `{what}`, from the training part alone. spaCy 3.8: from scratch, its configuration for "
        f"efficiency, {peer['ending']}.",
    )
    for k, (name, value) in enumerate(ours.items()):
        table.add(f"  {name}" if k else f"{name}; spaCy", value, peer[name])


def trees(folder: Path) -> None:
    """Run tags and trees of EWT from gold tokens."""
    parts = {part: folder / "ewt" / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev", "test")}
    gold = read_conllu(parts["test"])

    def measured() -> dict[str, Any]:
        peer = trained(MODELS / "ewt", parts, "tagger,morphologizer,parser", "en", "conllu")
        return figures(peer, shares(gold, parse_conllu(peer["found"].encode())), gold.n_words)

    peer = peer_figures("ewt", measured)
    if not peer:
        return
    Pipeline(verbose=0).fit(read_conllu(parts["train"])[:300])
    begin = time.process_time()
    pipeline = Pipeline(random_state=0, verbose=0).fit(read_conllu(parts["train"]))
    seconds = time.process_time() - begin
    with tempfile.TemporaryDirectory() as place:
        pipeline.save(Path(place) / "model")
        size = (Path(place) / "model").stat().st_size
    bare = gold.without_trees()
    pipeline.predict(bare[:10])
    begin = time.process_time()
    found = pipeline.predict(bare)
    speed = gold.n_words / (time.process_time() - begin)
    ours = {"CPU seconds of training": seconds, "words per CPU second": speed, "MB": size / 1e6}
    show("Tags and trees of EWT from gold tokens, no gold tags", "Pipeline()", {**shares(gold, found), **ours}, peer)


def entities(folder: Path, name: str) -> None:
    """Run named entities."""
    parts = {part: folder / "ner" / name / f"{part}.tsv.gz" for part in ("train", "dev", "test")}
    test = read_conll(parts["test"])
    gold = [[token[-1] for token in sentence] for sentence in test]
    words = sum(len(labels) for labels in gold)

    def measured() -> dict[str, Any]:
        peer = trained(MODELS / name, parts, "ner", "en", "ner")
        found = [[row.split("\t")[-1] for row in block.split("\n")] for block in peer["found"].strip().split("\n\n")]
        return figures(peer, {"F1": phrase_scores(gold, found).f1}, words)

    peer = peer_figures(name, measured)
    if not peer:
        return
    SequenceTagger(verbose=0).fit(read_conll(parts["train"])[:300])
    begin = time.process_time()
    tagger = SequenceTagger(random_state=0, verbose=0).fit(read_conll(parts["train"]))
    seconds = time.process_time() - begin
    begin = time.process_time()
    found = tagger.predict(test)
    speed = words / (time.process_time() - begin)
    ours = {"F1": phrase_scores(gold, found).f1, "CPU seconds of training": seconds, "words per CPU second": speed}
    show(f"Entities of {name}", "SequenceTagger()", ours, peer)


def installed() -> bool:
    """Tell whether spaCy is installed, and print a hint if it is not."""
    found = not subprocess.run([PYTHON, "-c", "import spacy"], capture_output=True, check=False).returncode
    if not found:
        print("  (skipped: pip install spacy, or set SPOM_SPACY to a Python that has it)")
    return found
