"""`spom predict`: the input with the predicted column, streamed, in order."""

from __future__ import annotations

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

    kind, _ = kind_of(model)
    try:
        _run(kind, str(model), source, output, format, only, jobs)
    except DataError as error:
        raise explained(error, kind, model) from None


def _run(kind: str, model: str, source: str, output: str, format: str | None, only: bool, jobs: int) -> None:
    from spom.cli.output import writing
    from spom.models.loading import load_model

    estimator = load_model(model)
    parts = _parts(kind, estimator, source, format, only, jobs)
    with writing(output) as out:
        for part in parts:
            part(out)


def _parts(kind: str, estimator: Any, source: str, format: str | None, only: bool, jobs: int) -> Any:
    """What writes each block, in order."""
    from spom.cli.kinds import not_yet

    if kind in ("classifier", "regressor"):
        return _vectors(estimator, source, format, only)
    raise not_yet(kind)


def _vectors(estimator: Any, source: str, format: str | None, only: bool) -> Any:
    from spom.cli.vectors import as_text, predict_blocks

    names = getattr(estimator, "feature_names_in_", None)
    columns = None if names is None else [str(name) for name in names]
    for X, writer in predict_blocks(source, format, columns, estimator.n_features_in_):
        predicted = as_text(estimator.predict(X)) if X.shape[0] else []
        if only:
            text = "".join(f"{p}\n" for p in predicted).encode()
            yield lambda out, text=text: out.write(text)
        else:
            yield lambda out, writer=writer, predicted=predicted: writer.write(out, predicted)
