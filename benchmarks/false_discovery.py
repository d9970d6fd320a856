"""Is the false discovery rate held? `python -m benchmarks.false_discovery [draws]`.

CoNLL-2000's training sentences with the 19 templates of chunking, and 19 more whose features are drawn at random for
each token, from Zipf's law with as many features as one of the real ones. Each draw takes other sentences and other
noise; a false discovery is a noise template that is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.common import Table, data_folder
from spom.data import read_conll
from spom.estimators.tagger.inputs import label_codes, make_features, split_labels
from spom.features.rows import Blocks
from spom.solvers.structured.chains.data import Tokens, as_blocks, as_tokens
from spom.solvers.structured.chains.knockoffs import discover

RATE, NOISE, SENTENCES = 0.1, 19, 1000


def planted(tokens: Tokens, blocks: Blocks, random: np.random.Generator) -> tuple[Tokens, Blocks]:
    """The features, and blocks of noise after them: one feature of each for each token."""
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


def main() -> None:
    """The mean share of noise among what is kept."""
    folder, draws = data_folder(), int(sys.argv[1]) if len(sys.argv) > 1 else 50
    if folder is None:
        print("  (no data: set SPOM_DATA)")
        return
    X, y = split_labels(read_conll(Path(folder) / "conll2000" / "train.txt.gz"), None)
    source = make_features("chunking", X)
    rows = source.fit(X)
    codes, labels = label_codes(y, rows.offsets)
    blocks = as_blocks(source.blocks)
    tokens, forbidden = as_tokens(rows, blocks.total), np.zeros((labels.size + 2, labels.size))
    shares, real = [], []
    for draw in range(draws):
        random = np.random.default_rng(draw)
        part = np.sort(random.permutation(len(tokens))[:SENTENCES])
        inside = np.repeat(np.isin(np.arange(len(tokens)), part), np.diff(tokens.offsets))
        some, every = planted(tokens.part(part), blocks, random)
        found = discover(some, codes[inside], every, forbidden, RATE, random_state=draw)
        false = int((found.kept >= len(blocks)).sum())
        shares.append(false / max(1, found.kept.size))
        real.append(found.kept.size - false)
    table = Table(f"{NOISE} noise templates beside {len(blocks)}, rate {RATE} promised, {draws} draws (ours)")
    mean, error = float(np.mean(shares)), float(np.std(shares) / np.sqrt(draws))
    table.add("mean share of noise among the kept", mean, RATE, "<= .1", mean <= RATE)
    table.add("  its standard error", error, 0.0)
    table.add("real templates kept, mean", float(np.mean(real)), len(blocks))


if __name__ == "__main__":
    main()
