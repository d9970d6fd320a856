"""What the command says of itself: names and defaults in help and completion, stages, and the epoch that was kept."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import spom as library
from spom.cli import options as names
from spom.cli.training import Live, kept_epochs
from spom.core import registry
from spom.features.arc_sets import SETS as ARC_SETS
from spom.features.ready import SETS
from tests.cli.common import Command, process

TASKS = ("tagger", "parser", "classifier", "regressor")
# Penalties that are made of others.
CALCULUS = {"conjugate", "moreau-envelope", "scaled", "separable-sum", "sum", "translated", "zero"}


def flat(text: str) -> str:
    """Help on one line, with words that were broken at a hyphen in one piece."""
    return re.sub(r"- (?=[a-z])", "-", " ".join(text.split()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a small file for each task."""
    path, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    words = {"dog": "NOUN", "cat": "NOUN", "runs": "VERB", "sees": "VERB", "the": "DET", "a": "DET"}
    tagged, trees = [], []
    for _ in range(25):
        noun, verb, other = rng.choice(["dog", "cat"]), rng.choice(["runs", "sees"]), rng.choice(["the", "a"])
        sentence = [(other, 2, "det"), (noun, 3, "nsubj"), (verb, 0, "root")]
        tagged.append("".join(f"{w} {w[0]} {words[w]}\n" for w, _, _ in sentence))
        trees.append(
            "".join(f"{i}\t{w}\t{w}\t{words[w]}\t_\t_\t{h}\t{r}\t_\t_\n" for i, (w, h, r) in enumerate(sentence, 1))
        )
    (path / "tagger").write_text("\n".join(tagged) + "\n")
    (path / "parser.conllu").write_text("\n".join(trees) + "\n")
    X = rng.standard_normal((40, 4))
    for task, y in (("classifier", np.where(X[:, 0] > 0, "yes", "no")), ("regressor", X[:, 0] - X[:, 1])):
        lines = [",".join([*map(str, row), str(t)]) for row, t in zip(X.tolist(), y.tolist(), strict=True)]
        (path / f"{task}.csv").write_text("a,b,c,d,y\n" + "\n".join(lines) + "\n")
    return path


def file_of(folder: Path, task: str) -> Path:
    return next(folder.glob(f"{task}*"))


# --- names and defaults --------------------------------------------------------------------------------------


def test_all_penalties_losses_and_sets_are_named_somewhere() -> None:
    there = {entry.name for entry in registry.entries("penalty")} - CALCULUS
    assert set(names.PENALTIES["classifier"]) == set(names.PENALTIES["regressor"]) == there
    losses = {entry.name for entry in registry.entries("loss") if not entry.name.startswith("multiclass")}
    assert losses == {*names.LOSSES["classifier"], *names.LOSSES["regressor"]}
    assert set(names.TEMPLATES["tagger"]) == set(SETS)
    assert set(names.TEMPLATES["parser"]) == set(ARC_SETS)


@pytest.mark.parametrize("task", TASKS)
def test_help_has_names_and_defaults(spom: Command, task: str) -> None:
    text = flat(spom.well("train", task, "--help").out)
    for listed in (names.PENALTIES[task], names.LOSSES[task], names.FORMATS[task], names.TEMPLATES.get(task, ())):
        assert ", ".join(listed) in text
    loss = names.DEFAULT_LOSS.get(task, names.LOSSES[task][0])
    for default in (names.DEFAULT_PENALTY[task], loss, names.EPOCHS[task]):
        assert f"Default: {default}." in text
    assert text.count("Default: ") + text.count("[default: ") >= 8


def test_the_defaults_that_help_names_are_those_of_the_estimators() -> None:
    made = {
        "parser": library.DependencyParser(),
        "classifier": library.OnlineClassifier(),
        "regressor": library.OnlineRegressor(),
    }
    assert names.EPOCHS["parser"] == f"{made['parser'].epochs} for arcs, {made['parser'].label_epochs} for relations"
    rows, few = np.zeros((1001, 1)), np.zeros((1000, 1))
    passes = [made["classifier"]._passes(X, classes) for X, classes in ((few, 3), (rows, 2), (rows, 3))]
    more = "for more than 1,000 dense rows of more than two classes"
    assert names.EPOCHS["classifier"] == f"{passes[0]}, or {passes[2]} {more}"
    assert names.EPOCHS["regressor"] == str(passes[1]) == str(made["regressor"]._passes(rows))
    assert made["parser"].loss == names.LOSSES["parser"][0]
    assert made["parser"].penalty == "auto"
    assert made["parser"].templates == names.DEFAULT_TEMPLATES["parser"]
    X = np.random.default_rng(0).standard_normal((60, 3))
    fitted = library.OnlineClassifier(random_state=0, verbose=0).fit(X, X[:, 0] > 0)
    assert type(fitted.penalty_).__name__ == "SquaredL2"
    tagger = library.SequenceTagger(verbose=0).fit([["a", "b"]] * 5, [["x", "y"]] * 5)
    assert tagger.loss_ == names.LOSSES["tagger"][0]
    assert type(tagger.penalty_).__name__ == "L1"
    assert (tagger.epochs_, library.SequenceTagger(verbose=0).fit([["a"]] * 900, [["x"], ["y"]] * 450).epochs_) == (
        20,
        6,
    )


@pytest.mark.parametrize(
    ("task", "option", "name"),
    [(t, "--penalty", p) for t in TASKS for p in (*names.PENALTIES[t], "none")]
    + [(t, "--loss", loss) for t in TASKS for loss in names.LOSSES[t]]
    + [(t, "--templates", s) for t in names.TEMPLATES for s in names.TEMPLATES[t]],
)
def test_every_name_in_the_help_works(
    spom: Command, folder: Path, tmp_path: Path, task: str, option: str, name: str
) -> None:
    given = ["--groups", "2"] if "group" in name and task in ("classifier", "regressor") else []
    if name in ("tree-group-lasso", "overlapping-group-lasso", "latent-group-lasso"):
        given = [
            "--set",
            "penalty__groups=[[0, 1], [1, 2, 3]]" if name[0] != "t" else "penalty__groups=[[0, 1], [2, 3]]",
        ]
        given += ["--strength", "0.01", "--solver", "proximal"]
    if name in names.SETS:
        given = [*([] if name == "box" else ["--strength", "2"]), "--solver", "proximal"]
    files = ["--train", file_of(folder, task), "--model", tmp_path / "m.spom"]
    spom.well("train", task, *files, option, name, "--epochs", "2", "--quiet", *given)
    assert (tmp_path / "m.spom").exists()


COMPLETED = [
    ("train tagger --penalty spa", "sparse-mkl"),
    ("train parser --loss mi", "mira"),
    ("train tagger --templates ent", "entities"),
    ("train parser --templates l", "large"),
    ("train classifier --format par", "parquet"),
    ("train classifier --solver pr", "proximal"),
    ("train tagger --constraints BIOE", "BIOES"),
    ("data fetch conll", "conll2000"),
    ("train pars", "parser"),
    ("pred", "predict"),
]


@pytest.mark.parametrize(("words", "wanted"), COMPLETED)
def test_shells_complete_names(words: str, wanted: str) -> None:
    given = f"spom {words}"
    env = {"_SPOM_COMPLETE": "complete_bash", "COMP_WORDS": given, "COMP_CWORD": str(len(given.split()) - 1)}
    assert wanted in process(env=env).stdout.decode().split()


# --- stages and the epoch that was kept ----------------------------------------------------------------------


def test_a_tagger_says_which_epoch_was_kept_and_its_templates(spom: Command, folder: Path, tmp_path: Path) -> None:
    train = file_of(folder, "tagger")
    done = spom.well("train", "tagger", "--train", train, "--dev", train, "--model", tmp_path / "m.spom")
    assert re.search(
        r"^epoch \d+ of \d+ kept \(dev 1\.0000\): no better score after it, so training stopped early$", done.out, re.M
    )
    assert re.search(
        r"^templates pos.* \(\d+ templates\); loss softmax-margin with a margin of 9\.47; penal", done.out, re.M
    )


def test_a_parser_names_its_stages(spom: Command, folder: Path, tmp_path: Path) -> None:
    train = file_of(folder, "parser")
    files = ["--train", train, "--dev", train, "--model", tmp_path / "m.spom"]
    out = spom.well("train", "parser", *files, "--second-stage", "--epochs", "2").out
    assert re.search(r"^arcs \(heads of words\): epoch \d of 2 kept", out, re.M)
    assert re.search(r"^second stage \(heads again, with the first trees as features\): epoch \d of 2 kept", out, re.M)
    assert re.search(r"^relations \(relations of the trees\): 4 epochs$", out, re.M)
    deep = spom.well("train", "parser", *files, "--order", "2", "--projective", "--epochs", "2").out
    assert re.search(r"^second order \(heads again, by siblings and grandparents too\): epoch \d of 2 kept", deep, re.M)


def test_runs_without_development_data_have_nothing_to_say() -> None:
    assert kept_epochs([{"epoch": 1, "loss": 0.5}], "end") == []
    assert kept_epochs([], "end") == []


@pytest.mark.parametrize("staged", [False, True])
def test_the_live_table_fits_into_eighty_columns(staged: bool) -> None:
    screen = io.StringIO()
    live = Live(10, stream=screen)
    more: dict[str, Any] = {"blocks_kept": 119, "nonzeros": 1_234_567, "per_second": 1_234_567.0, "dev": 0.91234}
    for epoch in range(1, 4):
        live.on_epoch({"epoch": epoch, "loss": 0.123456789, "objective": 0.987654321, **more})
    if staged:
        for row in live.rows[:2]:
            row |= {"stage": "second stage", "objective": row["loss"]}
        live.rows[2] |= {"stage": "relations", "objective": live.rows[2]["loss"]}
    console = Console(file=screen, width=80)
    console.print(live._table())
    shown = screen.getvalue()
    assert "…" not in shown
    assert "1,234,567" in shown
    assert (shown.count("second stage"), shown.count("relations")) == ((1, 1) if staged else (0, 0))
    assert ("time left" in shown) is not staged
    assert max(map(len, shown.splitlines())) <= 80


# --- categories with many values -----------------------------------------------------------------------------


def test_hashed_categories(spom: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    cities = [f"city{i}" for i in range(60)]
    warm = {city: i % 2 == 0 for i, city in enumerate(cities)}
    lines = [f"{c},{rng.normal():.3f},{'yes' if warm[c] else 'no'}" for c in rng.choice(cities, 600)]
    (tmp_path / "t.csv").write_text("city,noise,warm\n" + "\n".join(lines) + "\n")
    files = ["--train", tmp_path / "t.csv", "--model", tmp_path / "m.spom"]
    spom.well("train", "classifier", *files, "--kind", "city=hashed:4096", "--quiet")
    assert spom.well("evaluate", "--model", tmp_path / "m.spom", tmp_path / "t.csv", "--json").json["accuracy"] > 0.95
    model = library.load_model(tmp_path / "m.spom")
    hashed = [name for name in model.feature_names_in_ if name.startswith("city#")]
    assert len(hashed) == 4096
    # A value that was not seen has a feature too, and a missing one.
    (tmp_path / "new.csv").write_text("city,noise\nnowhere,0.1\n,0.1\n")
    assert spom.well("predict", "--model", tmp_path / "m.spom", tmp_path / "new.csv", "--only").out.count("\n") == 2
    for bad in ("hashed:0", "hashed:many", "hash"):
        assert "city" in spom.fails("train", "classifier", *files, "--kind", f"city={bad}")
