"""Which kind of data a model takes, read from its header."""

from __future__ import annotations

from pathlib import Path

from spom.core.container import Header, read_header
from spom.errors import DataError, ModelFileError

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
    "tagger": "sentences, one token a line (CoNLL columns, CoNLL-U or CRFsuite items)",
    "parser": "sentences in CoNLL-U",
    "pipeline": "raw text, words (one per line, a blank line after each sentence) or CoNLL-U",
}


def kind_of(path: str | Path) -> tuple[str, Header]:
    """("classifier", "regressor", "tagger" or "parser", the header) of a model file."""
    header = read_header(path)
    if header.estimator not in KINDS:
        raise ModelFileError(f"{path}: the command does not know the estimator {header.estimator!r}; load it in Python")
    return KINDS[header.estimator], header


def explained(error: DataError, kind: str, model: str | Path) -> DataError:
    """The error of a line that could not be read, with what the model takes: the file may be of another kind."""
    if error.line is None:
        return error
    return DataError(f"{error.what} ({model} is a {kind}, which takes {_TAKES[kind]})", error.source, error.line)
