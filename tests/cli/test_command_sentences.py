"""`spom` on sentences: taggers of columns, CoNLL-U and items; parsers; what bad input gets."""

from __future__ import annotations

import csv
import gzip
import io
import signal
from pathlib import Path

import numpy as np
import pytest

import spom as library
from spom.cli import training
from spom.cli.sentences import load_tagging
from spom.core.ordered import in_order
from spom.data import read_conll, read_conllu
from spom.data.columns import spliced
from spom.data.generated import ingredients
from spom.metrics.phrases import phrase_scores
from spom.models import read_run
from tests.cli.common import Command, process

TEMPLATES = ["w[-1]", "w[0]", "w[1]", "w.suffix2[0]", "w[-1]|w[0]", "shelf[0]"]


def as_text(sentences: object, separator: str = " ") -> str:
    return "".join("".join(separator.join(token) + "\n" for token in sentence) + "\n" for sentence in sentences)


def tree(i: int) -> list[tuple[str, ...]]:
    """Return a made-up sentence: determiner, noun, verb, determiner, noun; the second noun depends on the verb."""
    nouns, verbs = ["dog", "cat", "bird", "cow"], ["sees", "hears", "likes"]
    words = ["the", nouns[i % 4], verbs[i % 3], "a", nouns[(i // 3) % 4]]
    tags, heads = ["DET", "NOUN", "VERB", "DET", "NOUN"], [2, 3, 0, 5, 3]
    relations = ["det", "nsubj", "root", "det", "obj"]
    rows = zip(words, tags, heads, relations, strict=True)
    return [(str(n), w, w, t, t, "_", str(h), r, "_", "_") for n, (w, t, h, r) in enumerate(rows, 1)]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from spom.cli.main import main

    folder = tmp_path_factory.mktemp("sentences")
    (folder / "templates").write_text("# words, and a column that means nothing\n" + "\n".join(TEMPLATES))
    for name, count, seed in (("train", 300, 0), ("test", 60, 1)):
        (folder / f"{name}.txt").write_text(as_text(ingredients(count, seed)))
    for name, rows in (("train", range(40)), ("test", range(40, 52))):
        text = "".join(f"# sent_id = {i}\n" + as_text([tree(i)], "\t") for i in rows)
        (folder / f"{name}.conllu").write_text(text)
    files = ["--train", str(folder / "train.txt"), "--dev", str(folder / "test.txt"), "--columns", "w,shelf,label"]
    words = ["--templates", str(folder / "templates"), "--model", str(folder / "tagger.spom"), "--quiet"]
    assert main(["train", "tagger", *files, *words]) == 0
    trees = ["--train", str(folder / "train.conllu"), "--dev", str(folder / "test.conllu"), "--set", "min_count=1"]
    assert main(["train", "parser", *trees, "--model", str(folder / "parser.spom"), "--quiet"]) == 0
    return folder


# --- taggers ----------------------------------------------------------------------------------------------


def test_a_tagger_from_a_file(spom: Command, here: Path) -> None:
    run = read_run(here / "tagger.spom")
    assert run["blocks"] == TEMPLATES
    assert run["data"]["train"]["sentences"] == 300
    assert all(len(entry["block_weights"]) == len(TEMPLATES) for entry in run["history"])
    assert run["result"]["f1"] == max(entry["dev"] for entry in run["history"])
    assert run["result"]["f1"] > 0.9
    found = spom.well("evaluate", "--model", here / "tagger.spom", here / "test.txt", "--json").json
    for key in ("accuracy", "precision", "recall", "f1", "tokens", "sentences"):
        assert found[key] == run["result"][key]
    text = spom.well("evaluate", "--model", here / "tagger.spom", here / "test.txt").out
    assert text.startswith(f"processed {found['tokens']} tokens with ")
    assert f"FB1: {100 * found['f1']:6.2f}" in text


def test_tagging_is_what_the_estimator_predicts(spom: Command, here: Path) -> None:
    columns = read_conll(here / "test.txt", ["w", "shelf", "label"])
    tagger = library.load_model(here / "tagger.spom")
    predicted = tagger.predict(columns.select(["w", "shelf"]))
    out = spom.well("predict", "--model", here / "tagger.spom", here / "test.txt").out
    expected = [
        [(*token, label) for token, label in zip(s, p, strict=True)] for s, p in zip(columns, predicted, strict=True)
    ]
    assert out == as_text(expected)
    gold = columns.strings("label")
    assert phrase_scores(gold, predicted).f1 == read_run(here / "tagger.spom")["result"]["f1"]
    only = spom.well("predict", "--model", here / "tagger.spom", here / "test.txt", "--only").out
    assert only == as_text([[(label,) for label in labels] for labels in predicted])
    assert load_tagging(here / "tagger.spom").classes.tolist() == tagger.classes_.tolist()


def test_a_file_without_labels_and_with_tabs(spom: Command, here: Path, tmp_path: Path) -> None:
    columns = read_conll(here / "test.txt")
    raw = tmp_path / "raw.txt"
    raw.write_text(as_text(columns.select([0, 1]), "\t").replace("\n", "\r\n"))
    out = spom.well("predict", "--model", here / "tagger.spom", raw).out
    with_labels = spom.well("predict", "--model", here / "tagger.spom", here / "test.txt", "--only").out.split()
    lines = [line.split("\t") for line in out.replace("\r", "").splitlines() if line]
    assert [line[-1] for line in lines] == with_labels
    assert {len(line) for line in lines} == {3}
    assert out.count("\r\n") == raw.read_bytes().count(b"\r\n")


def test_blocks_pipes_and_threads(spom: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spom.well("predict", "--model", here / "tagger.spom", here / "test.txt").out
    done = process("predict", "--model", here / "tagger.spom", input=gzip.compress((here / "test.txt").read_bytes()))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == whole
    defaults = list(library.data.columns.read_conll_blocks.__kwdefaults__.items())
    monkeypatch.setitem(library.data.columns.read_conll_blocks.__kwdefaults__, "block_bytes", 400)
    assert defaults
    for jobs in ("1", "3"):
        assert spom.well("predict", "--model", here / "tagger.spom", here / "test.txt", "--jobs", jobs).out == whole


def test_results_come_in_order() -> None:
    import time

    def slow(i: int) -> int:
        time.sleep(0.01 * (5 - i % 5))
        return i

    assert list(in_order(slow, iter(range(20)), 4)) == list(range(20))
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda i: 1 // (i - 3), range(9), 2))


def test_splicing() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        text = rng.integers(97, 123, 40, dtype=np.uint8)
        cuts = np.sort(rng.choice(41, 6, replace=False))
        begin, end = cuts[::2], cuts[1::2]
        labels, codes = [b"", b"X", b"YYY"], rng.integers(0, 3, 3)
        parts, at = [], 0
        for a, b, c in zip(begin, end, codes, strict=True):
            parts += [text[at:a].tobytes(), labels[c]]
            at = b
        assert spliced(text, begin, end, codes, labels) == b"".join([*parts, text[at:].tobytes()])


def test_templates_of_crfpp_and_pruning(spom: Command, here: Path, tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.write_text("U00:%x[0,0]\nU01:%x[-1,0]\nU02:%x[1,0]\nU03:%x[0,1]\nU04:%x[-1,0]/%x[0,0]\nB\n")
    words = ["train", "tagger", "--train", here / "train.txt", "--dev", here / "test.txt", "--model", tmp_path / "m"]
    found = spom.well(*words, "--templates", template, "--prune", "3", "--json").json
    assert found["blocks_kept"] == 3
    assert found["f1"] > 0.85
    run = read_run(tmp_path / "m")
    assert len(run["blocks"]) == 5
    assert "dropped" in run["pruning"]
    assert sum(weight > 0 for weight in run["history"][-1]["block_weights"]) == 3
    assert "switched off" in spom.well("inspect", tmp_path / "m").out
    template.write_text("U00:%x[0,7]\nB\n")
    assert "there is no column 7; there are 2: w, pos" in spom.fails(*words, "--templates", template)
    template.write_text("w[0]\nnothing[0]\n")
    assert "no column 'nothing'" in spom.fails(*words, "--templates", template)
    assert "no set of templates 'magic'" in spom.fails(*words, "--templates", "magic")
    assert "--prune takes" in spom.fails(*words, "--prune", "some")


def test_inspect_a_tagger(spom: Command, here: Path) -> None:
    model = library.load_model(here / "tagger.spom")
    found = spom.well("inspect", here / "tagger.spom", "--json", "--top", "4").json
    assert {block["name"] for block in found["blocks"]} == set(TEMPLATES)
    assert found["labels"] == model.classes_.tolist()
    rows = found["top"]["B-UNIT"]
    label = model.classes_.tolist().index("B-UNIT")
    assert rows[0][1] == pytest.approx(float(model.weights_[:, label].max()))
    assert any("w" in name for name, _ in rows)
    a, b, weight = found["transitions"][0]
    names = model.classes_.tolist()
    assert weight == model.chain_[: len(names)].max() == model.chain_[names.index(a), names.index(b)]
    assert spom.well("inspect", here / "tagger.spom", "--all").out.count("->") > 5
    screen = spom.well("inspect", here / "tagger.spom").out
    assert screen.count("\n") <= 40
    one = spom.well("inspect", here / "tagger.spom", "--label", "B-NAME").out
    assert "B-NAME" in one
    assert "\nB-UNIT\n" not in one
    assert "did you mean 'B-NAME'" in spom.fails("inspect", here / "tagger.spom", "--label", "B-NAMES")
    table = list(csv.reader(io.StringIO(spom.well("inspect", here / "tagger.spom", "--csv").out)))
    assert len(table) == 1 + len(TEMPLATES)


def test_items_of_crfsuite(spom: Command, here: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        sentences = read_conll(here / f"{name}.txt")
        lines = []
        for sentence in sentences:
            for t, (word, _, label) in enumerate(sentence):
                before = sentence[t - 1][0] if t else "<s>"
                lines.append(f"{label}\tw={word}\tb={before}\tlong:{len(word) / 10}")
            lines.append("")
        (tmp_path / f"{name}.items").write_text("\n".join(lines) + "\n")
    words = ["train", "tagger", "--train", tmp_path / "train.items", "--dev", tmp_path / "test.items"]
    assert spom.well(*words, "--model", tmp_path / "m", "--json").json["f1"] > 0.8
    out = spom.well("predict", "--model", tmp_path / "m", tmp_path / "test.items").out
    given = (tmp_path / "test.items").read_text()
    cut = [line.partition("\t")[2] for line in out.splitlines()]
    assert cut == [line.partition("\t")[2] for line in given.splitlines()]
    scores = spom.well("evaluate", "--model", tmp_path / "m", tmp_path / "test.items", "--json").json
    right = [
        a.split("\t")[0] == b.split("\t")[0] for a, b in zip(out.splitlines(), given.splitlines(), strict=True) if a
    ]
    assert np.mean(right) == scores["accuracy"]
    (tmp_path / "bad.items").write_text("B\tw:x\n")
    assert "bad.items, line 1: expected feature:weight" in spom.fails(
        "train", "tagger", "--train", tmp_path / "bad.items", "--model", tmp_path / "n"
    )
    # A tagger of columns cannot tag items.
    error = spom.fails("predict", "--model", here / "tagger.spom", tmp_path / "test.items")
    assert "learnt from conll files; this is items" in error


def test_conllu_for_taggers(spom: Command, here: Path, tmp_path: Path) -> None:
    words = ["train", "tagger", "--train", here / "train.conllu", "--dev", here / "test.conllu"]
    assert spom.well(*words, "--model", tmp_path / "m", "--templates", "pos", "--json").json["accuracy"] == 1.0
    blank = tmp_path / "blank.conllu"
    blank.write_text((here / "test.conllu").read_text().replace("\tNOUN\t", "\t_\t", 7).replace("\tVERB\t", "\tX\t"))
    out = tmp_path / "out.conllu"
    spom.well("predict", "--model", tmp_path / "m", blank, "-o", out)
    assert read_conllu(out).columns.strings("upos") == read_conllu(here / "test.conllu").columns.strings("upos")
    scores = spom.well("evaluate", "--model", tmp_path / "m", here / "test.conllu")
    assert "accuracy 1.0000" in scores.out


def test_a_tagger_that_was_stopped_goes_on_to_the_same_bits(
    spom: Command, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "tagger", "--train", here / "train.txt", "--columns", "w,shelf,label", "--epochs", "5"]
    spom.well(*words, "--model", tmp_path / "whole")
    on_epoch = training.Live.on_epoch

    def interrupted(self: training.Live, info: dict[str, object]) -> bool:
        self.stopping.number = signal.SIGINT if info["epoch"] == 2 else None
        return on_epoch(self, info)

    with monkeypatch.context() as patched:
        patched.setattr(training.Live, "on_epoch", interrupted)
        done = spom(*words, "--model", tmp_path / "parts")
    assert done.status == 130, done.err
    assert library.load_model(tmp_path / "parts").n_epochs_ == 2
    assert (tmp_path / "parts.checkpoint").exists()
    spom.well(*words, "--model", tmp_path / "parts", "--resume")
    ours, theirs = library.load_model(tmp_path / "parts"), library.load_model(tmp_path / "whole")
    np.testing.assert_array_equal(ours.weights_, theirs.weights_)
    np.testing.assert_array_equal(ours.chain_, theirs.chain_)
    assert [entry["epoch"] for entry in read_run(tmp_path / "parts")["history"]] == [1, 2, 3, 4, 5]
    assert not (tmp_path / "parts.checkpoint").exists()


# --- parsers ----------------------------------------------------------------------------------------------


def test_a_parser_from_a_file(spom: Command, here: Path, tmp_path: Path) -> None:
    run = read_run(here / "parser.spom")
    assert run["result"]["uas"] == 1.0
    assert run["result"]["las"] == 1.0
    assert {entry["stage"] for entry in run["history"]} == {"arcs", "relations"}
    example = run["examples"]
    assert example == []  # all sentences are of five words, and six is the least that is shown
    found = spom.well("evaluate", "--model", here / "parser.spom", here / "test.conllu", "--json").json
    assert (found["uas"], found["las"], found["tokens"], found["sentences"]) == (1.0, 1.0, 60, 12)
    assert "without punctuation" in spom.well("evaluate", "--model", here / "parser.spom", here / "test.conllu").out
    given = (here / "test.conllu").read_text()
    bare = tmp_path / "bare.conllu.gz"
    lines = [line.split("\t") for line in given.splitlines()]
    hidden = ["\t".join([*f[:6], "_", "_", *f[8:]]) if len(f) == 10 else f[0] for f in lines]
    bare.write_bytes(gzip.compress("".join(line + "\n" for line in hidden).encode()))
    assert spom.well("predict", "--model", here / "parser.spom", bare).out == given
    only = spom.well("predict", "--model", here / "parser.spom", bare, "--only").out
    assert only == "".join("".join(f"{w[6]}\t{w[7]}\n" for w in tree(i)) + "\n" for i in range(40, 52))
    text = spom.well("inspect", here / "parser.spom").out
    assert "relations: det, nsubj, root, obj" in text


def test_enhanced_dependencies_do_not_outlive_the_trees(spom: Command, here: Path, tmp_path: Path) -> None:
    lines = [line.split("\t") for line in (here / "test.conllu").read_text().splitlines()]
    text = ["\t".join([*f[:8], f"{f[6]}:{f[7]}", f[9]]) if len(f) == 10 else f[0] for f in lines]
    (tmp_path / "deps.conllu").write_text("".join(line + "\n" for line in text))
    out = spom.well("predict", "--model", here / "parser.spom", tmp_path / "deps.conllu").out
    assert out == (here / "test.conllu").read_text()


def test_labels_with_how_sure_the_tagger_is(spom: Command, here: Path) -> None:
    model, test = here / "tagger.spom", here / "test.txt"
    plain = spom.well("predict", "--model", model, test).out.splitlines()
    sure = spom.well("predict", "--model", model, test, "--marginals").out.splitlines()
    assert len(sure) == len(plain)
    assert all(0.0 < float(line.split()[-1]) <= 1.0 for line in sure if line)
    best = spom.well("predict", "--model", model, test, "--k-best", "2").out.split("\n\n")
    assert best[0].startswith("# 1 ")
    assert best[1].startswith("# 2 ")
    scores = [float(part.split()[2]) for part in best[:2]]
    assert scores[0] >= scores[1]
    first = [line.split()[-1] for line in best[0].splitlines()[1:]]
    assert first == [line.split()[-1] for line in plain[: len(first)]]
    assert "'--k-best': 0 is not in the range x>=1" in spom.fails("predict", "--model", model, test, "--k-best", "0")


def test_columns_are_never_taken_by_position_in_silence(spom: Command, tmp_path: Path) -> None:
    train = tmp_path / "train.txt"
    train.write_text("the DT B-NP\ncat NN I-NP\n\na DT B-NP\ndog NN I-NP\n\n" * 10)
    words = ["--columns", "w,pos,chunk", "--label", "pos", "--model", tmp_path / "m", "--quiet"]
    spom.well("train", "tagger", "--train", train, *words)
    (tmp_path / "two.txt").write_text("the DT\ncat NN\n\n")
    assert "--columns NAMES" in spom.fails("predict", "--model", tmp_path / "m", tmp_path / "two.txt")
    (tmp_path / "swapped.txt").write_text("B-NP the\nI-NP cat\n\n")
    given = ["--columns", "chunk,w", "--only"]
    out = spom.well("predict", "--model", tmp_path / "m", tmp_path / "swapped.txt", *given).out
    assert out.split() == ["DT", "NN"]
    error = spom.fails("predict", "--model", tmp_path / "m", tmp_path / "two.txt", "--columns", "w,pos")
    assert "the model needs a column 'chunk'" in error


def test_numbers_that_mean_nothing_are_refused(spom: Command, here: Path, tmp_path: Path) -> None:
    for task, data in (("tagger", "train.txt"), ("parser", "train.conllu")):
        words = ["train", task, "--train", here / data, "--model", tmp_path / "m"]
        assert "is not in the range x>=1" in spom.fails(*words, "--epochs", "0")
        assert "it takes a number of threads" in spom.fails(*words, "--jobs", "0")


def test_names_of_other_tools_are_understood(spom: Command, here: Path, tmp_path: Path) -> None:
    words = ["train", "tagger", "--train", here / "train.txt", "--model", tmp_path / "m"]
    assert "did you mean 'group-lasso'?" in spom.fails(*words, "--penalty", "group_laso")
    assert "conll, conllu, items, crfsuite" in spom.fails(*words, "--format", "excel")


def test_trees_in_the_record() -> None:
    from spom.cli.train_parser import examples
    from spom.data import Treebank

    words = [{"form": f"w{n}", "upos": "X", "head": n, "deprel": "dep"} for n in range(7)]
    gold = Treebank.from_sentences([words, words[:3]])
    found = gold.with_trees(np.where(gold.heads == 0, 0, 1))
    (one,) = examples(gold, found)
    assert one["heads"] == [0, 1, 2, 3, 4, 5, 6]
    assert one["predicted_heads"] == [0, 1, 1, 1, 1, 1, 1]
    assert one["words"][0] == "w0"


def test_a_page_of_each_run(spom: Command, here: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    pytest.importorskip("jinja2")
    for name in ("tagger.spom", "parser.spom.run.json"):
        page = tmp_path / "page.html"
        assert str(page) in spom.well("report", here / name, "-o", page).out
        assert "<html" in page.read_text()[:200].lower()


# --- what bad input gets ----------------------------------------------------------------------------------


def test_bad_sentences_get_one_line(spom: Command, here: Path, tmp_path: Path) -> None:
    def fails(content: str, *more: object, name: str = "bad.txt", task: str = "tagger") -> str:
        path = tmp_path / name
        path.write_text(content)
        error = spom.fails("train", task, "--train", path, "--model", tmp_path / "m", *more)
        assert not (tmp_path / "m").exists()
        return error

    assert "bad.txt, line 2: expected 3 columns, found 2" in fails("a b c\na b\n")
    assert "expected lines of tokens, found none" in fails("")
    assert "found one column" in fails("a\nb\n")
    assert "there is no column 'z'" in fails("a b c\n", "--label", "z")
    assert "expected 2 columns (w, label), found 3" in fails("a b c\n", "--columns", "w,label")
    assert "of another set" in fails("a b c\n", "--dev", here / "test.txt")
    assert "no such file" in fails("a b c\n", "--dev", tmp_path / "none")
    assert "line 1: expected 10 columns" in fails("a b c\n", name="bad.conllu", task="parser")
    assert "expected sentences, found none" in fails("", name="bad.conllu", task="parser")
    loop = as_text([[("1", "a", "a", "X", "X", "_", "1", "dep", "_", "_")]], "\t")
    assert "bad.conllu, line 1" in fails(loop, name="bad.conllu", task="parser")
    assert "no format 'items' here; the formats are: conllu" in fails(
        loop, "--format", "items", name="bad.conllu", task="parser"
    )


def test_sentences_for_another_model(spom: Command, here: Path, tmp_path: Path) -> None:
    four = tmp_path / "four.txt"
    four.write_text("a b c d\n")
    error = spom.fails("predict", "--model", here / "tagger.spom", four)
    assert "four.txt, line 1: expected 2 columns (w, shelf), or one more with labels; found 4" in error
    assert "tagger.spom is a tagger, which takes sentences" in error
    error = spom.fails("predict", "--model", here / "parser.spom", here / "test.txt")
    assert "line 1: expected 10 columns" in error
    assert "parser.spom is a parser" in error
    assert "found none" in spom.fails("predict", "--model", here / "parser.spom", "/dev/null")
    assert "found none" in spom.fails("predict", "--model", here / "tagger.spom", "/dev/null")
    other = tmp_path / "other.txt"
    other.write_text("a 1 X\nb 2 Y\n")
    assert "of another set" in spom.fails("evaluate", "--model", here / "tagger.spom", other)
    raw = (here / "tagger.spom").read_bytes()
    (tmp_path / "cut.spom").write_bytes(raw[:-100])
    assert "only the beginning" in spom.fails("predict", "--model", tmp_path / "cut.spom", here / "test.txt")
    out = tmp_path / "out.txt"
    broken = tmp_path / "broken.txt"
    broken.write_text((here / "test.txt").read_text() + "one two three four\n")
    spom.fails("predict", "--model", here / "tagger.spom", broken, "-o", out)
    assert not out.exists()


def test_a_parser_resumes_to_the_same_file(
    spom: Command, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "parser", "--train", here / "train.conllu", "--set", "min_count=1", "--set", "table_bits=10"]
    words += ["--epochs", 3]
    spom.well(*words, "--model", tmp_path / "whole")
    on_epoch = training.Live.on_epoch

    def interrupted(self: training.Live, info: dict[str, object]) -> bool:
        if info["epoch"] == 2:
            self.stopping.number = signal.SIGTERM
        return on_epoch(self, info)

    state = tmp_path / "state"
    with monkeypatch.context() as patched:
        patched.setattr(training.Live, "on_epoch", interrupted)
        assert spom(*words, "--model", tmp_path / "rest", "--checkpoint", state).status == 143
    assert state.exists()
    spom.well(*words, "--model", tmp_path / "rest", "--checkpoint", state, "--resume")
    assert (tmp_path / "rest").read_bytes() == (tmp_path / "whole").read_bytes()
