"""`spom predict`: the input with a predicted column, streamed in order to a file or standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spom.cli import options
from spom.cli.options import TREES, argument, format_of, option, takes
from spom.core.atomic import replacing, write_all
from spom.errors import DataError, ModelFileError, Unsupported

if TYPE_CHECKING:
    from spom.core.container import Header

# The options of the command, with the kind of the model and the training summary in its file.
Asked = dict[str, Any]
# Kinds of models that take tables.
TABLES = ("classifier", "regressor")
OPTIONS = {
    "model": options.MODEL,
    "source": argument(
        "[F]...", list[str] | None, None, "Files to read, or patterns such as 'part-*.txt'; - is standard input."
    ),
    "output": option("--output -o F", str, "-", "File to write; - is standard output."),
    "format": options.FORMAT,
    "columns": options.COLUMNS,
    "encoding": options.ENCODING,
    "only": option("--only", bool, False, "Write the predictions alone, one per line."),
    "probabilities": option(
        "--probabilities", bool, False, "Classifiers: add one column per class with its probability."
    ),
    "marginals": option(
        "--marginals", bool, False, "Taggers: add the probability of the predicted label of each token."
    ),
    "k_best": option("--k-best N", int | None, None, "Taggers: write the N best label sequences, with scores.", min=1),
    "explain": option("--explain", bool, False, "Explain each prediction: what set it apart from the runner-up."),
    "jobs": options.JOBS,
    "dask": options.DASK,
    "quiet": options.QUIET,
    "debug": options.DEBUG,
}


@takes(OPTIONS)
def predict(o: dict[str, Any]) -> None:
    """Write the input unchanged, in order, with one more column: the predictions.

    The input is read and written block by block, so it may be of any length, or a pipe. Sentences get the
    predicted tag as a last column, a table a column `predicted`; the label of an svmlight line is replaced; heads and
    relations of CoNLL-U are filled in. Several files are written one after another. An output that ends in .gz or .zst
    is compressed, one that ends in .parquet is Parquet. No file is left half-written.

    \b
    Examples:
      spom predict --model chunker.spom new.txt -o tagged.txt
      zcat new.txt.gz | spom predict --model chunker.spom > tagged.txt
      spom predict --model parser.spom raw.conllu.gz -o parsed.conllu.gz
      spom predict --model english.spom raw.txt -o out.conllu
      spom predict --model iris.spom flowers.csv --only
      spom predict --model iris.spom flowers.parquet --probabilities -o scored.parquet
    """
    kind, header = kind_of(o["model"])
    columns = options.comma_separated(o["columns"]) or None
    training = {**header.model["training"], "encoding": o["encoding"], "given": columns}
    try:
        _run({**o, "kind": kind, "training": training}, options.expanded(o["source"]))
    except DataError as error:
        raise explained(error, kind, o["model"]) from None


def _run(o: Asked, sources: list[str]) -> None:
    if o["kind"] != "tagger" and (o["marginals"] or o["k_best"]):
        raise Unsupported("--marginals and --k-best are for taggers; classifiers have --probabilities")
    if o["output"].lower().endswith((".parquet", ".pq")) and (o["explain"] or o["kind"] not in TABLES):
        raise Unsupported("Parquet is for tables with their predictions: name a text file with -o")
    if o["dask"] is not None and (o["explain"] or o["kind"] not in ("tagger", "parser")):
        raise Unsupported("--dask predicts with taggers and parsers; others take --jobs")
    if o["explain"]:
        _explained(o, sources)
        return
    if o["kind"] in TABLES:
        _vectors(o, sources)
        return
    if o["probabilities"]:
        raise Unsupported("--probabilities is for classifiers of vectors; taggers have --marginals")
    make = {"tagger": _tags, "parser": _trees, "pipeline": _texts}[o["kind"]]
    if o["dask"] is not None:
        from spom.cli.sharded import predicted_on_dask

        parts = predicted_on_dask(o, make)
    else:
        parts = make(o)
    with writing(o["output"]) as out:
        for source in sources:
            for part in parts(source):
                out.write(part)


def _vectors(o: Asked, sources: list[str]) -> None:
    from spom.cli.vector_output import predicted_by, write_predicted
    from spom.cli.vectors import Layout, blocks_to_predict
    from spom.models.loading import load_model

    estimator = load_model(o["model"])
    layout = Layout.of_model(estimator, o["training"], o["format"], o["encoding"])
    blocks = (block for source in sources for block in blocks_to_predict(source, layout))
    parts = (predicted_by(estimator, X, block, o["probabilities"]) for X, block in blocks)
    write_predicted(parts, o["output"], o["only"], bool(layout.form.header))


def _explained(o: Asked, sources: list[str]) -> None:
    """Write one explanation per row or token, as text."""
    from spom.models.loading import load_model

    estimator = load_model(o["model"])
    if not hasattr(estimator, "explain"):
        what = "classifiers, regressors, taggers and parsers"
        raise Unsupported(f"--explain is for {what}; this is a {o['kind']}")
    with writing(o["output"]) as out:
        for source in sources:
            for X in _inputs(o, estimator, source):
                for found in estimator.explain(X):
                    whys = found if isinstance(found, list) else [found]
                    out.write("".join(f"{why}\n" for why in whys).encode() + b"\n")


def _inputs(o: Asked, estimator: Any, source: str) -> Iterator[Any]:
    """Return the blocks of a file as input of the estimator."""
    if o["kind"] == "tagger":
        from spom.cli.sentences import tag_blocks

        labels = [str(label) for label in estimator.classes_.tolist()]
        return (X for X, _ in tag_blocks(source, o["format"], o["training"], labels, only=True))
    if o["kind"] == "parser":
        from spom.data.conllu import iter_conllu

        return iter(iter_conllu(source))
    from spom.cli.vectors import Layout, blocks_to_predict

    layout = Layout.of_model(estimator, o["training"], o["format"], o["encoding"])
    return (X for X, _ in blocks_to_predict(source, layout))


Parts = Callable[[str], Iterator[bytes]]


def _tags(o: Asked) -> Parts:
    from spom.cli.sentences import load_tagging, tag_blocks
    from spom.core.ordered import in_order

    if o["marginals"] or o["k_best"]:
        return _doubts(o)
    tagging = load_tagging(o["model"])
    labels = [str(label) for label in tagging.classes.tolist()]

    def parts(source: str) -> Iterator[bytes]:
        blocks = tag_blocks(source, o["format"], o["training"], labels, o["only"])
        return in_order(lambda block: block[1](tagging.codes(block[0])), blocks, o["jobs"])

    return parts


def _doubts(o: Asked) -> Parts:
    """Return the parts with a measure of confidence: marginals of the labels, or the k best sequences."""
    from spom.cli.sentences import k_best_text, marginal_text, tag_blocks
    from spom.models.loading import load_model

    tagger = load_model(o["model"])
    labels = [str(label) for label in tagger.classes_.tolist()]

    def parts(source: str) -> Iterator[bytes]:
        for X, _ in tag_blocks(source, o["format"], o["training"], labels, o["only"]):
            yield k_best_text(tagger, X, o["k_best"]) if o["k_best"] else marginal_text(tagger, X)

    return parts


def _texts(o: Asked) -> Parts:
    from spom.cli.texts import predicted_text

    if o["only"]:
        raise Unsupported("--only is for taggers, parsers and classifiers: a pipeline writes CoNLL-U")
    return predicted_text(o["model"], o["format"], o["encoding"], o["jobs"])


def _trees(o: Asked) -> Parts:
    from spom.data.conllu import conllu_text, iter_conllu
    from spom.data.opening import not_empty
    from spom.models.loading import load_model

    format_of("", o["format"], TREES)
    parser = load_model(o["model"])
    parser.n_jobs = o["jobs"]

    def parts(source: str) -> Iterator[bytes]:
        for bank in not_empty(iter_conllu(source), "sentences", source):
            found = parser.predict(bank)
            yield _only_trees(found) if o["only"] else conllu_text(_without_deps(found))

    return parts


def _without_deps(bank: Any) -> Any:
    """Return the treebank with DEPS emptied: enhanced dependencies of the input contradict the predicted trees."""
    if bank.columns.distinct("deps")[1].tolist() == ["_"]:
        return bank
    return bank.with_columns(deps=["_"] * bank.n_words)


def _only_trees(found: Any) -> bytes:
    """Return heads and relations alone, one word per line."""
    pairs = zip(found.heads.tolist(), found.relations.tolist(), strict=True)
    lines = [f"{head}\t{found.relation_names[code]}\n" for head, code in pairs]
    for end in reversed(found.offsets[1:].tolist()):
        lines.insert(end, "\n")
    return "".join(lines).encode()


# The kind of each estimator.
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
    """Return (the task that learnt it, the header) of a model file."""
    from spom.core.container import read_header

    header = read_header(path)
    if header.estimator not in KINDS:
        raise ModelFileError(f"{path}: the command does not know the estimator {header.estimator!r}; load it in Python")
    return KINDS[header.estimator], header


def explained(error: DataError, kind: str, model: str | Path) -> DataError:
    """Return the error of an unreadable line, with the input that the model takes: the file may be of another kind."""
    if error.line is None:
        return error
    return DataError(f"{error.what} ({model} is a {kind}, which takes {_TAKES[kind]})", error.source, error.line)


# --- output --------------------------------------------------------------------------------------------


@contextmanager
def writing(path: str) -> Iterator[Any]:
    """Open a binary file to write to; `-` is standard output, and .gz and .zst compress."""
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
    """A binary file whose `write` always writes all bytes."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, data: Any) -> int:
        """Write all bytes, or raise the system's error."""
        write_all(self.file, data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()
