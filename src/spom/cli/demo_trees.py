"""The third part of the demonstration: from raw text to trees, learnt from a generated treebank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spom import Pipeline
from spom.cli.demo_words import heading
from spom.cli.warmup import compiling
from spom.data.conllu import parse_conllu
from spom.data.generated_trees import kitchen

TEXT = "Don't grill the small beans! Peel the hot eggs in a pot."


def show(quick: bool, seed: int, folder: Path | None, say: Callable[..., None]) -> dict[str, Any]:
    """Learn a pipeline, score it from raw text, and parse two sentences."""
    say(heading("3. From raw text to trees"))
    count = 150 if quick else 600
    train, test = (parse_conllu(kitchen(n, seed=2 * seed + k).encode()) for k, n in enumerate((count, 100)))
    say(f"{count} generated sentences of recipes with trees; then raw text to parse:")
    with compiling():
        pipeline = Pipeline(random_state=seed, verbose=0).fit(train)
    found = pipeline.predict(TEXT)
    say(f"\n    {TEXT}\n")
    for sentence in found:
        for row in sentence:
            head = sentence[int(row[6]) - 1][1] if row[6] != "0" else ""
            say(f"    {row[1]:10}{row[2]:10}{row[3]:8}{row[7]:8}{head}")
        say("")
    scores = pipeline.evaluate(test)
    say(f"On 100 others: words {scores['words']:.3f}, sentences {scores['sentences']:.3f}, LAS {scores['las']:.3f}.")
    if folder is not None:
        pipeline.save(folder / "pipeline.spom")
        (folder / "trees.html").write_text(f"<!doctype html><meta charset=utf-8>{found._repr_html_()}")
        say(f"The trees are drawn in {folder / 'trees.html'}.")
    return {name: scores[name] for name in ("words", "sentences", "upos", "lemmas", "las")}
