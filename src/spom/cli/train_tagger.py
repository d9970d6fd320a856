"""`spom train tagger`."""

from __future__ import annotations

from typing import Any

from spom.cli import options
from spom.cli.options import FILES, LEARNING, PRUNE, RUNNING, SCHEMES, given, named, names_of, option, takes

SENTENCES = {
    "columns": options.COLUMNS,
    "label": option(
        "--label --target COLUMN", str | None, None, "Column of the labels, by name or number. Default: the last one."
    ),
    "encoding": options.ENCODING,
    "constraints": named(
        "--constraints SCHEME",
        SCHEMES,
        "A scheme to obey: BIO, IOB1, BIOES, BILOU; or none. Default: the one that the labels are of, if any.",
    ),
}


@takes(FILES, names_of("tagger"), PRUNE, SENTENCES, LEARNING, RUNNING)
def tagger(o: dict[str, Any]) -> None:
    """Learn a tagger of sentences, and which templates it needs.

    Files are CoNLL columns (one token per line, a blank line after each sentence, the label in the last column; CRF++
    uses the same), CoNLL-U (the label is upos) or CRFsuite items (label TAB feature TAB ...). Templates are a named set
    (chunking, pos, entities, tags), a template file of CRF++, or a file with one template per line, such as
    w[-1]|w[0] or w.suffix3[0]; without --templates they are chosen by labels and columns, and printed at the end.
    The model is written to M, and the settings and the history of the run to M.run.json. Ctrl-C and SIGTERM stop after
    the current epoch and keep the best model so far; --resume continues the run.

    \b
    Examples:
      spom train tagger --train train.txt.gz --dev dev.txt.gz --model chunker.spom
      spom train tagger --train train.txt --model chunker.spom --templates template.crfpp --prune auto
      spom train tagger --train ewt.conllu.gz --label upos --templates pos --model pos.spom
      spom train tagger --train train.items --model crf.spom --loss hinge --penalty sparse-mkl --strength 1e-4

    Losses are softmax-margin (default), log, hinge and perceptron. The default penalty is l1 with a strength from the
    number of sentences; --penalty none turns it off.
    """
    from spom.cli.scores import Scores, check_labels, tag_scores
    from spom.cli.sentences import label_set, like_training, read_tagged
    from spom.cli.training import Run
    from spom.estimators.tagger.tagger import SequenceTagger

    with Run("tagger", o, "tokens/s") as run:
        model = SequenceTagger(**_parameters(o), callbacks=[run.live])
        options.set_parameters(model, o["settings"])
        run.live.total = model.epochs if isinstance(model.epochs, int) else None
        names = options.comma_separated(o["columns"]) or None
        data, dev = read_tagged(o["train"], o["format"], names, o["label"], o["encoding"]), None
        run.data("train", data.path, data.format, sentences=data.sentences, tokens=data.tokens)
        if o["dev"] is not None:
            dev = like_training(o["dev"], o["format"], {**data.summary(), "encoding": o["encoding"]}, o["label"])
            run.data("dev", dev.path, dev.format, sentences=dev.sentences, tokens=dev.tokens)
            check_labels(label_set(dev.y), label_set(data.y), f"those of {data.path}", dev.path)
        run.fit(model, data.X, data.y, None if dev is None else (dev.X, dev.y))
        run.learnt(model.history_, blocks=list(model.blocks_), block_weights=model.block_weights_)
        pruning = None if model.pruning_ is None else str(model.pruning_)
        scores = Scores({}, "") if dev is None else tag_scores(model, dev.X, dev.y)
        run.finish(model, data.summary(), scores.flat, confusion=scores.confusion, pruning=pruning)


def _parameters(o: dict[str, Any]) -> dict[str, Any]:
    from spom.penalties import L1

    return {
        **{"random_state": o["seed"], "verbose": 0},
        "templates": "auto" if o["templates"] is None else o["templates"],
        "penalty": options.penalty_of(o["penalty"], o["strength"], L1()),
        "prune": options.pruning_of(o["prune"]),
        "constraints": {None: "auto", "none": None}.get(o["constraints"], o["constraints"]),
        **given(o, "loss", "epochs"),
    }
