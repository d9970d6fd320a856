"""`spom train parser` and `spom train pipeline`: what is learnt from a treebank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spom.cli import options
from spom.cli.options import (
    CHOICE,
    FILES,
    LEARNING,
    RUNNING,
    format_option,
    names_of,
    penalty_of,
    pruning_of,
    takes,
)
from spom.errors import DataError, Unsupported

if TYPE_CHECKING:
    from spom.cli.training import Run

# Sentences of the dev data whose trees, gold and predicted, the record keeps.
EXAMPLES = 8
_LONGEST = 25

Labels = Annotated[bool, typer.Option("--labels/--no-labels", help="Learn relations too.")]
Projective = Annotated[
    bool | None,
    typer.Option(
        "--projective/--all-trees", help="Trees without crossing arcs only, or all; by the treebank if left out."
    ),
]
SecondStage = Annotated[
    bool, typer.Option("--second-stage", help="A second parser that sees the tree of the first one.")
]
Order = Annotated[
    int, typer.Option("--order", min=1, max=2, help="2: siblings and grandparents score too, in projective trees.")
]
Size = Annotated[
    str | None, typer.Option("--size", metavar="SIZE", help="The best model within this size, such as 5MB or 800kB.")
]
TREES = {
    "labels": (Labels, True),
    "projective": (Projective, None),
    "second_stage": (SecondStage, False),
    "order": (Order, 1),
}
SIZES = {"size": (Size, None), "seed": (options.Seed, 0), "settings": (options.Settings, None)}


@takes(FILES, names_of("parser"), CHOICE, TREES, LEARNING, RUNNING)
def parser(o: dict[str, Any]) -> None:
    """Learn a dependency parser from a treebank in CoNLL-U, and which templates it needs.

    Ctrl-C and SIGTERM stop after the epoch that is under way and keep the best model so far; --resume continues.

    \b
    Examples:
      spom train parser --train en-train.conllu.gz --dev en-dev.conllu.gz --model parser.spom
      spom train parser --train en-train.conllu.gz --model parser.spom --templates large --prune auto
      spom train parser --train en-train.conllu.gz --model parser.spom --projective --no-labels --epochs 4

    Losses are mira (default), hinge, perceptron and log. There is no penalty unless one is asked for: --penalty
    group-lasso switches off the templates that the treebank does not need, --penalty l1 single weights, with a strength
    from its size.
    """
    from spom import DependencyParser
    from spom.cli.scores import tree_scores
    from spom.cli.training import Run

    if o["format"] not in (None, "conllu"):
        raise Unsupported(f"parsers take CoNLL-U, not {o['format']!r}")
    with Run("parser", o, "words/s") as run:
        model = DependencyParser(**_parameters(o), callbacks=[run.live])
        model.set_params(**options.parsed(o["settings"]))
        run.live.total = model.epochs
        bank, dev = _read(run)
        run.fit(model, bank, None, dev)
        run.history(model.history_)
        run.blocks(list(model.blocks_), model.block_weights_)
        pruning = None if model.pruning_ is None else model.pruning_.table()
        if dev is None:
            run.finish(model, {"format": "conllu"}, {}, pruning=pruning)
        else:
            found = model.predict(dev)
            scores, shown = tree_scores(dev, found).flat, examples(dev, found)
            run.finish(model, {"format": "conllu"}, scores, examples=shown, pruning=pruning)


@takes(FILES, {"format": (format_option("pipeline"), None)}, CHOICE, SIZES, RUNNING)
def pipeline(o: dict[str, Any]) -> None:
    """Learn a pipeline from raw text to trees from a treebank in CoNLL-U.

    Tokens and sentences, tags, lemmas and trees are learnt from one treebank, and written as one model. `spom predict`
    then takes raw text. --prune auto keeps the templates of tags, lemmas and trees that held-out sentences need (a
    number or a share is the parser's); --size leaves small weights of all stages out.

    \b
    Examples:
      spom train pipeline --train en_ewt-ud-train.conllu.gz --dev en_ewt-ud-dev.conllu.gz --model english.spom
      spom train pipeline --train en_ewt-ud-train.conllu.gz --model small.spom --size 5MB
    """
    from spom import Pipeline
    from spom.cli.scores import pipeline_scores
    from spom.cli.training import Run

    if o["format"] not in (None, "conllu"):
        raise Unsupported(f"pipelines are learnt from CoNLL-U, not {o['format']!r}")
    if o["resume"] or o["checkpoint"] is not None:
        raise Unsupported("a pipeline keeps no checkpoints: leave --checkpoint and --resume out")
    with Run("pipeline", o, shards=False) as run:
        same: dict[str, Any] = {"size": o["size"], "random_state": o["seed"], "n_jobs": o["jobs"]}
        model = Pipeline(prune=pruning_of(o["prune"]), verbose=0 if o["quiet"] else 1, **same)
        model.set_params(**options.parsed(o["settings"]))
        bank, dev = _read(run)
        model.fit(bank, dev=dev)
        result = {} if dev is None else pipeline_scores(model, dev, raw=True).flat
        trees = [] if dev is None or not model.trees else examples(dev, model.predict(dev.without_trees()))
        told = [part.table() if name == "trees" else str(part) for name, part in model.pruning_.items()]
        run.finish(model, {"format": "conllu"}, result, examples=trees, pruning="\n\n".join(told) or None)


def _read(run: Run) -> tuple[Any, Any]:
    """The treebanks to learn from and to be scored on; None for one that was not named."""
    from spom.data.conllu import read_conllu

    banks: dict[str, Any] = {"dev": None}
    for part in ("train", "dev"):
        path = run.options[part]
        if path is not None:
            bank = banks[part] = read_conllu(path)
            if len(bank) == 0:
                raise DataError("expected sentences, found none", path)
            run.data(part, path, "conllu", sentences=len(bank), tokens=bank.n_words)
    return banks["train"], banks["dev"]


def _parameters(o: dict[str, Any]) -> dict[str, Any]:
    from spom.penalties import GroupLasso

    found: dict[str, Any] = {"random_state": o["seed"], "verbose": 0, "n_jobs": o["jobs"]}
    found["labels"], found["second_stage"], found["order"] = o["labels"], o["second_stage"], o["order"]
    found["projective"] = "auto" if o["projective"] is None else o["projective"]
    found["prune"] = pruning_of(o["prune"])
    if o["penalty"] == "none":
        found["penalty"] = None
    elif o["strength"] is not None:
        found["penalty"] = penalty_of(o["penalty"], o["strength"], None, GroupLasso(1.0))
    elif o["penalty"] is not None:
        # The parser chooses the strength of a name.
        found["penalty"] = o["penalty"]
    if o["templates"] is not None:
        found["templates"] = _templates(o["templates"])
    for name in ("loss", "epochs"):
        if o[name] is not None:
            found[name] = o[name]
    return found


def _templates(text: str) -> Any:
    """A set by its name, or the lines of a file."""
    path = Path(text)
    if not path.is_file():
        return text
    lines = [line.strip() for line in path.read_text().splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise DataError("expected templates, found none", text)
    return found


def examples(gold: Any, found: Any) -> list[dict[str, Any]]:
    """A few sentences that are neither very short nor very long, with both trees."""
    picked = []
    for i in range(len(gold)):
        words = gold[i]
        if 6 <= len(words) <= _LONGEST:
            guess = found[i]
            picked.append(
                {
                    "words": [word[1] for word in words],
                    "tags": [word[3] for word in words],
                    "heads": [int(word[6]) for word in words],
                    "relations": [word[7] for word in words],
                    "predicted_heads": [int(word[6]) for word in guess],
                    "predicted_relations": [word[7] for word in guess],
                }
            )
        if len(picked) == EXAMPLES:
            break
    return picked
