"""`spom predict`: the input with the predicted column, streamed, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from spom.cli import options as o

Only = Annotated[bool, typer.Option("--only", help="Write the predictions alone, one a line.")]


def predict(
    model: o.ModelIn,
    source: Annotated[str, typer.Argument(metavar="[F]", help="File to read; - (or nothing) is standard input.")] = "-",
    output: o.Output = "-",
    format: o.Format = None,
    only: Only = False,
    jobs: o.Jobs = 1,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Predict: the input comes out as it is, in order, with one more column.

    The input is read and written block by block, so that it may be of any length, or a pipe. Sentences get the
    predicted tag as a last column, a CSV table a column `predicted`; the label of an svmlight line is replaced; heads
    and relations of CoNLL-U are filled in. An output that ends in .gz or .zst is compressed. Nothing is left
    half-written.

    \b
    Examples:
      spom predict --model chunker.spom new.txt -o tagged.txt
      zcat new.txt.gz | spom predict --model chunker.spom > tagged.txt
      spom predict --model parser.spom raw.conllu.gz -o parsed.conllu.gz
      spom predict --model iris.spom flowers.csv --only
    """
    from spom.cli.kinds import explained, kind_of
    from spom.errors import DataError

    kind, header = kind_of(model)
    try:
        _run(kind, header.model["training"], str(model), source, output, format, only, jobs)
    except DataError as error:
        raise explained(error, kind, model) from None


def _run(
    kind: str, training: Any, model: str, source: str, output: str, format: str | None, only: bool, jobs: int
) -> None:
    from spom.cli.output import writing

    if kind == "tagger":
        parts = _tags(model, training, source, format, only, jobs)
    elif kind == "parser":
        parts = _trees(model, source, format, only, jobs)
    else:
        parts = _vectors(model, source, format, only)
    with writing(output) as out:
        for part in parts:
            out.write(part)


def _vectors(model: str, source: str, format: str | None, only: bool) -> Iterator[bytes]:
    from spom.cli.vectors import as_text, predict_blocks
    from spom.models.loading import load_model

    estimator = load_model(model)
    names = getattr(estimator, "feature_names_in_", None)
    columns = None if names is None else [str(name) for name in names]
    for X, writer in predict_blocks(source, format, columns, estimator.n_features_in_):
        predicted = as_text(estimator.predict(X)) if X.shape[0] else []
        yield "".join(f"{p}\n" for p in predicted).encode() if only else writer.text(predicted)


def _tags(model: str, training: Any, source: str, format: str | None, only: bool, jobs: int) -> Iterator[bytes]:
    from spom.cli.sentences import in_order, tag_blocks
    from spom.cli.tagging import load_tagging

    tagging = load_tagging(model)
    labels = [str(label) for label in tagging.classes.tolist()]
    blocks = tag_blocks(source, format, training, labels, only)
    return in_order(lambda block: block[1](tagging.codes(block[0])), blocks, jobs)


def _trees(model: str, source: str, format: str | None, only: bool, jobs: int) -> Iterator[bytes]:
    from spom.data.conllu import conllu_text, iter_conllu
    from spom.errors import DataError, Unsupported
    from spom.models.loading import load_model

    if format not in (None, "conllu"):
        raise Unsupported(f"parsers take CoNLL-U, not {format!r}")
    parser, empty = load_model(model), True
    parser.n_jobs = jobs
    for bank in iter_conllu(source):
        found, empty = parser.predict(bank), False
        if only:
            pairs = zip(found.heads.tolist(), found.relations.tolist(), strict=True)
            lines = [f"{head}\t{found.relation_names[code]}\n" for head, code in pairs]
            for end in reversed(found.offsets[1:].tolist()):
                lines.insert(end, "\n")
            yield "".join(lines).encode()
        else:
            yield conllu_text(found)
    if empty:
        raise DataError("expected sentences, found none", "standard input" if source == "-" else source)
