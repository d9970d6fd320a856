"""`spom evaluate`: scores of a model on a file with the right answers."""

from __future__ import annotations

from typing import Any

from spom.cli import options
from spom.cli.options import TREES, argument, format_of, option, takes

OPTIONS = {
    "model": options.MODEL,
    "source": argument("[F]", str, "-", "File with the right answers; - is standard input."),
    "format": options.FORMAT,
    "target": option(
        "--label --target COLUMN",
        str | None,
        None,
        "Column with the right answers. Default: as in training.",
    ),
    "encoding": options.ENCODING,
    "raw": option("--raw", bool, False, "Pipelines: from the raw text of a treebank, words and sentences too."),
    "jobs": options.JOBS,
    "json": options.JSON,
    "quiet": options.QUIET,
    "debug": options.DEBUG,
}


@takes(OPTIONS)
def evaluate(o: dict[str, Any]) -> None:
    """Score a model on a file with the right answers.

    Taggers: accuracy by token, and precision, recall and F1 of phrases if the tags are B-, I-, ..., printed as
    conlleval prints them. Parsers: UAS and LAS over all words, as the CoNLL-18 evaluation counts them. Classifiers:
    precision, recall and F1 of each class. Regressors: R2 and errors. Pipelines: the CoNLL 2018
    measures, with --raw from raw text. --json prints one flat object of fractions.

    \b
    Examples:
      spom evaluate --model chunker.spom test.txt.gz
      spom evaluate --model parser.spom en_ewt-ud-test.conllu.gz --json
      spom evaluate --model english.spom --raw en_ewt-ud-test.conllu.gz
      spom evaluate --model iris.spom test.csv --target species
    """
    import time

    from spom.cli.options import print_json
    from spom.cli.predict import explained, kind_of
    from spom.errors import DataError, Unsupported
    from spom.models.loading import load_model

    kind, header = kind_of(o["model"])
    if o["raw"] and kind != "pipeline":
        raise Unsupported(f"--raw is for pipelines; this is a {kind}")
    begin = time.perf_counter()
    score = {"tagger": _sentences, "parser": _trees, "pipeline": _texts}.get(kind, _vectors)
    try:
        scores = score(load_model(o["model"]), o, {**header.model["training"], "encoding": o["encoding"]})
    except DataError as error:
        raise explained(error, kind, o["model"]) from None
    if o["json"]:
        print_json({**scores.flat, "seconds": time.perf_counter() - begin})
    else:
        print(scores.text)


def _texts(model: Any, o: dict[str, Any], training: dict[str, Any]) -> Any:
    """Compute the CoNLL 2018 measures from raw text, or from the words of the treebank."""
    from spom.cli.scores import pipeline_scores
    from spom.cli.sentences import read_trees

    bank = read_trees(o["source"])
    if bank.has_trees:
        bank.check_trees()
    model.n_jobs = o["jobs"]
    return pipeline_scores(model, bank, o["raw"])


def _sentences(model: Any, o: dict[str, Any], training: dict[str, Any]) -> Any:
    from spom.cli.scores import check_labels, tag_scores
    from spom.cli.sentences import label_set, like_training

    data = like_training(o["source"], o["format"], training, o["target"])
    check_labels(label_set(data.y), map(str, model.classes_.tolist()), "the model's", data.path)
    return tag_scores(model, data.X, data.y)


def _trees(model: Any, o: dict[str, Any], training: dict[str, Any]) -> Any:
    from spom.cli.scores import tree_scores
    from spom.cli.sentences import read_trees

    format_of(o["source"], o["format"], TREES)
    bank = read_trees(o["source"])
    bank.check_trees()
    return tree_scores(bank, model.predict(bank.without_trees()))


def _vectors(model: Any, o: dict[str, Any], training: dict[str, Any]) -> Any:
    from dataclasses import replace

    import numpy as np

    from spom.cli.scores import check_labels, vector_scores
    from spom.cli.vectors import Layout, as_text, read_vectors

    layout = Layout.of_model(model, training, o["format"], o["encoding"])
    layout.check_format(o["source"])
    real = not hasattr(model, "classes_")
    data = read_vectors(o["source"], replace(layout, target=o["target"] or layout.target), real)
    if not real:
        check_labels(as_text(np.unique(data.y)), as_text(model.classes_), "the model's", data.path)
    return vector_scores(model, data.X, data.y)
