"""A pipeline within a size: as few small weights as possible are dropped in each stage, and the others rounded."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spom.core.arrays import aligned_singles
from spom.errors import DataError
from spom.estimators.parser.parser import DependencyParser
from spom.estimators.pipeline.segmenter import Segmenter
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.pairs import Pairs, Singles

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1_000_000, "gb": 1_000_000_000}
# Bits of a weight after the first one: an error of 3 %, which deflates to three quarters of half precision's bytes.
_BITS = 4
# The number of shares of a stage's weights to try: from 0 to 63 of 64.
_STEPS = 64


def bytes_of(size: Any) -> int:
    """Return a size in bytes.

    >>> bytes_of("5MB"), bytes_of("500 kB"), bytes_of(1234)
    (5000000, 500000, 1234)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", str(size).lower())
    if found is None or found[2] not in _UNITS or float(found[1]) <= 0:
        raise ValueError(f"size must be a number of bytes, such as '5MB'; it is {size!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def file_bytes(pipeline: Any) -> int:
    """Return the size of a pipeline's model file in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.spom"
        pipeline.save(path)
        return path.stat().st_size


def rounded(weights: Singles) -> Singles:
    """Round weights to few bits, to nearest; zero stays zero.

    >>> rounded(np.array([1.0, 1.02, -3.3, 0.0], dtype=np.float32)).tolist()
    [1.0, 1.0, -3.25, 0.0]
    """
    fraction, exponent = np.frexp(weights)
    scale = np.float32(1 << (_BITS + 1))
    return np.ldexp(np.rint(fraction * scale) / scale, exponent).astype(np.float32)


def without_small(weights: Singles, share: float) -> Singles:
    """Set the smallest weights to zero, this share of the non-zero ones, and round the others."""
    size = np.abs(weights)
    there = size[size > 0]
    if there.size and share > 0:
        low = np.partition(there, int(share * (there.size - 1)))[int(share * (there.size - 1))]
        weights = np.where(size < low, np.float32(0.0), weights)
    return rounded(weights)


def cut_pairs(weights: SparseWeights, share: float) -> SparseWeights:
    """Drop the smallest weights of pairs."""
    values = without_small(weights.values, share)
    kept = values != 0.0
    before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    starts = np.ascontiguousarray(before[weights.pairs.starts])
    pairs = Pairs(starts, weights.pairs.labels[kept], weights.pairs.parts)
    return SparseWeights(pairs, values[kept], weights.chain)


def cut_segmenter(stage: Segmenter, share: float) -> Segmenter:
    """Drop the smallest weights of characters, and features without a weight."""
    weights = without_small(stage.weights, share)
    used = weights.any(axis=1)
    rows = np.ascontiguousarray(weights[used])
    kept = stage.slots.templates, stage.known, stage.whole
    return Segmenter.of(stage.places[used], rows, stage.chain, stage.ends, *kept)


def cut_words(stage: Any, share: float) -> Any:
    """Drop the smallest weights of tags or lemmas, and features without a weight; the dictionary is kept."""
    weights = cut_pairs(stage.weights, share)
    used = weights.used()
    return replace(stage, templates=stage.templates.compact(used), weights=weights.only(used))


def cut_parser(parser: DependencyParser, share: float) -> DependencyParser:
    """Drop the smallest weights of all stages of a parser."""
    found = DependencyParser(**parser.get_params(deep=False))
    held = dict(vars(parser))
    for name in ("arcs_", "second_", "labels_"):
        if held[name] is not None:
            weights = aligned_singles(held[name].weights.size)
            weights[:] = without_small(held[name].weights, share)
            held[name] = replace(held[name], stored=weights)
    found.__dict__.update(held)
    return found


# Stages before the parser keep more weights than the parser, by this factor: their errors become its own.
# EWT's dev set at 5 MB: LAS .770 with .6, .797 with 1, .803 with 1.6; .809 whole.
_FIRST = 1.6


def cut(stages: dict[str, Any], share: float) -> dict[str, Any]:
    """Return the stages of a pipeline without a share of their weights, less in the stages before the parser."""
    before = max(0.0, 1.0 - _FIRST * (1.0 - share)) if stages["parser_"] is not None else share
    how = {"segmenter_": cut_segmenter, "tagger_": cut_words, "lemmatizer_": cut_words, "parser_": cut_parser}
    shares = {**dict.fromkeys(how, before), "parser_": share}
    return {name: None if stage is None else how[name](stage, shares[name]) for name, stage in stages.items()}


def shrink(pipeline: Any, size: int) -> None:
    """Drop as few weights as needed for a model file of `size` bytes: the smallest share that is enough.

    A second stage of the parser is dropped first if half of all weights would be otherwise: it is worth less.
    Second order is worth more, and is dropped only if nothing else is small enough.
    """
    stages = {name: vars(pipeline)[name] for name in ("segmenter_", "tagger_", "lemmatizer_", "parser_")}

    def fits(share: float) -> bool:
        vars(pipeline).update(cut(stages, share))
        return file_bytes(pipeline) <= size

    parser = stages["parser_"]
    most = (_STEPS - 1) / _STEPS if getattr(parser, "order_", 1) == 2 else 0.5
    if parser is not None and parser.second_ is not None and not fits(most):
        stages["parser_"] = DependencyParser(**parser.get_params(deep=False))
        stages["parser_"].__dict__.update({**vars(parser), "second_": None})
    low, high = 0, _STEPS - 1
    if not fits(high / _STEPS):
        least = file_bytes(pipeline)
        vars(pipeline).update(stages)
        raise DataError(f"the smallest model for these data has {least / 1e6:.1f} MB: ask for more than {size / 1e6:g}")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle / _STEPS) else (middle + 1, high)
    fits(high / _STEPS)
