"""The second part of the demonstration: a tagger of ingredients that chooses its templates, run by the command."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spom import load_model
from spom.cli.demo_words import heading
from spom.cli.summaries import bars
from spom.cli.training import size
from spom.cli.warmup import compiling
from spom.data import read_conll
from spom.data.generated import ingredients
from spom.errors import SpomError
from spom.models.run import read_run

# Some of these are needed, some are redundant, and `shelf` is a random letter.
TEMPLATES = [
    *(f"w[{k}]" for k in (-2, -1, 0, 1, 2)),
    *("w[-1]|w[0]", "w[0]|w[1]", "w[-2]|w[-1]", "w[1]|w[2]"),
    *(f"w.suffix{k}[0]" for k in (1, 2, 3)),
    *(f"w.prefix{k}[0]" for k in (1, 2, 3)),
    *("w.shape[0]", "w.shape[-1]", "w.shape[1]", "w.length[0]", "w.digit[0]"),
    *("shelf[-1]", "shelf[0]", "shelf[1]", "shelf[0]|shelf[1]"),
]


def show(quick: bool, seed: int, folder: Path | None, page: Path | None, say: Callable[..., None]) -> dict[str, Any]:
    """Compare the word alone, all templates, and the chosen templates."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return _show(quick, seed, folder, str(folder), page, say)
    with tempfile.TemporaryDirectory() as made:
        return _show(quick, seed, Path(made), "", page, say)


def _show(
    quick: bool, seed: int, folder: Path, kept: str, page: Path | None, say: Callable[..., None]
) -> dict[str, Any]:
    say(heading("2. Which templates does a tagger of ingredients need?"))
    # The epoch is chosen on separate lines, not on the test lines.
    counts = {"train": 150 if quick else 1500, "dev": 50 if quick else 300, "test": 100 if quick else 1000}
    for k, (name, count) in enumerate(counts.items()):
        _write(folder / f"{name}.txt", ingredients(count, seed=3 * seed + k))
    (folder / "templates.txt").write_text("\n".join(TEMPLATES) + "\n")
    say(f"{counts['train']:,} generated lines of recipes, with one column of random letters:\n")
    for line in (folder / "train.txt").read_text().split("\n\n")[0].splitlines():
        say(f"    {line}")
    with compiling():
        _warm(folder, seed)
    say(f"\n{'':34}{'F1':>8}{'kept':>10}{'weights':>9}{'size':>9}{'seconds':>9}")
    rows = {}
    for name, more in (
        ("word alone", ["--templates", str(folder / "word.txt")]),
        (f"all {len(TEMPLATES)} templates", ["--templates", str(folder / "templates.txt")]),
        ("--prune auto", ["--templates", str(folder / "templates.txt"), "--prune", "auto"]),
        ("--prune 8", ["--templates", str(folder / "templates.txt"), "--prune", "8"]),
    ):
        (folder / "word.txt").write_text("w[0]\n")
        run = rows[name] = _train(folder, seed, more)
        share = f"{run['blocks_kept']} of {run['templates']}"
        cells = f"{run['nonzeros']:>9,}{size(run['bytes']):>9}{run['seconds']:9.2f}"
        say(f"{name:34}{run['f1']:8.4f}{share:>10}{cells}")
    chosen = read_run(folder / "tagger.spom")
    _bars(chosen, say)
    written = _page(folder / "tagger.spom", page, say)
    return {"rows": rows, "blocks": dict(zip(chosen["blocks"], chosen["block_weights"], strict=True)), "page": written,
            "folder": kept}  # fmt: skip


def _write(path: Path, columns: Any) -> None:
    text = "".join("".join(" ".join(token) + "\n" for token in sentence) + "\n" for sentence in columns)
    path.write_text(text)


def _warm(folder: Path, seed: int) -> None:
    """Run everything once on a few lines, so that later times include no compilation."""
    few = folder / "few.txt"
    _write(few, ingredients(40, seed=seed))
    for prune in ([], ["--prune", "auto"], ["--prune", "8"]):
        _train(folder, seed, ["--templates", str(folder / "templates.txt"), *prune], few)
    few.unlink()


def _train(folder: Path, seed: int, more: list[str], train: Path | None = None) -> dict[str, Any]:
    """Run `spom train tagger` once, as on the command line."""
    from spom.cli.main import main

    files = ["--train", str(train or folder / "train.txt"), "--dev", str(folder / "dev.txt")]
    words = ["train", "tagger", *files, "--model", str(folder / "tagger.spom"), "--columns", "w,shelf,label", "--quiet"]
    status = main([*words, "--seed", str(seed), *more])
    if status:
        raise SpomError(f"spom {' '.join(words)} ended with status {status}")
    record = read_run(folder / "tagger.spom")
    found = {key: record["result"][key] for key in ("blocks_kept", "nonzeros", "bytes", "seconds")}
    test = read_conll(folder / "test.txt", names=["w", "shelf", "label"])
    return {**found, "templates": len(record["blocks"]), "f1": load_model(folder / "tagger.spom").score(test)}


def _bars(record: dict[str, Any], say: Callable[..., None]) -> None:
    weights = np.array(record["block_weights"])
    order = np.argsort(-weights, kind="stable")
    shown = [{"name": record["blocks"][m], "weight": float(weights[m])} for m in order if weights[m] > 0]
    say("\nThe templates that were kept, and their weights:\n")
    say("\n".join(bars(shown)))
    off = [record["blocks"][m] for m in order if weights[m] == 0]
    if off:
        say(f"\nSwitched off: {', '.join(off)}")


def _page(model: Path, page: Path | None, say: Callable[..., None]) -> str | None:
    """Write the page of the run if its dependencies are installed; without them the demonstration continues."""
    if page is None:
        return None
    from spom.cli.report import page_writer

    try:
        page_writer()(model, page)
    except SpomError as error:
        say(f"\nThere is no page of this run: {error}")
        return None
    say(f"\nThe run of this tagger as a page: {page}")
    return str(page)
