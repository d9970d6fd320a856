"""Tokens per second of the decoders, from ready scores, one thread.

Chains race CRFsuite (python-crfsuite), on a model that it trained and with that model's scores: both find the same
labels. Its features are looked up before the clock starts. For marginals, which it caches, the time of that lookup is
measured and subtracted. For trees no peer can be installed from an index, so they race the same algorithms in plain
numpy, below. Ours is timed through the public methods, with all their checks.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table, race
from spom.decoders import Chain, ChainParts, NonProjectiveTree, ProjectiveTree
from spom.decoders.viterbi import viterbi

LABELS = 22  # as CoNLL-2000 has


def lengths(rng: np.random.Generator, mean: float, count: int) -> Any:
    """Draw lengths of sentences: a few long ones, many short ones."""
    return np.clip(rng.lognormal(math.log(mean) - 0.2, 0.63, count).astype(int), 1, 120)


def crfsuite_problem(rng: np.random.Generator, folder: Path, sizes: Any) -> tuple[Any, list[Any], list[ChainParts]]:
    """Return a model of CRFsuite, the sentences as it takes them, and their scores as we take them."""
    import pycrfsuite

    words = 400
    sentences = [rng.integers(0, words, n) for n in sizes]
    liking = 2.0 * rng.standard_normal((words, LABELS))
    trainer = pycrfsuite.Trainer(verbose=False)
    for x in sentences:
        y = (liking[x] + rng.gumbel(size=(x.size, LABELS))).argmax(axis=1)
        trainer.append([[f"w{a}"] for a in x], [f"L{a}" for a in y])
    extra = {"feature.possible_states": True, "feature.possible_transitions": True}
    trainer.set_params({"max_iterations": 30, "c2": 0.1, **extra})
    path = str(folder / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    known = {label: i for i, label in enumerate(tagger.labels())}
    info = tagger.info()
    state, transition = np.zeros((words, len(known))), np.zeros((len(known), len(known)))
    for (attribute, label), weight in info.state_features.items():
        state[int(attribute[1:]), known[label]] = weight
    for (a, b), weight in info.transitions.items():
        transition[known[a], known[b]] = weight
    items = [pycrfsuite.ItemSequence([[f"w{a}"] for a in x]) for x in sentences]
    return path, items, [ChainParts(state[x], transition) for x in sentences]


def chains(table: Table) -> None:
    import pycrfsuite

    rng = np.random.default_rng(0)
    sizes = lengths(rng, 24, 150)
    tokens, decoder = int(sizes.sum()), Chain()
    with tempfile.TemporaryDirectory() as folder:
        path, items, scores = crfsuite_problem(rng, Path(folder), sizes)
        taggers = []
        for item in items:
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            tagger.set(item)
            taggers.append(tagger)
        names = taggers[0].labels()

        def lookup() -> None:
            for tagger, item in zip(taggers, items, strict=True):
                tagger.set(item)

        def lookup_and_marginals() -> list[float]:
            lookup()
            return [tagger.marginal(names[0], 0) for tagger in taggers]

        ours, peer = race(lambda: [decoder.best(s) for s in scores], lambda: [t.tag() for t in taggers])
        same = all([names[a] for a in y] == t for y, t in zip(ours.result, peer.result, strict=True))
        table.add(f"Viterbi, {LABELS} labels, ns/token", *per_token(ours, peer, tokens), "same labels", same)
        rate(table, "Viterbi", ours.seconds, tokens)
        ours, peer, found = race(lambda: [decoder.marginals(s) for s in scores], lookup_and_marginals, lookup)
        close = np.allclose([e.unary[0, 0] for e, _ in ours.result], peer.result, atol=1e-6)
        seconds = (ours.seconds * 1e9 / tokens, (peer.seconds - found.seconds) * 1e9 / tokens)
        table.add(f"forward-backward, {LABELS} labels, ns/token", *seconds, "same marginals", bool(close))
        rate(table, "forward-backward", ours.seconds, tokens)
        zero, outs = np.zeros(len(names)), [np.empty(n, dtype=np.int64) for n in sizes]
        pairs = list(zip(scores, outs, strict=True))
        inner, peer = race(
            lambda: [viterbi(s.unary, s.transition, zero, zero, out) for s, out in pairs],
            lambda: [t.tag() for t in taggers],
        )
        table.add("Viterbi, the compiled function alone, ns/token", *per_token(inner, peer, tokens))
        several = race(lambda: [decoder.kbest(s, 10) for s in scores])[0]
        table.add("10 best, ns/token", several.seconds * 1e9 / tokens)


def per_token(ours: Any, peer: Any, tokens: int) -> tuple[float, float]:
    return ours.seconds * 1e9 / tokens, peer.seconds * 1e9 / tokens


def rate(table: Table, what: str, seconds: float, tokens: int) -> None:
    table.add(f"  {what}: tokens/s", tokens / seconds)


def numpy_arborescence(s: Any) -> Any:
    """Return heads, 0 for the root, by Chu-Liu and Edmonds with contraction in numpy; s[h, m] is -inf for no arc."""
    N = s.shape[0]
    heads = s.argmax(axis=0)
    heads[0] = 0
    colour = np.zeros(N, dtype=int)
    for start in range(1, N):
        at = start
        while at and not colour[at]:
            colour[at] = start
            at = heads[at]
        if at and colour[at] == start:
            break
    else:
        return heads
    cycle = [at]
    while heads[cycle[-1]] != at:
        cycle.append(int(heads[cycle[-1]]))
    inside = np.array(cycle)
    rest = np.setdiff1d(np.arange(N), inside)
    into = s[np.ix_(rest, inside)] - s[heads[inside], inside]
    out = s[np.ix_(inside, rest)]
    small = np.full((rest.size + 1, rest.size + 1), -np.inf)
    small[:-1, :-1] = s[np.ix_(rest, rest)]
    small[:-1, -1], small[-1, :-1] = into.max(axis=1), out.max(axis=0)
    small[:, 0] = -np.inf
    found = numpy_arborescence(small)
    for i, word in enumerate(rest):
        if i:
            heads[word] = inside[out[:, i].argmax()] if found[i] == rest.size else rest[found[i]]
    heads[inside[into[found[-1]].argmax()]] = rest[found[-1]]
    return heads


def numpy_eisner(s: Any) -> float:
    """Return the best projective score, with numpy over the splits of a span (no back pointers: less work than we)."""
    N = s.shape[0]
    right, left = np.full((N, N), -np.inf), np.full((N, N), -np.inf)
    to_right, to_left = right.copy(), left.copy()
    np.fill_diagonal(right, 0.0)
    np.fill_diagonal(left, 0.0)
    for width in range(1, N):
        for i in range(N - width):
            j = i + width
            inner = (right[i, i:j] + left[i + 1 : j + 1, j]).max()
            to_right[i, j], to_left[i, j] = inner + s[i, j], inner + s[j, i]
            right[i, j] = (to_right[i, i + 1 : j + 1] + right[i + 1 : j + 1, j]).max()
            left[i, j] = (left[i, i:j] + to_left[i:j, j]).max()
    return float(right[0, N - 1])


def numpy_matrix_tree(s: Any) -> Any:
    """Return marginals from the inverse of the Laplacian, which are exact only if scores are not peaked."""
    A = np.exp(s)
    L = np.diag(A[:, 1:].sum(axis=0)) - A[1:, 1:]
    inverse = np.linalg.inv(L)
    out = np.zeros_like(A)
    diagonal = np.diagonal(inverse)
    out[0, 1:] = A[0, 1:] * diagonal
    out[1:, 1:] = A[1:, 1:] * (diagonal - inverse.T)
    return out


def trees(table: Table, what: str, sizes: Any, repeats: int) -> None:
    rng = np.random.default_rng(1)
    many = []
    for n in sizes:
        s = 2.0 * rng.standard_normal((n + 1, n + 1))
        s[:, 0] = -np.inf
        np.fill_diagonal(s, -np.inf)
        many.append(s)
    tokens = int(sizes.sum())
    free, single, flat = NonProjectiveTree(), NonProjectiveTree(single_root=True), ProjectiveTree()
    ours, peer = race(
        lambda: [free.best(s) for s in many], lambda: [numpy_arborescence(s) for s in many], repeats=repeats
    )
    same = all((a == b[1:]).all() for a, b in zip(ours.result, peer.result, strict=True))
    table.add(f"arborescence, {what}, us/token", *micro(ours, peer, tokens), "same trees", same)
    rate(table, "arborescence", ours.seconds, tokens)
    one = race(lambda: [single.best(s) for s in many], repeats=repeats)[0]
    table.add(f"arborescence with a single root, {what}, us/token", one.seconds * 1e6 / tokens)
    ours, peer = race(lambda: [flat.best(s) for s in many], lambda: [numpy_eisner(s) for s in many], repeats=repeats)
    scores = [flat.score(s, y) for s, y in zip(many, ours.result, strict=True)]
    same = bool(np.allclose(scores, peer.result))
    table.add(f"Eisner, {what}, us/token", *micro(ours, peer, tokens), "same scores", same)
    rate(table, "Eisner", ours.seconds, tokens)
    ours, peer = race(
        lambda: [free.marginals(s)[0] for s in many], lambda: [numpy_matrix_tree(s) for s in many], repeats=repeats
    )
    same = all(np.allclose(a, b, atol=1e-8) for a, b in zip(ours.result, peer.result, strict=True))
    table.add(f"matrix-tree marginals, {what}, us/token", *micro(ours, peer, tokens), "same marginals", same)
    peaked = race(lambda: [free.marginals(200.0 * s)[0] for s in many], repeats=repeats)[0]
    table.add(f"  the same for peaked scores (logarithms), {what}, us/token", peaked.seconds * 1e6 / tokens)
    outside = race(lambda: [flat.marginals(s)[0] for s in many], repeats=repeats)[0]
    table.add(f"inside-outside, {what}, us/token", outside.seconds * 1e6 / tokens)


def micro(ours: Any, peer: Any, tokens: int) -> tuple[float, float]:
    return ours.seconds * 1e6 / tokens, peer.seconds * 1e6 / tokens


def main(part: str = "") -> None:
    """Print both tables, or only `chains` or `trees`."""
    if part in ("", "chains"):
        table = Table("Chains beside CRFsuite, from ready scores")
        try:
            import pycrfsuite  # noqa: F401 - only whether it is there
        except ImportError:
            print("  (skipped: install the extra `bench` for python-crfsuite)")
        else:
            chains(table)
    if part in ("", "trees"):
        table = Table("Trees beside plain numpy")
        rng = np.random.default_rng(2)
        trees(table, "mean 16 words", lengths(rng, 16, 60), 5)
        trees(table, "100 words", np.array([100]), 3)


if __name__ == "__main__":
    main()
