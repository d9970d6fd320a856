"""`spom train parser` and `spom train pipeline`: models learnt from a treebank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spom.cli import options
from spom.cli.options import FILES, LEARNING, PRUNE, RUNNING, TREES, format_of, given, names_of, option, takes
from spom.errors import DataError, Unsupported

if TYPE_CHECKING:
    from spom.cli.training import Run

# The number of sentences of the dev data whose gold and predicted trees the record keeps.
EXAMPLES = 8

PARSING = {
    "labels": option("--labels/--no-labels", bool, True, "Learn relations too."),
    "projective": option(
        "--projective/--all-trees",
        bool | None,
        None,
        "Trees without crossing arcs only, or all trees. Default: by the treebank.",
    ),
    "second_stage": option("--second-stage", bool, False, "A second parser that sees the tree of the first one."),
    "order": option("--order", int, 1, "2 also scores siblings and grandparents, in projective trees.", min=1, max=2),
}
SIZES = {
    "size": option("--size SIZE", str | None, None, "Largest size of the model, such as 5MB or 800kB."),
    "seed": options.SEED,
    "settings": options.SETTINGS,
}


@takes(FILES, names_of("parser"), PRUNE, PARSING, LEARNING, RUNNING)
def parser(o: dict[str, Any]) -> None:
    """Learn a dependency parser from a treebank in CoNLL-U, and which templates it needs.

    Ctrl-C and SIGTERM stop after the current epoch and keep the best model so far; --resume continues the run.

    \b
    Examples:
      spom train parser --train en-train.conllu.gz --dev en-dev.conllu.gz --model parser.spom
      spom train parser --train en-train.conllu.gz --model parser.spom --templates large --prune auto
      spom train parser --train en-train.conllu.gz --model parser.spom --projective --no-labels --epochs 4

    Losses are mira (default), hinge, perceptron and log. There is no penalty by default: --penalty group-lasso
    switches off the templates that the treebank does not need, and --penalty l1 single weights, with a strength
    from its size.
    """
    from spom import DependencyParser
    from spom.cli.scores import tree_scores
    from spom.cli.training import Run

    format_of(o["train"], o["format"], TREES)
    with Run("parser", o, "words/s") as run:
        model = DependencyParser(**_parameters(o), callbacks=[run.live])
        options.set_parameters(model, o["settings"])
        run.live.total = model.epochs
        bank, dev = _read(run)
        run.fit(model, bank, None, dev)
        run.learnt(model.history_, blocks=list(model.blocks_), block_weights=model.block_weights_)
        pruning = None if model.pruning_ is None else model.pruning_.table()
        scores, shown = {}, None
        if dev is not None:
            found = model.predict(dev)
            scores, shown = tree_scores(dev, found).flat, examples(dev, found)
        run.finish(model, {"format": "conllu"}, scores, examples=shown, pruning=pruning)


@takes(FILES, names_of("pipeline"), PRUNE, SIZES, RUNNING)
def pipeline(o: dict[str, Any]) -> None:
    """Learn a pipeline from raw text to trees from a treebank in CoNLL-U.

    Tokens and sentences, tags, lemmas and trees are learnt from one treebank, and written as one model. `spom predict`
    then takes raw text. --prune auto keeps the templates of tags, lemmas and trees that held-out sentences need (a
    number or a share applies to the parser only); --size drops small weights of all stages.

    \b
    Examples:
      spom train pipeline --train en_ewt-ud-train.conllu.gz --dev en_ewt-ud-dev.conllu.gz --model english.spom
      spom train pipeline --train en_ewt-ud-train.conllu.gz --model small.spom --size 5MB
    """
    from spom import Pipeline
    from spom.cli.scores import pipeline_scores
    from spom.cli.training import Run

    format_of(o["train"], o["format"], TREES)
    if o["resume"] or o["checkpoint"] is not None:
        raise Unsupported("a pipeline keeps no checkpoints: leave --checkpoint and --resume out")
    with Run("pipeline", o, shards=False) as run:
        same: dict[str, Any] = {"size": o["size"], "random_state": o["seed"], "n_jobs": o["jobs"]}
        model = Pipeline(prune=options.pruning_of(o["prune"]), verbose=0 if o["quiet"] else 1, **same)
        options.set_parameters(model, o["settings"])
        bank, dev = _read(run)
        model.fit(bank, dev=dev)
        result = {} if dev is None else pipeline_scores(model, dev, raw=True).flat
        trees = [] if dev is None or not model.trees else examples(dev, model.predict(dev.without_trees()))
        told = [part.table() if name == "trees" else str(part) for name, part in model.pruning_.items()]
        run.finish(model, {"format": "conllu"}, result, examples=trees, pruning="\n\n".join(told) or None)


def _read(run: Run) -> tuple[Any, Any]:
    """Read the treebanks to learn from and to be scored on; None for one that was not given."""
    from spom.cli.sentences import read_trees

    banks: dict[str, Any] = {"dev": None}
    for part in ("train", "dev"):
        path = run.options[part]
        if path is not None:
            bank = banks[part] = read_trees(path)
            run.data(part, path, "conllu", sentences=len(bank), tokens=bank.n_words)
    return banks["train"], banks["dev"]


def _parameters(o: dict[str, Any]) -> dict[str, Any]:
    from spom.penalties import GroupLasso

    return {
        **{"random_state": o["seed"], "verbose": 0, "n_jobs": o["jobs"]},
        **{name: o[name] for name in ("labels", "second_stage", "order")},
        "projective": "auto" if o["projective"] is None else o["projective"],
        "prune": options.pruning_of(o["prune"]),
        "penalty": options.penalty_of(o["penalty"], o["strength"], GroupLasso()),
        **({} if o["templates"] is None else {"templates": _templates(o["templates"])}),
        **given(o, "loss", "epochs"),
    }


def _templates(text: str) -> Any:
    """Return the name of a set of templates, or the templates in a file, one per line."""
    path = Path(text)
    if not path.is_file():
        return text
    lines = [line.strip() for line in path.read_text().splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise DataError("expected templates, found none", text)
    return found


def examples(gold: Any, found: Any) -> list[dict[str, Any]]:
    """Return a few sentences that are neither very short nor very long, with gold and predicted trees."""
    from dataclasses import asdict

    import numpy as np

    from spom.report.fitted import LONGEST, SHORTEST, compared

    sizes = np.diff(gold.offsets)
    fit = np.flatnonzero((sizes >= SHORTEST) & (sizes <= LONGEST))[:EXAMPLES]
    return [asdict(compared(gold[i], found[i])) for i in fit.tolist()]
