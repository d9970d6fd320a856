"""`spom train pipeline`, `predict`, `evaluate --raw`, `inspect`, and input that is no text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spom.cli.main import main
from spom.cli.texts import text_blocks
from spom.data import read_conllu
from spom.data.conllu import conllu_text
from spom.data.surface import Surface
from spom.models.run import read_run
from tests.estimators.test_pipeline import generated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pipeline")
    (path / "train.conllu").write_bytes(generated(150, 0))
    (path / "test.conllu").write_bytes(generated(30, 1))
    (path / "raw.txt").write_text(Surface.of(read_conllu(path / "test.conllu")).text())
    (path / "words.txt").write_text("The\ndogs\nsaw\ncats\n.\n\nThe\nbirds\nsaw\ntrees\n.")
    status = main(["train", "pipeline", "--train", str(path / "train.conllu"), "--model", str(path / "m"), "--quiet"])
    assert status == 0
    return path


def test_raw_text_words_and_trees(folder: Path) -> None:
    for name, format, sentences in (
        ("raw.txt", [], 30),
        ("words.txt", ["--format", "words"], 2),
        ("test.conllu", [], 30),
    ):
        out = folder / f"{name}.out"
        assert main(["predict", "--model", str(folder / "m"), str(folder / name), "-o", str(out), *format]) == 0
        found = read_conllu(out)
        found.check_trees()
        assert len(found) == sentences


STAGES = ("characters", "multiword", "tags", "lemmas", "trees")


def test_evaluate_and_inspect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = str(folder / "test.conllu")
    assert main(["evaluate", "--model", str(folder / "m"), "--raw", test, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert all(
        0.95 < scores[name] <= 1.0 for name in ["words", "sentences", "upos", "xpos", "feats", "lemmas", "uas", "las"]
    )
    assert main(["inspect", str(folder / "m")]) == 0
    shown = capsys.readouterr().out
    stages = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert [name for name in stages if name in STAGES] == list(STAGES)
    assert shown.startswith(str(folder / "m"))


def test_words_are_written_as_valid_sentences(folder: Path) -> None:
    out = folder / "words.out"
    command = ["predict", "--model", str(folder / "m"), str(folder / "words.txt"), "-o", str(out), "--format", "words"]
    assert main(command) == 0
    lines = out.read_text().splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        *("# sent_id = 1", "# text = The dogs saw cats .", "# sent_id = 2", "# text = The birds saw trees ."),
    ]
    validator = pytest.importorskip("udtools.validator")
    state = validator.Validator(lang="en", level=2).validate_file(str(out))
    assert state.passed(), str(state.error_counter)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"The dogs \xff saw", "byte 0xff at 9 is not utf-8"),
        *((content, "") for content in (b"", b"\x00 \x07\n", b"x" * 1_000_000, b"dogs " * 600)),
        *((text.encode(), "") for text in ("Собаки видели кошек.", "狗看见了猫。", "הכלבים ראו 🙂\u200d")),
    ],
)
def test_odd_files(folder: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.txt").write_bytes(content)
    out = folder / "odd.out"
    status = main(["predict", "--model", str(folder / "m"), str(folder / "odd.txt"), "-o", str(out)])
    assert status == (2 if message else 0)
    assert message in capsys.readouterr().err
    if not message:
        joined = b"".join(w.encode() for s in read_conllu(out).columns.strings("form") for w in s)
        assert joined == b"".join(content.split())


def test_jobs_write_the_same(folder: Path) -> None:
    # Two blocks of 256 kB, which threads share.
    (folder / "large.txt").write_text((folder / "raw.txt").read_text() * 400)
    for jobs in ("1", "2"):
        out = str(folder / f"large.{jobs}")
        command = ["predict", "--model", str(folder / "m"), str(folder / "large.txt"), "-o", out, "--jobs", jobs]
        assert main(command) == 0
    assert (folder / "large.1").read_bytes() == (folder / "large.2").read_bytes()
    assert (folder / "large.txt").stat().st_size > 1 << 18


def test_size_and_pruning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, small = str(folder / "train.conllu"), folder / "small"
    limit = int(0.9 * (folder / "m").stat().st_size)
    options = ["--dev", str(folder / "test.conllu"), "--size", str(limit), "--prune", "auto", "--quiet"]
    assert main(["train", "pipeline", "--train", train, "--model", str(small), *options]) == 0
    assert small.stat().st_size <= limit
    # The report page draws trees of the dev data, and says which templates are kept.
    record = read_run(small)
    assert all(f"{stage}: " in record["pruning"] for stage in ("tags", "lemmas"))
    trees = record["examples"]
    assert trees
    assert all(len(tree["words"]) == len(tree["predicted_heads"]) for tree in trees)
    assert main(["report", str(small), "-o", str(folder / "page.html")]) == 0
    page = (folder / "page.html").read_text()
    assert "tags: " in page
    assert 'class="tree"' in page
    capsys.readouterr()
    assert main(["evaluate", "--model", str(small), "--raw", str(folder / "test.conllu"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["las"] > 0.95
    counts = []
    for model in (small, folder / "m"):
        assert main(["inspect", str(model), "--json"]) == 0
        counts.append({stage: len(names) for stage, names in json.loads(capsys.readouterr().out)["templates"].items()})
    assert 0 < counts[0]["tags"] < counts[1]["tags"]
    assert 0 < counts[0]["lemmas"] < counts[1]["lemmas"]
    assert main(["train", "pipeline", "--train", train, "--model", str(small), "--size", "little", "--quiet"]) != 0
    assert "number of bytes" in capsys.readouterr().err


def test_without_trees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, model = folder / "tags.conllu", folder / "tags.spom"
    train.write_bytes(conllu_text(read_conllu(folder / "train.conllu").without_trees()))
    command = ["train", "pipeline", "--train", str(train), "--model", str(model), "--quiet"]
    assert main(command) == 2
    assert "tags.conllu: no word has a HEAD" in capsys.readouterr().err
    assert not model.exists()
    assert main([*command, "--set", "trees=false"]) == 0
    assert main(["evaluate", "--model", str(model), "--raw", str(train), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["upos"] > 0.95
    assert "las" not in scores
    assert main(["inspect", str(model)]) == 0
    shown = capsys.readouterr().out
    assert "size by stage" in shown
    assert "tags.values" not in shown
    assert main(["inspect", str(model), "--all"]) == 0
    assert "tags.values" in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blocks_of_text_end_with_a_paragraph(end: str, tmp_path: Path) -> None:
    paragraph = f"one two{end}" * 9 + f"three.{end}{end}"
    path = tmp_path / "long.txt"
    path.write_bytes(paragraph.encode() * 9_000)
    blocks = list(text_blocks(str(path)))
    assert len(blocks) > 1
    assert "".join(blocks) == paragraph * 9_000
    assert all(block.endswith(paragraph) for block in blocks)
