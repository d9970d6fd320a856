"""`spom predict`: the input with the predicted column, streamed, in order, to a file or standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spom.cli import options as o
from spom.cli.options import REQUIRED, takes
from spom.core.atomic import replacing
from spom.errors import DataError, ModelFileError, Unsupported

if TYPE_CHECKING:
    from spom.core.container import Header

# Kinds of models that take tables.
TABLES = ("classifier", "regressor")
Sources = Annotated[
    list[str] | None,
    typer.Argument(metavar="[F]...", help="Files to read, or patterns such as 'part-*.txt'; - is standard input."),
]
Only = Annotated[bool, typer.Option("--only", help="Write the predictions alone, one per line.")]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="Classifiers: add one column per class with its probability.")
]
Marginals = Annotated[
    bool, typer.Option("--marginals", help="Taggers: add the probability of the predicted label of each token.")
]
KBest = Annotated[
    int | None, typer.Option("--k-best", metavar="N", help="Taggers: write the N best label sequences, with scores.")
]

Explain = Annotated[
    bool, typer.Option("--explain", help="Explain each prediction: what set it apart from the runner-up.")
]


@dataclass(frozen=True)
class Asked:
    """What was asked for: the model with what its file says of it, the files, and the form of the output."""

    kind: str
    model: str
    training: dict[str, Any]
    output: str
    format: str | None
    encoding: str
    only: bool
    jobs: int
    probabilities: bool
    marginals: bool
    k_best: int | None
    explain: bool
    dask: str | None = None


OPTIONS = {
    "model": (o.ModelIn, REQUIRED),
    "source": (Sources, None),
    "output": (o.Output, "-"),
    "format": (o.Format, None),
    "columns": (o.ColumnNames, None),
    "encoding": (o.Encoding, "utf-8"),
    "only": (Only, False),
    "probabilities": (Probabilities, False),
    "marginals": (Marginals, False),
    "k_best": (KBest, None),
    "explain": (Explain, False),
    "jobs": (o.Jobs, 1),
    "dask": (o.Dask, None),
    "quiet": (o.Quiet, False),
    "debug": (o.Debug, False),
}


@takes(OPTIONS)
def predict(values: dict[str, Any]) -> None:
    """Predict: the input comes out as it is, in order, with one more column.

    The input is read and written block by block, so that it may be of any length, or a pipe. Sentences get the
    predicted tag as a last column, a table a column `predicted`; the label of an svmlight line is replaced; heads and
    relations of CoNLL-U are filled in. Several files come out one after another. An output that ends in .gz or .zst is
    compressed, one that ends in .parquet is Parquet. Nothing is left half-written.

    \b
    Examples:
      spom predict --model chunker.spom new.txt -o tagged.txt
      zcat new.txt.gz | spom predict --model chunker.spom > tagged.txt
      spom predict --model parser.spom raw.conllu.gz -o parsed.conllu.gz
      spom predict --model english.spom raw.txt -o out.conllu
      spom predict --model iris.spom flowers.csv --only
      spom predict --model iris.spom flowers.parquet --probabilities -o scored.parquet
    """

    model, k_best, columns = values["model"], values["k_best"], o.comma_separated(values["columns"])
    if k_best is not None and k_best < 1:
        raise ValueError(f"--k-best takes a number >= 1; not {k_best}")
    kind, header = kind_of(model)
    training = {**header.model["training"], "encoding": values["encoding"], "given": columns or None}
    same = ("output", "format", "encoding", "only", "probabilities", "marginals", "k_best", "explain", "dask")
    jobs = o.check_jobs(values["jobs"])
    asked = Asked(kind, str(model), training, jobs=jobs, **{name: values[name] for name in same})
    try:
        _run(asked, o.expanded(values["source"]))
    except DataError as error:
        raise explained(error, kind, model) from None


def _run(asked: Asked, sources: list[str]) -> None:
    if asked.kind != "tagger" and (asked.marginals or asked.k_best):
        raise Unsupported("--marginals and --k-best are for taggers; classifiers have --probabilities")
    if asked.output.lower().endswith((".parquet", ".pq")) and (asked.explain or asked.kind not in TABLES):
        raise Unsupported("Parquet is for tables with their predictions: name a text file with -o")
    if asked.dask is not None and (asked.explain or asked.kind not in ("tagger", "parser")):
        raise Unsupported("--dask predicts with taggers and parsers; others take --jobs")
    if asked.explain:
        _explained(asked, sources)
        return
    if asked.kind in TABLES:
        _vectors(asked, sources)
        return
    if asked.probabilities:
        raise Unsupported("--probabilities is for classifiers of vectors; taggers have --marginals")
    make = {"tagger": _tags, "parser": _trees, "pipeline": _texts}[asked.kind]
    if asked.dask is not None:
        from spom.cli.sharded import predicted_on_dask

        parts = predicted_on_dask(asked, make)
    else:
        parts = make(asked)
    with writing(asked.output) as out:
        for source in sources:
            for part in parts(source):
                out.write(part)


def _vectors(asked: Asked, sources: list[str]) -> None:
    from spom.cli.vector_output import predicted_by, write_predicted
    from spom.cli.vectors import Layout, blocks_to_predict
    from spom.models.loading import load_model

    estimator = load_model(asked.model)
    layout = replace(Layout.of_model(estimator, asked.training), format=asked.format)
    if asked.encoding != "utf-8":
        layout = replace(layout, form=replace(layout.form, encoding=asked.encoding))
    blocks = (block for source in sources for block in blocks_to_predict(source, layout))
    parts = (predicted_by(estimator, X, block, asked.probabilities) for X, block in blocks)
    write_predicted(parts, asked.output, asked.only, layout.form.header)


def _explained(asked: Asked, sources: list[str]) -> None:
    """One explanation per row or token, as text."""
    from spom.models.loading import load_model

    estimator = load_model(asked.model)
    if not hasattr(estimator, "explain"):
        what = "classifiers, regressors, taggers and parsers"
        raise Unsupported(f"--explain is for {what}; this is a {asked.kind}")
    with writing(asked.output) as out:
        for source in sources:
            for X in _inputs(asked, estimator, source):
                for found in estimator.explain(X):
                    whys = found if isinstance(found, list) else [found]
                    out.write("".join(f"{why}\n" for why in whys).encode() + b"\n")


def _inputs(asked: Asked, estimator: Any, source: str) -> Iterator[Any]:
    """The blocks of a file as the estimator takes them."""
    if asked.kind == "tagger":
        from spom.cli.sentences import tag_blocks

        labels = [str(label) for label in estimator.classes_.tolist()]
        return (X for X, _ in tag_blocks(source, asked.format, asked.training, labels, only=True))
    if asked.kind == "parser":
        from spom.data.conllu import iter_conllu

        return iter(iter_conllu(source))
    from spom.cli.vectors import Layout, blocks_to_predict

    layout = replace(Layout.of_model(estimator, asked.training), format=asked.format)
    return (X for X, _ in blocks_to_predict(source, layout))


Parts = Callable[[str], Iterator[bytes]]


def _tags(asked: Asked) -> Parts:
    from spom.cli.sentences import load_tagging, tag_blocks
    from spom.core.ordered import in_order

    if asked.marginals or asked.k_best:
        return _doubts(asked)
    tagging = load_tagging(asked.model)
    labels = [str(label) for label in tagging.classes.tolist()]

    def parts(source: str) -> Iterator[bytes]:
        blocks = tag_blocks(source, asked.format, asked.training, labels, asked.only)
        return in_order(lambda block: block[1](tagging.codes(block[0])), blocks, asked.jobs)

    return parts


def _doubts(asked: Asked) -> Parts:
    """Labels with how sure the model is of them: their marginals, or the k best sequences."""
    from spom.cli.sentences import k_best_text, marginal_text, tag_blocks
    from spom.models.loading import load_model

    tagger = load_model(asked.model)
    labels = [str(label) for label in tagger.classes_.tolist()]

    def parts(source: str) -> Iterator[bytes]:
        for X, _ in tag_blocks(source, asked.format, asked.training, labels, asked.only):
            yield k_best_text(tagger, X, asked.k_best) if asked.k_best else marginal_text(tagger, X)

    return parts


def _texts(asked: Asked) -> Parts:
    from spom.cli.texts import predicted_text

    if asked.only:
        raise Unsupported("--only is for taggers, parsers and classifiers: a pipeline writes CoNLL-U")
    return predicted_text(asked.model, asked.format, asked.encoding, asked.jobs)


def _trees(asked: Asked) -> Parts:
    from spom.data.conllu import conllu_text, iter_conllu
    from spom.models.loading import load_model

    if asked.format not in (None, "conllu"):
        raise Unsupported(f"parsers take CoNLL-U, not {asked.format!r}")
    parser = load_model(asked.model)
    parser.n_jobs = asked.jobs

    def parts(source: str) -> Iterator[bytes]:
        empty = True
        for bank in iter_conllu(source):
            found, empty = parser.predict(bank), False
            yield _only_trees(found) if asked.only else conllu_text(_without_deps(found))
        if empty:
            raise DataError("expected sentences, found none", "standard input" if source == "-" else source)

    return parts


def _without_deps(bank: Any) -> Any:
    """The treebank with an empty DEPS column: enhanced dependencies of the input contradict the predicted trees."""
    if bank.columns.distinct("deps")[1].tolist() == ["_"]:
        return bank
    return bank.with_columns(deps=["_"] * bank.n_words)


def _only_trees(found: Any) -> bytes:
    """Heads and relations alone, one word per line."""
    pairs = zip(found.heads.tolist(), found.relations.tolist(), strict=True)
    lines = [f"{head}\t{found.relation_names[code]}\n" for head, code in pairs]
    for end in reversed(found.offsets[1:].tolist()):
        lines.insert(end, "\n")
    return "".join(lines).encode()


# What each estimator is to the command.
KINDS = {
    "OnlineClassifier": "classifier",
    "ProximalClassifier": "classifier",
    "ProximalClassifierCV": "classifier",
    "OnlineRegressor": "regressor",
    "ProximalRegressor": "regressor",
    "ProximalRegressorCV": "regressor",
    "SequenceTagger": "tagger",
    "DependencyParser": "parser",
    "MKLClassifier": "classifier",
    "Pipeline": "pipeline",
}
_TAKES = {
    "classifier": "vectors (svmlight, CSV or Parquet)",
    "regressor": "vectors (svmlight, CSV or Parquet)",
    "tagger": "sentences, one token per line (CoNLL columns, CoNLL-U or CRFsuite items)",
    "parser": "sentences in CoNLL-U",
    "pipeline": "raw text, words (one per line, a blank line after each sentence) or CoNLL-U",
}


def kind_of(path: str | Path) -> tuple[str, Header]:
    """("classifier", "regressor", "tagger" or "parser", the header) of a model file."""
    from spom.core.container import read_header

    header = read_header(path)
    if header.estimator not in KINDS:
        raise ModelFileError(f"{path}: the command does not know the estimator {header.estimator!r}; load it in Python")
    return KINDS[header.estimator], header


def explained(error: DataError, kind: str, model: str | Path) -> DataError:
    """The error of a line that could not be read, with what the model takes: the file may be of another kind."""
    if error.line is None:
        return error
    return DataError(f"{error.what} ({model} is a {kind}, which takes {_TAKES[kind]})", error.source, error.line)


# --- where results go ----------------------------------------------------------------------------------


@contextmanager
def writing(path: str) -> Iterator[Any]:
    """A binary file to write to; `-` is standard output, and .gz and .zst compress."""
    if path == "-":
        out = getattr(sys.stdout, "buffer", None)
        if out is None:
            raise Unsupported("standard output takes no bytes here; write to a file with -o")
        yield Whole(out)
        out.flush()
        return
    with replacing(path) as raw:
        if path.endswith(".gz"):
            import gzip

            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
                yield packed
        elif path.endswith(".zst"):
            try:
                import zstandard
            except ImportError:
                raise Unsupported("writing zstd needs the package zstandard (pip install spom[zstd])") from None
            with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw


class Whole:
    """A binary file all of whose bytes are written: with PYTHONUNBUFFERED `write` may write a part and say how much."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, data: Any) -> int:
        """Write everything, or raise the error of the system."""
        rest = memoryview(data).cast("B")
        while len(rest):
            written = self.file.write(rest)
            rest = rest[len(rest) if written is None else written :]
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Hand over what is kept."""
        self.file.flush()
