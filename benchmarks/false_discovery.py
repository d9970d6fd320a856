"""Is the false discovery rate held? `python -m benchmarks false_discovery[:taggers|parsers|kernels[,DRAWS]]`.

A false discovery is a block of planted noise that is kept; each draw has different data and noise.

- taggers: CoNLL-2000's training sentences with the 19 templates of chunking, and 19 more whose features are drawn at
  random for each token, from Zipf's law with as many features as one of the real ones.
- parsers: 300 training sentences of English EWT whose lemmas, XPOS and features are drawn in the same way: 18 families
  of templates of words and UPOS, and 18 of the noise.
- kernels: 120 rows of scikit-learn's breast cancer table with a Gaussian kernel on each of the 30 columns, and 30 more
  on the same columns with their rows permuted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from benchmarks.common import Table, data_folder
from spom.data import read_conll, read_conllu
from spom.estimators.parser.defaults import chosen_penalty
from spom.estimators.tagger.inputs import label_codes, make_features, split_labels
from spom.features.arc_sets import parse_template
from spom.features.arcs import ArcTemplates, with_roots
from spom.features.rows import Blocks
from spom.kernels import Gaussian
from spom.solvers.mkl.knockoffs import select_kernels
from spom.solvers.structured.chains.data import Tokens, as_blocks, as_tokens
from spom.solvers.structured.chains.knockoffs import discover
from spom.solvers.structured.trees.knockoffs import discover_arcs

RATE, NOISE, SENTENCES = 0.1, 19, 1000
TREES, ROWS = 300, 120


def planted(tokens: Tokens, blocks: Blocks, random: np.random.Generator) -> tuple[Tokens, Blocks]:
    """Return the features followed by blocks of noise, with one feature of each block per token."""
    sizes = random.choice(blocks.sizes, NOISE)
    more = []
    for size in sizes.tolist():
        chance = 1.0 / np.arange(1, size + 1)
        more.append(random.choice(size, tokens.total, p=chance / chance.sum()))
    starts = np.concatenate([blocks.starts, blocks.total + np.cumsum(sizes)])
    first = np.concatenate([[blocks.total], blocks.total + np.cumsum(sizes)[:-1]])
    noise = np.stack(more, axis=1) + first
    rows = [
        np.concatenate([tokens.indices[tokens.indptr[t] : tokens.indptr[t + 1]], noise[t]]) for t in range(tokens.total)
    ]
    indptr = np.concatenate([[0], np.cumsum([row.size for row in rows])]).astype(np.int64)
    names = (*blocks.names, *(f"noise {m}" for m in range(NOISE)))
    indices = np.concatenate(rows).astype(np.int32)
    return Tokens(indptr, indices, tokens.values, tokens.offsets), Blocks(names, starts.astype(np.int64))


def taggers(draws: int) -> None:
    """Run templates of chunks."""
    X, y = split_labels(read_conll(found_folder() / "conll2000" / "train.txt.gz"), None)
    source = make_features("chunking", X)
    rows = source.fit(X)
    codes, labels = label_codes(y, rows.offsets)
    blocks = as_blocks(source.blocks)
    tokens, forbidden = as_tokens(rows, blocks.total), np.zeros((labels.size + 2, labels.size))

    def kept(draw: int) -> Any:
        random = np.random.default_rng(draw)
        part = np.sort(random.permutation(len(tokens))[:SENTENCES])
        inside = np.repeat(np.isin(np.arange(len(tokens)), part), np.diff(tokens.offsets))
        some, every = planted(tokens.part(part), blocks, random)
        return discover(some, codes[inside], every, forbidden, RATE, random_state=draw).kept

    report("templates of chunks", kept, len(blocks), NOISE, draws)


# Families of templates of words and UPOS, and similar ones of noise columns. None of these reads one column at
# different places of both sides: if both are the same word, equal values would reveal it.
REAL = [
    *("h.form", "h.suffix", "h.prefix", "h.upos", "h-1.upos h.upos", "h.upos h+1.upos", "h-1.upos h.upos h+1.upos"),
    *("m.form dir", "m.suffix dir", "m.upos dir", "m-1.upos m.upos dir", "m.upos m+1.upos dir", "h.upos m.upos"),
    *("h.upos m.upos gap", "h.upos m.upos between.upos", "h.upos m-1.upos m.upos", "h.upos m.upos m+1.upos"),
    "h.form m.form",
]
DRAWN = [
    *(
        "h.lemma",
        "h.xpos",
        "h.feats",
        "m.lemma dir",
        "m.xpos dir",
        "m.feats dir",
        "h-1.xpos h.xpos",
        "h.feats h+1.feats",
    ),
    *(
        "h.lemma m.lemma",
        "h.xpos m.xpos",
        "h.feats m.feats",
        "h-1.lemma m.xpos",
        "h.xpos m-1.feats",
        "h+1.feats m.lemma",
    ),
    *("m-1.xpos m.xpos dir", "m.lemma m+1.lemma dir", "h.xpos m.feats", "h.lemma m.xpos"),
]


def parsers(draws: int) -> None:
    """Run templates of arcs."""
    bank = read_conllu(found_folder() / "ewt" / "en_ewt-ud-train.conllu.gz")
    noisy = {"lemma": 2000, "xpos": 45, "feats": 100}
    penalty = chosen_penalty("group-lasso", TREES)

    def kept(draw: int) -> Any:
        random = np.random.default_rng(draw)
        some = bank[np.sort(random.permutation(len(bank))[:TREES])]
        columns: dict[str, Any] = {}
        for name, size in noisy.items():
            chance = 1.0 / np.arange(1, size + 1)
            codes = random.choice(size, some.n_words, p=chance / chance.sum())
            columns[name] = codes, tuple(f"n{k}" for k in range(size))
        some = some.with_columns(**columns)
        templates = ArcTemplates([*REAL, *DRAWN])
        codes = templates.fit(some)
        gold = with_roots(some.heads, codes)
        found = discover_arcs(templates, codes, gold, penalty, RATE, projective=True, seed=draw)
        real = {parse_template(name)[0].name for name in REAL}
        # Noise is numbered after the real ones.
        return np.array([len(REAL) * (found.families[m] not in real) for m in found.found.tolist()])

    report("families of templates of arcs", kept, len(REAL), len(DRAWN), draws)


def kernels(draws: int) -> None:
    """Run kernels on single columns."""
    X, y = load_breast_cancer(return_X_y=True)
    columns = X.shape[1]

    def kept(draw: int) -> Any:
        random = np.random.default_rng(draw)
        part = random.permutation(y.size)[:ROWS]
        table = np.hstack([X[part], np.stack([random.permutation(column) for column in X[part].T], axis=1)])
        table = (table - table.mean(axis=0)) / table.std(axis=0)
        targets = (y[part] - y[part].mean())[:, None]

        def block(m: int, rows: Any) -> Any:
            return Gaussian(1.0).block(table[rows, m : m + 1])

        return select_kernels(block, 2 * columns, targets, RATE, draw).kept

    report("kernels on columns", kept, columns, columns, draws)


def report(what: str, kept: Callable[[int], Any], real: int, noise: int, draws: int) -> None:
    """Report the mean share of noise among the kept, and of real ones kept; noise is numbered from `real` on."""
    begin = time.process_time()
    shares, power = [], []
    for draw in range(draws):
        found = kept(draw)
        false = int((found >= real).sum())
        shares.append(false / max(1, found.size))
        power.append((found.size - false) / real)
    table = Table(f"{what}: {noise} of noise beside {real}, rate {RATE} promised, {draws} draws (ours)")
    mean, error = float(np.mean(shares)), float(np.std(shares) / np.sqrt(draws))
    table.add("mean share of noise among the kept", mean, RATE, "<= .1", mean <= RATE)
    table.add("  its standard error", error, 0.0)
    table.add("share of the real ones kept, mean", float(np.mean(power)), 1.0)
    table.add("CPU seconds of a draw", (time.process_time() - begin) / draws, unit=" s")


def found_folder() -> Path:
    """Return the folder with the data sets."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("  (no data: set SPOM_DATA)")
    return Path(folder)


PARTS = {"taggers": taggers, "parsers": parsers, "kernels": kernels}


def main(part: str = "") -> None:
    """Run all parts, or one."""
    name, _, draws = part.partition(",")
    for one in [name] if name else PARTS:
        PARTS[one](int(draws or 50))
