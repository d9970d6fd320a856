"""Every reader of text and tables, with a small file to start from."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spom.cli.vectors import Layout, read_vectors
from spom.data import SvmlightFile, iter_conllu, read_conll, read_conll_blocks, read_conllu, read_items, read_svmlight
from spom.data.items import iter_items
from spom.data.surface import Surface
from spom.data.tables import PLAIN_CSV, CsvForm, labels, read_table, read_table_fast
from spom.features.clusters import Clusters
from spom.features.ready import read_templates
from spom.models import read_run

CONLL = "The DT B-NP\ncat NN I-NP\n\nsleeps VBZ B-VP\nä X O\n".encode()
CONLLU = (
    b"# newpar\n# text = ab c\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\ta\tN\t_\tA=B|C=D\t2\tdet\t_\t_\n"
    b"2\tb\tb\tV\t_\t_\t0\troot\t_\tSpaceAfter=No\n2.1\tx\tx\tV\t_\t_\t_\t_\t_\t_\n3\tc\tc\tN\tY\t_\t2\tobj\t_\t_\n\n"
    b"1\ta\ta\tN\t_\t_\t0\troot\t_\t_\n\n"
)
SVMLIGHT = b"1 1:0.5 3:2e-3 # note\n-1 2:1\n2 1:1 2:-7.25\n+1 qid:3 1:.5\n"
CSV = b'a,b,label\n1,2.5,x\n3,"4",y\n-1e5,0,x\n"a ""b""",,y\n'
ITEMS = b"B\tw=the\tcap:0.5\nI\tw=cat\tx\\:y:2\n\nO\tx\n"
RUN = b'{"run": 1, "spom": "0.1", "task": "tagger", "history": [{"epoch": 1, "loss": 0.5}], "data": {}}'
TEMPLATES = b"# Unigram\nU00:%x[-1,0]\nU01:%x[0,0]/%x[1,1]\n\nB\n"


def _table(file: Any, form: CsvForm = PLAIN_CSV) -> Any:
    found = []
    for table in read_table(file, "csv", 2, form):
        labels(table.column(table.names[-1]), "", table.lines)
        found.append(table.numbers(table.names[:1]))
    return found


def _svmlight_file(path: Path) -> Any:
    file = SvmlightFile(path, block_rows=2)
    return [file.n_features, file.n_rows, file.labels, [X.sum() for X, _ in file]]


def _parquet_numbers(data: bytes) -> Any:
    return [table.numbers(table.names[:1]) for table in read_table(io.BytesIO(data), "parquet")]


def parquet(folder: Path) -> bytes | None:
    """Return a small table, if pyarrow is installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2, 3], "label": ["x", "y", "x"]}), folder / "t.parquet")
    return (folder / "t.parquet").read_bytes()


# By name: what to start from, and what reads it: a binary file.
READERS: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    "conll": (CONLL, lambda file: read_conll(file)),
    "conll-blocks": (CONLL, lambda file: list(read_conll_blocks(file))),
    "conllu": (CONLLU, lambda file: read_conllu(file).columns.strings("form")),
    "conllu-blocks": (CONLLU, lambda file: list(iter_conllu(file, 40))),
    "conllu-surface": (CONLLU, lambda file: Surface.of(read_conllu(file)).text()),
    "svmlight": (SVMLIGHT, lambda file: list(read_svmlight(file))),
    "svmlight-zero-based": (SVMLIGHT, lambda file: list(read_svmlight(file, zero_based=True))),
    "csv": (CSV, _table),
    "csv-plain": (CSV, lambda file: read_table_fast(file.read(), "label")),
    "csv-no-header": (CSV, lambda file: _table(file, CsvForm(header=False))),
    "items": (ITEMS, lambda file: read_items(file)),
    "items-blocks": (ITEMS, lambda file: list(iter_items(file, 1))),
    "templates": (TEMPLATES, lambda file: read_templates(file)),
    "clusters": (b"cat\t0110\ndog\t0111\n", lambda file: Clusters.read(file)),
}
# The same for what reads a path: a name by which the file is known, and its reader.
PATHS: dict[str, tuple[bytes, str, Callable[[Path], Any]]] = {
    "svmlight-stream": (SVMLIGHT, "file.svm", _svmlight_file),
    "conll-gzip": (gzip.compress(CONLL, mtime=0), "file.gz", lambda path: read_conll(path)),
    "vectors-csv": (CSV, "file.csv", lambda path: read_vectors(str(path), Layout(), False)),
    "vectors-svmlight": (SVMLIGHT, "file.svm", lambda path: read_vectors(str(path), Layout(), False)),
    "run-record": (RUN, "file.json", lambda path: read_run(path)),
}


def reading(folder: Path) -> dict[str, tuple[bytes, Callable[[bytes], Any]]]:
    """Return by name the bytes to start from, and the function that reads bytes."""
    found: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
        name: (seed, lambda data, read=read: read(io.BytesIO(data))) for name, (seed, read) in READERS.items()
    }
    for name, (seed, file, read_path) in PATHS.items():

        def use(data: bytes, file: str = file, read_path: Callable[[Path], Any] = read_path) -> Any:
            (folder / file).write_bytes(data)
            return read_path(folder / file)

        found[name] = (seed, use)
    table = parquet(folder)
    if table is not None:
        found["parquet"] = (table, _parquet_numbers)
    return found
