"""From a file of sentences to the page, by the command alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spom.cli.main import main
from spom.report.runs import contents_from_run

TAGGED = "the DT B-NP\ncat NN I-NP\nsleeps VBZ B-VP\n\ndogs NNS B-NP\nbark VBP B-VP\n\n"
ROWS = ("the DET 2 det", "dog NOUN 3 nsubj", "saw VERB 0 root", "a DET 5 det", "cat NOUN 3 obj", ". PUNCT 3 punct")


def conllu() -> str:
    lines = []
    for number, row in enumerate(ROWS, 1):
        form, upos, head, relation = row.split()
        lines.append(f"{number}\t{form}\t{form}\t{upos}\t_\t_\t{head}\t{relation}\t_\t_\n")
    return "".join(lines) + "\n"


CSV = "a,b,label\n" + "".join(f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(42))
CASES = {
    "tagger": (TAGGED * 8, ["run", "blocks", "features", "confusion", "transitions", "facts"]),
    "parser": (conllu() * 4, ["run", "blocks", "sentences", "facts"]),
    "classifier": (CSV, ["run", "blocks", "features", "confusion", "facts"]),
}
ENDINGS = {"tagger": "txt", "parser": "conllu", "classifier": "csv"}


@pytest.mark.parametrize("task", CASES)
def test_every_section_that_a_run_can_have(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, sections = CASES[task]
    data, model, page = tmp_path / f"data.{ENDINGS[task]}", tmp_path / "m.spom", tmp_path / "page.html"
    data.write_text(text)
    words = ["train", task, "--train", data, "--dev", data, "--model", model, "--epochs", "3", "--quiet"]
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    assert main(["report", str(model), "-o", str(page)]) == 0, capsys.readouterr().err
    html = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', html) == sections
    found = contents_from_run(model)
    assert found.notes == []
    assert len(found.paths.epochs) == 3
    # The model is that of the best epoch, the first of several.
    scores = [epoch.dev for epoch in found.epochs if epoch.dev is not None]
    best = found.paths.weights[scores.index(max(scores))]
    assert [b.weight for b in found.blocks] == pytest.approx(best, abs=1e-6)
    assert str(tmp_path) not in html.replace(str(data), "").replace(str(model), "")


def test_pruned_templates_are_on_the_page(tmp_path: Path) -> None:
    data, model = tmp_path / "data.txt", tmp_path / "m.spom"
    data.write_text(TAGGED * 8)
    words = ["train", "tagger", "--train", data, "--model", model, "--epochs", "2", "--prune", "3", "--quiet"]
    assert main([str(word) for word in words]) == 0
    found = contents_from_run(model)
    assert found.kept_blocks == 3 < found.total_blocks == len(found.paths.names)
    assert "dropped" in found.pruning
