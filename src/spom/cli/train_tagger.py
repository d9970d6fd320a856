"""`spom train tagger`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spom.cli import options
from spom.cli.options import (
    CHOICE,
    FILES,
    LEARNING,
    RUNNING,
    SCHEMES,
    completing,
    names_of,
    penalty_of,
    pruning_of,
    takes,
)
from spom.errors import DataError

if TYPE_CHECKING:
    from spom.cli.sentences import Tagged

Label = Annotated[
    str | None,
    typer.Option(
        "--label", "--target", metavar="COLUMN", help="Column of the labels, by name or number; the last one."
    ),
]
Constraints = Annotated[
    str | None,
    typer.Option(
        "--constraints",
        metavar="SCHEME",
        help="A scheme to obey: BIO, IOB1, BIOES, BILOU; or none. Default: the one that the labels are of, if any.",
        autocompletion=completing(SCHEMES),
    ),
]
SENTENCES = {
    "columns": (options.ColumnNames, None),
    "label": (Label, None),
    "encoding": (options.Encoding, "utf-8"),
    "constraints": (Constraints, None),
}


@takes(FILES, names_of("tagger"), CHOICE, SENTENCES, LEARNING, RUNNING)
def tagger(o: dict[str, Any]) -> None:
    """Learn a tagger of sentences, and which templates it needs.

    Files are CoNLL columns (one token per line, a blank line after each sentence, the label in the last column; CRF++
    has the same), CoNLL-U (the label is upos) or CRFsuite items (label TAB feature TAB ...). Templates are a ready set
    (chunking, pos, entities, tags), a template file of CRF++, or a file with one template per line, such as
    w[-1]|w[0] or w.suffix3[0]; without --templates they follow from labels and columns, and are named at the end.
    The model goes to M, what was used and how the run went to M.run.json. Ctrl-C and SIGTERM stop after the epoch
    that is under way and keep the best model so far; --resume continues.

    \b
    Examples:
      spom train tagger --train train.txt.gz --dev dev.txt.gz --model chunker.spom
      spom train tagger --train train.txt --model chunker.spom --templates template.crfpp --prune auto
      spom train tagger --train ewt.conllu.gz --label upos --templates pos --model pos.spom
      spom train tagger --train train.items --model crf.spom --loss hinge --penalty sparse-mkl --strength 1e-4

    Losses are softmax-margin (default), log, hinge and perceptron. The default penalty is l1 with a strength from the
    number of sentences; --penalty none is none.
    """
    from spom.cli.scores import tag_scores
    from spom.cli.sentences import like_training, read_tagged
    from spom.cli.training import Run
    from spom.estimators.tagger.tagger import SequenceTagger

    with Run("tagger", o, "tokens/s") as run:
        model = SequenceTagger(**_parameters(o), callbacks=[run.live])
        model.set_params(**options.parsed(o["settings"]))
        run.live.total = model.epochs if isinstance(model.epochs, int) else None
        names = None if o["columns"] is None else [name.strip() for name in o["columns"].split(",")]
        data = read_tagged(o["train"], o["format"], names, o["label"], o["encoding"])
        run.data("train", data.path, data.format, sentences=data.sentences, tokens=data.tokens)
        dev = None
        if o["dev"] is not None:
            dev = like_training(o["dev"], o["format"], {**data.summary(), "encoding": o["encoding"]}, o["label"])
            run.data("dev", dev.path, dev.format, sentences=dev.sentences, tokens=dev.tokens)
            _check_labels(data, dev)
        run.fit(model, data.X, data.y, None if dev is None else (dev.X, dev.y))
        run.history(model.history_)
        run.blocks(list(model.blocks_), model.block_weights_)
        pruning = None if model.pruning_ is None else str(model.pruning_)
        if dev is None:
            run.finish(model, data.summary(), {}, pruning=pruning)
        else:
            scores = tag_scores(model, dev.X, dev.y)
            run.finish(model, data.summary(), scores.flat, confusion=scores.confusion, pruning=pruning)


def _parameters(o: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"random_state": o["seed"], "verbose": 0}
    found["templates"] = "auto" if o["templates"] is None else o["templates"]
    found["penalty"] = _penalty(o["penalty"], o["strength"])
    found["prune"] = pruning_of(o["prune"])
    found["constraints"] = {None: "auto", "none": None}.get(o["constraints"], o["constraints"])
    for name in ("loss", "epochs"):
        if o[name] is not None:
            found[name] = o[name]
    return found


def _penalty(name: str | None, strength: float | None) -> Any:
    """What the options mean: the tagger chooses what is left out; `none` is no penalty."""
    from spom.penalties import L1

    if name == "none":
        return None
    if strength is not None:
        return penalty_of(name, strength, None, L1(1e-4))
    return "auto" if name is None else name


def _check_labels(data: Tagged, dev: Tagged) -> None:
    known, held = label_set(data.y), label_set(dev.y)
    if not known & held:
        shown = [", ".join(sorted(labels)[:5]) for labels in (held, known)]
        raise DataError(f"the labels ({shown[0]}) are of another set than those of {data.path} ({shown[1]})", dev.path)


def label_set(y: Any) -> set[str]:
    """The labels that occur."""
    if hasattr(y, "distinct"):
        return {str(label) for label in y.distinct(0)[1]}
    return {label for sentence in y for label in sentence}
