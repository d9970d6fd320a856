"""`spom demo`: a demonstration of about a minute, on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spom.cli import options
from spom.cli.options import option, takes

OPTIONS = {
    "quick": option("--quick", bool, False, "Smaller data: a few seconds."),
    "folder": option("--folder DIR", Path | None, None, "Keep the generated sentences and the model here."),
    "page": option("--page F", Path, Path("spom-demo.html"), "Where to write the page of the tagger's run."),
    "seed": options.SEED,
    "json": options.JSON,
    "debug": options.DEBUG,
}


@takes(OPTIONS)
def demo(o: dict[str, Any]) -> None:
    """Show the whole idea in about a minute, on data that needs no download.

    First, words of handwritten digits, decoded by a chain: which of six kernels is right? Then ingredients of made-up
    recipes: which of two dozen templates does a tagger need? Both are learnt together with the weights. Last, raw text
    to trees, learnt from a generated treebank.

    \b
    Examples:
      spom demo
      spom demo --quick --folder demo
    """
    say = (lambda text="": None) if o["json"] else _say
    found = show(o["quick"], o["folder"], o["page"], o["seed"], say)
    if o["json"]:
        options.print_json(found)


def _say(text: str = "") -> None:
    print(text, flush=True)


def show(
    quick: bool = False, folder: Path | None = None, page: Path | None = None, seed: int = 0, say: Any = _say
) -> dict[str, Any]:
    """Run all parts in one thread, and return their results as plain values."""
    import time

    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # threadpoolctl has no types

    from spom.cli import demo_ingredients, demo_trees, demo_words

    begin = time.perf_counter()
    say("spom: learn the weights and, at the same time, which kernels, templates and features they need.")
    with threadpool_limits(1):
        words = demo_words.show(quick, seed, say)
        tagger = demo_ingredients.show(quick, seed, folder, page, say)
        trees = demo_trees.show(quick, seed, folder, say)
    seconds = time.perf_counter() - begin
    say(f"\nDone in {seconds:.0f} s. To try next:")
    for line in _next(tagger):
        say(f"  {line}")
    return {"words": words, "ingredients": tagger, "trees": trees, "seconds": seconds}


def _next(tagger: dict[str, Any]) -> list[str]:
    ideas = [
        ("spom demo --folder demo", "keep the sentences and the model, to play with"),
        ("spom data fetch conll2000", "real sentences; then spom train tagger --train ... --prune auto"),
        ("spom train classifier --help", "the same for vectors: CSV, Parquet, svmlight"),
    ]
    if tagger["folder"]:
        ideas[0] = (f"spom inspect {tagger['folder']}/tagger.spom", "its templates, features and transitions")
    return [f"{command:34}{what}" for command, what in ideas]
