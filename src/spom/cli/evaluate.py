"""`spom evaluate`: how good a model is on a file with the right answers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spom.cli import options as o
from spom.cli.options import REQUIRED, takes

Target = Annotated[
    str | None,
    typer.Option(
        "--label",
        "--target",
        metavar="COLUMN",
        help="Column with the right answers; as in training, where it is left out.",
    ),
]


Source = Annotated[str, typer.Argument(metavar="[F]", help="File with the right answers; - is standard input.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Pipelines: from the raw text of a treebank, words and sentences too.")
]
OPTIONS = {
    "model": (o.ModelIn, REQUIRED),
    "source": (Source, "-"),
    "format": (o.Format, None),
    "target": (Target, None),
    "encoding": (o.Encoding, "utf-8"),
    "raw": (Raw, False),
    "jobs": (o.Jobs, 1),
    "json": (o.Json, False),
    "quiet": (o.Quiet, False),
    "debug": (o.Debug, False),
}


@takes(OPTIONS)
def evaluate(values: dict[str, Any]) -> None:
    """Score a model on a file with the right answers.

    Taggers: accuracy by token, and precision, recall and F1 of phrases where the tags are B-, I-, ..., printed as
    conlleval prints them. Parsers: UAS and LAS, with all words, as the CoNLL-18 evaluation counts them. Classifiers:
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

    model, source, raw = values["model"], values["source"], values["raw"]
    kind, header = kind_of(model)
    begin = time.perf_counter()
    try:
        if raw and kind != "pipeline":
            raise Unsupported(f"--raw is for pipelines; this is a {kind}")
        if kind == "pipeline":
            scores = _pipeline_scores(str(model), source, raw, values["jobs"])
        else:
            training = {**header.model["training"], "encoding": values["encoding"]}
            scores = _scores(kind, training, str(model), source, values["format"], values["target"])
    except DataError as error:
        raise explained(error, kind, model) from None
    if values["json"]:
        print_json({**scores.flat, "seconds": time.perf_counter() - begin})
    else:
        print(scores.text)


def _pipeline_scores(model: str, source: str, raw: bool, jobs: int) -> Any:
    """The CoNLL 2018 measures: from raw text, or from the words of the treebank."""
    from spom.cli.scores import pipeline_scores
    from spom.data.conllu import read_conllu
    from spom.errors import DataError
    from spom.models.loading import load_model

    bank = read_conllu(source)
    if len(bank) == 0:
        raise DataError("expected sentences, found none", source)
    bank.check_trees()
    pipeline = load_model(model)
    pipeline.n_jobs = jobs
    return pipeline_scores(pipeline, bank, raw)


def _scores(
    kind: str, training: dict[str, Any], model: str, source: str, format: str | None, target: str | None
) -> Any:
    from spom.models.loading import load_model

    if kind == "tagger":
        from spom.cli.scores import tag_scores
        from spom.cli.sentences import like_training

        tagger = load_model(model)
        data = like_training(source, format, training, target)
        _known_labels(data.y, tagger.classes_.tolist(), source)
        return tag_scores(tagger, data.X, data.y)
    if kind == "parser":
        return _trees(load_model(model), source, format)
    return _vectors(load_model(model), training, source, format, target)


def _known_labels(y: Any, classes: list[Any], source: str) -> None:
    from spom.cli.train_tagger import label_set
    from spom.errors import DataError

    if not label_set(y) & set(map(str, classes)):
        shown = ", ".join(map(str, classes[:5]))
        raise DataError(f"the labels are of another set than the model's ({shown}, ...); see --label", source)


def _trees(parser: Any, source: str, format: str | None) -> Any:
    from spom.cli.scores import tree_scores
    from spom.data.conllu import read_conllu
    from spom.errors import DataError, Unsupported

    if format not in (None, "conllu"):
        raise Unsupported(f"parsers take CoNLL-U, not {format!r}")
    bank = read_conllu(source)
    if len(bank) == 0:
        raise DataError("expected sentences, found none", source)
    bank.check_trees()
    return tree_scores(bank, parser.predict(bank.without_trees()))


def _vectors(estimator: Any, training: dict[str, Any], source: str, format: str | None, target: str | None) -> Any:
    from dataclasses import replace

    import numpy as np

    from spom.cli.scores import vector_scores
    from spom.cli.vectors import Layout, as_text, format_of, read_vectors
    from spom.errors import DataError

    layout = Layout.of_model(estimator, training)
    layout = replace(layout, format=format, target=target or layout.target)
    if training["encoding"] != "utf-8":
        layout = replace(layout, form=replace(layout.form, encoding=training["encoding"]))
    found = format_of(source, format)
    if layout.wants_table == (found == "svmlight"):
        raise DataError(f"the model was learnt from {layout.wanted()}; this is {found}", source)
    real = not hasattr(estimator, "classes_")
    data = read_vectors(source, layout, real)
    if not real and not set(as_text(np.unique(data.y))) & set(as_text(estimator.classes_)):
        shown = ", ".join(as_text(estimator.classes_[:5]))
        raise DataError(f"the labels are of another set than the model's ({shown}, ...); see --label", source)
    return vector_scores(estimator, data.X, data.y)
