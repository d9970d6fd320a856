"""Tokens and sentences of a text: one of four labels for each character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Ints, offsets_of
from spom.core.container import check_indices, check_shape, take
from spom.core.jit import kernel
from spom.data.surface import Surface
from spom.errors import ModelFileError
from spom.estimators.pipeline.characters import (
    BITS,
    FORMER,
    MOST,
    OLDER,
    STOP,
    TEMPLATES,
    Characters,
    Points,
    Runs,
    character_hashes,
    character_places,
    characters_of,
    lowered,
    number_places,
    places_before,
    runs_of,
    without,
)
from spom.estimators.pipeline.patterns import PATTERNS, agreeing, impose
from spom.estimators.pipeline.sentences import SentenceEnds, Spans
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.sparse.pairs import Singles
from spom.solvers.structured.chains.sparse.solver import SparseChain

# The token continues after the character; it ends there; the sentence ends there too; the character is outside tokens.
INSIDE, END, LAST, OUTSIDE = range(4)
# The number of characters learnt at a time; long enough for a few sentences, and cut anywhere.
_PIECE = 300
# Chosen on the dev sets of EWT, Greek and Irish: 2e-6 to 1e-5 differ by .0002 in tokens and .003 in sentences, and so
# do 6 and 10 epochs. 1e-5 needs .85 of the weights of 5e-6 on EWT.
STRENGTH = 1e-5
EPOCHS = 6
# Labels for which every feature has a weight, seen together or not. Without these weights nothing is against a token
# that continues after `(`, and scores of neighbouring labels decide. Words of held-out sentences, means of 12
# treebanks: from 800 sentences 98.04 without and 98.10 with them, from 80 95.98 and 96.03.
WEIGHED = (INSIDE, END, LAST)
# A text of up to SMALL characters has a reading as it is, and `LEARNERS` more, each feature kept with the probability
# `KEPT` and each punctuation mark hidden with the probability `HIDDEN`. So general features are learnt where memorised
# ones would suffice, and so are marks that were never seen. Each learner makes `PASSES` over all readings but one, and
# the weights are means of theirs. One learner with five passes leaves 9, 30 and 27 wrong tokens of one German quarter
# with three seeds. Wrong tokens of 14 held-out quarters and dev sets, geometric mean of the ratios to that one, means
# of two seeds or three: .89 (best .61, worst 1.11); from 40 sentences (six treebanks) 1.01; Vietnamese 1.01. Not
# better: log loss, a larger margin, a smaller or larger strength, means over passes, hidden words, templates of
# brackets that match. EWT is too large for several readings: one learner with six passes leaves 274 wrong tokens, a
# mean of three with two passes 312. It is not used if most runs are of a script without blanks: it lost in Chinese.
SMALL, LEARNERS, PASSES, KEPT, HIDDEN = 300_000, 4, 2, 0.75, 0.2
# For a text with a number of characters in this range, the text itself decides whether neighbouring labels have scores
# (see `better_chained`). Words, 800 sentences, with scores and without: German 99.65 and 99.77, Vietnamese 84.72 and
# 85.39, Turkish 97.03 and 97.06, EWT 98.30 and 97.67, Afrikaans 99.84 and 99.78. The first three choose to have none.
# From 80 sentences the choice is wrong as often as right, and from 3,000 on both are within .02, except for EWT (99.51
# and 99.40): there are scores in these cases.
CHOSEN = (20_000, 300_000)
_EVERY: Points = np.empty(0, dtype=np.uint32)
_NONE: Ints = np.empty(0, dtype=np.int64)


class Slots(NamedTuple):
    """A table from places of features to rows of weights: with linear probing; 0 is an empty slot, else place + 1.

    Characters use the first `templates` templates.
    """

    keys: Annotated[NDArray[np.int32], "int32[::1]"]
    rows: Annotated[Singles, "float32[:, ::1]"]
    chain: Annotated[Singles, "float32[:, ::1]"]
    templates: Annotated[int, "int64"]


@kernel("void(int32[::1], float32[:, ::1], Slots)")
def fill(places: NDArray[np.int32], weights: Singles, slots: Slots) -> None:
    """Put the weights of all places into an empty table."""
    last = slots.keys.size - 1
    for j in range(places.size):
        at = places[j] & last
        while slots.keys[at] != 0:
            at = (at + 1) & last
        slots.keys[at] = places[j] + 1
        slots.rows[at] = weights[j]


class Labels(NamedTuple):
    """Labels of characters, and the score of the end of a sentence minus that of the end of a token alone."""

    label: Annotated[NDArray[np.int8], "int8[::1]"]
    margin: Annotated[Singles, "float32[::1]"]


@kernel("void(Characters, Runs, Slots, int64, int64, Labels)")
def label_piece(text: Characters, runs: Runs, slots: Slots, first: int, end: int, out: Labels) -> None:
    """Find the best labels of the characters first to end - 1; a sentence ends at the last one that is no blank."""
    n, last = end - first, slots.keys.size - 1
    hashes, low = np.empty(slots.templates, dtype=np.uint64), np.float32(-1e9)
    window = np.empty((3, 9), dtype=np.uint64)
    alpha, back = np.empty(4, dtype=np.float32), np.empty((n, 4), dtype=np.int8)
    score, before = np.empty(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    for i in range(n):
        count = character_hashes(text, runs, first + i, window, hashes)
        score[:] = np.float32(0.0)
        for v in range(count):
            place = np.int32((hashes[v] * np.uint64(10376313370251892927)) >> np.uint64(42))
            at = place & last
            while slots.keys[at] != 0 and slots.keys[at] != place + 1:
                at = (at + 1) & last
            if slots.keys[at] != 0:
                for a in range(4):
                    score[a] += slots.rows[at, a]
        out.margin[first + i] = score[2] - score[1]
        blank = text.kinds[first + i] == 1
        score[1 if blank else 3] = low
        if blank:
            score[2] = low
        if i == n - 1 or (text.points[first + i + 1] == 10 and not blank):
            # A paragraph ends: no token continues.
            score[0] = low
            if not blank:
                score[1], out.margin[first + i] = low, -low
        for b in range(4):
            best, where = low * np.float32(4.0), 0
            for a in range(4):
                step = before[a] + (slots.chain[a, b] if i > 0 else np.float32(0.0))
                if a == 0 and b == 3 and i > 0:
                    step += low
                if step > best:
                    best, where = step, a
            alpha[b], back[i, b] = best + score[b], where
        top = max(max(alpha[0], alpha[1]), max(alpha[2], alpha[3]))
        for b in range(4):
            before[b] = alpha[b] - top
    at_label = 0
    for b in range(4):
        if before[b] > before[at_label]:
            at_label = b
    follows = 3
    for i in range(n - 1, -1, -1):
        out.label[first + i], before_label = at_label, back[i, at_label]
        if i > 0:
            out.margin[first + i] += slots.chain[before_label, 2] - slots.chain[before_label, 1]
        out.margin[first + i] += slots.chain[2, follows] - slots.chain[1, follows]
        at_label, follows = before_label, at_label


@kernel("void(Characters, Runs, Slots, int64[:, ::1], Labels)")
def label_pieces(text: Characters, runs: Runs, slots: Slots, bounds: Ints, out: Labels) -> None:
    """Find the best labels of all pieces of a text; a row of `bounds` has the first character and end of a piece."""
    for p in range(bounds.shape[0]):
        label_piece(text, runs, slots, bounds[p, 0], bounds[p, 1], out)


@kernel("int64(Characters, int8[::1], int64[::1], int64[::1], boolean[::1])")
def read_labels(text: Characters, labels: NDArray[np.int8], begin: Ints, end: Ints, last: NDArray[np.bool_]) -> int:
    """Read tokens from labels: where each begins and ends, and whether it ends a sentence; return their number."""
    count, start = 0, -1
    for i in range(labels.size):
        if labels[i] == 3:
            continue
        if start < 0:
            if text.kinds[i] == 1:
                continue
            start = i
        if labels[i] != 0:
            begin[count], end[count], last[count] = start, i + 1, labels[i] == 2
            count, start = count + 1, -1
        elif i == labels.size - 1:
            begin[count], end[count], last[count] = start, i + 1, True
            count += 1
    if count > 0:
        last[count - 1] = True
    return count


@dataclass(frozen=True)
class Segments:
    """Tokens of a text: characters begin[t] to end[t] - 1; last[t] tells whether a sentence ends with token t."""

    begin: Ints
    end: Ints
    last: NDArray[np.bool_]

    @property
    def offsets(self) -> Ints:
        """Sentence s has the tokens offsets[s] to offsets[s + 1] - 1."""
        return np.concatenate([[0], np.flatnonzero(self.last) + 1]).astype(np.int64)


def tokens_of(text: Characters, labels: NDArray[np.int8]) -> Segments:
    """Return the tokens and sentences given by labels."""
    n = labels.size
    begin, end, last = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.zeros(n, dtype=bool)
    count = int(read_labels(text, labels, begin, end, last))
    return Segments(begin[:count].copy(), end[:count].copy(), last[:count].copy())


@dataclass(frozen=True)
class Segmenter:
    """A fitted segmenter: places of features, a row of four weights for each, and scores of neighbouring labels.

    Punctuation outside the `known` characters is represented by its kind; `known` is empty if all are known. `whole`
    are the numbers of the patterns whose matches are tokens.
    """

    places: NDArray[np.int32]
    weights: Singles
    chain: Singles
    ends: SentenceEnds | None
    slots: Slots
    known: Points
    whole: Ints

    @classmethod
    def of(
        cls,
        places: NDArray[np.int32],
        weights: Singles,
        chain: Singles,
        ends: SentenceEnds | None,
        templates: int = TEMPLATES,
        known: Points = _EVERY,
        whole: Ints = _NONE,
    ) -> Segmenter:
        """Return a segmenter with its table of features."""
        size = 1 << max(4, int(2 * places.size).bit_length())
        slots = Slots(np.zeros(size, dtype=np.int32), np.zeros((size, 4), dtype=np.float32), chain, templates)
        fill(places, weights, slots)
        return cls(places, weights, chain, ends, slots, known, whole)

    @classmethod
    def fit(
        cls,
        surface: Surface,
        tags: Ints | None,
        seed: int = 0,
        strength: float = STRENGTH,
        chained: bool | None = None,
        learners: int = LEARNERS,
    ) -> Segmenter:
        """Learn from the tokens and sentences of a treebank; `tags` are numbers of its words, None: no `ends`.

        `chained` tells whether neighbouring labels have scores; None: `better_chained` decides. A small text has up
        to `learners` learners: see `LEARNERS`.
        """
        text, labels = labelled_text(surface)
        if chained is None:
            chosen = CHOSEN[0] < len(text) <= CHOSEN[1]
            chained = not chosen or better_chained(surface, seed, strength)
        characters = characters_of(text)
        lower = lowered(characters.points)
        own, ends = tokens_of(characters, labels.astype(np.int8)), None
        if tags is not None:
            spans, first = Spans(own.begin, own.end), tags[surface.words[:-1]]
            ends = SentenceEnds.fit(characters, lower, spans, own.last, first, seed)
        readings, kept, known = features_of(characters, runs_of(characters, lower), seed)
        weights, chain = mean_weights(readings, kept.size, labels, strength, chained, seed, learners)
        used = np.flatnonzero(weights.any(axis=1))
        whole = agreeing(text, own.begin, own.end)
        return cls.of(kept[used].astype(np.int32), weights[used], chain, ends, known=known, whole=whole)

    def segments(self, text: str) -> Segments:
        """Return the tokens and sentences of a text."""
        n = len(text)
        characters = characters_of(text)
        lower = lowered(characters.points)
        labels = Labels(np.full(n, OUTSIDE, dtype=np.int8), np.zeros(n, np.float32))
        seen = without(characters, marks(characters) & ~np.isin(characters.points, self.known))
        seen = seen if self.known.size else characters
        label_pieces(seen, runs_of(seen, lowered(seen.points)), self.slots, pieces(characters), labels)
        cut = labels.label.copy()
        impose(text, self.whole, labels.label)
        found = tokens_of(characters, labels.label)
        if found.end.size == 0 or self.ends is None:
            return found
        margin = labels.margin[found.end - 1] + self.ends.margins(characters, lower, Spans(found.begin, found.end))
        # Where only a pattern cuts, the score of the end of a sentence means nothing.
        last = (margin > 0.0) & (cut[found.end - 1] != INSIDE)
        last[-1] = True
        return Segments(found.begin, found.end, last)

    def arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a model file."""
        ends = {} if self.ends is None else {f"ends.{name}": array for name, array in self.ends.arrays().items()}
        count = np.array([self.slots.templates])
        own = {"places": self.places, "weights": self.weights, "chain": self.chain, "templates": count}
        return {**own, "known": self.known.astype(np.int32), "whole": self.whole, **ends}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Segmenter:
        """Read and check the arrays that `arrays()` returns."""
        places = check_indices(take(arrays, "places", "i"), 1 << BITS, "places").astype(np.int32)
        weights = check_shape(take(arrays, "weights", "f", 2), (places.size, 4), "weights").astype(np.float32)
        chain = check_shape(take(arrays, "chain", "f", 2), (4, 4), "chain").astype(np.float32)
        ends = {n.removeprefix("ends."): a for n, a in arrays.items() if n.startswith("ends.")}
        # Older files have no ends and no patterns, know all characters, and do not store the number of templates.
        count = take(arrays, "templates", "i").tolist() if "templates" in arrays else [MOST]
        if count not in ([MOST], [OLDER], [FORMER], [TEMPLATES]):
            raise ModelFileError(f"there are no {count} templates of characters: the file is damaged")
        known = take(arrays, "known", "i").astype(np.uint32) if "known" in arrays else _EVERY
        whole = check_indices(take(arrays, "whole", "i"), len(PATTERNS), "whole") if "whole" in arrays else _NONE
        return cls.of(places, weights, chain, SentenceEnds.from_arrays(ends) if ends else None, count[0], known, whole)


def features_of(text: Characters, runs: Runs, seed: int) -> tuple[list[Tokens], Ints, Points]:
    """Return (features of all characters, the places of these features, the characters that count as known).

    For a small text there is one more reading for each learner, with features and punctuation missing: see `KEPT`.
    """
    count, known, draw = text.points.size, _EVERY, np.random.default_rng(seed)
    readings = [reading_of(text, runs)]
    if 0 < count <= SMALL and 2 * np.count_nonzero(runs.whole) >= runs.whole.size:
        known = np.unique(text.points)
        for _ in range(LEARNERS):
            other = without(text, marks(text) & (draw.random(count) < HIDDEN))
            readings.append(reading_of(other, runs_of(other, lowered(other.points))))
    # A feature that occurs once carries no information for other texts; in a tiny treebank any feature may.
    often = np.max([counts for _, _, counts in readings], axis=0)
    kept, number = np.flatnonzero(often >= (2 if count > 20_000 else 1)), often
    number[:] = -1
    number[kept] = np.arange(kept.size)
    offsets = np.append(np.arange(0, count, _PIECE), count).astype(np.int64)
    found = [
        Tokens(indptr, places[: number_places(places, number, indptr)], np.empty(0), offsets)
        for indptr, places, _ in readings
    ]
    return [found[0], *(thinned(tokens, draw) for tokens in found[1:])], kept, known


def mean_weights(
    readings: list[Tokens], features: int, labels: Ints, strength: float, chained: bool, seed: int, learners: int
) -> tuple[Singles, Singles]:
    """Return (weights of features, scores of neighbouring labels): means over learners.

    Each learner leaves out one of the readings but the first; a single reading has one learner.
    """
    weights, chain = np.zeros((features, 4), dtype=np.float32), np.zeros((4, 4), dtype=np.float32)
    count = min(learners, max(1, len(readings) - 1))
    for k in range(count):
        tokens = one_after_another([reading for r, reading in enumerate(readings) if r != k + 1])
        solver = SparseChain(
            tokens, np.tile(labels, tokens.total // max(1, labels.size)), 4, features=features, l1=strength,
            loss="softmax-margin", width=4, reach=40.0, transitions=chained, weighed=WEIGHED,
            epochs=PASSES if len(readings) > 1 else EPOCHS, random_state=seed * LEARNERS + k,
        )  # fmt: skip
        for _ in solver.passes():
            pass
        found = solver.weights()
        row = np.repeat(np.arange(features), np.diff(found.pairs.starts))
        weights[row, found.pairs.labels] += found.values / np.float32(count)
        chain += found.chain[:4] / np.float32(count)
    return weights, chain


def reading_of(text: Characters, runs: Runs) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
    """Return (where the places of each character's templates begin, all places, the frequency of each place)."""
    indptr, counts = places_before(text, runs), np.zeros(1 << BITS, dtype=np.int32)
    places = np.empty(int(indptr[-1]), dtype=np.int32)
    character_places(text, runs, indptr, places, counts)
    return indptr, places, counts


def marks(text: Characters) -> NDArray[np.bool_]:
    """Tell which characters are punctuation, signs, or of no kind."""
    found: NDArray[np.bool_] = text.kinds >= STOP
    return found


def thinned(tokens: Tokens, draw: np.random.Generator) -> Tokens:
    """Return the same tokens, with each feature kept with probability `KEPT`."""
    kept = draw.random(tokens.indices.size, dtype=np.float32) < KEPT
    counts = np.add.reduceat(np.append(kept, False), tokens.indptr[:-1], dtype=np.int64)
    counts[np.diff(tokens.indptr) == 0] = 0
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Tokens(indptr, tokens.indices[kept], np.empty(0), tokens.offsets)


def one_after_another(parts: list[Tokens]) -> Tokens:
    """Return the sentences of all parts."""
    indptr = offsets_of(np.concatenate([np.diff(part.indptr) for part in parts]))
    offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
    return Tokens(indptr, np.concatenate([part.indices for part in parts]), np.empty(0), offsets)


def better_chained(surface: Surface, seed: int, strength: float) -> bool:
    """Tell whether scores of neighbouring labels help: one learner of each half of the sentences cuts the other half.

    They are dropped if that is better with a risk of one in forty, by the number of token ends that are wrong only with
    them, and only without them.
    """
    count = len(surface.opens)
    halves = [surface.part(0, count // 2), surface.part(count // 2, count)]
    if not all(half.forms for half in halves):
        return True
    only = [0, 0]
    for k, other in enumerate(halves[::-1]):
        text, labels = labelled_text(other)
        ends = tokens_of(characters_of(text), labels.astype(np.int8)).end
        without, with_them = (
            np.setxor1d(Segmenter.fit(halves[k], None, seed, strength, chained, 1).segments(text).end, ends)
            for chained in (False, True)
        )
        only[0] += np.setdiff1d(without, with_them).size
        only[1] += np.setdiff1d(with_them, without).size
    return bool(only[1] - only[0] <= 1.96 * sum(only) ** 0.5)


# A piece is labelled at once; it ends with a paragraph, or at the first blank after this many characters.
_MOST = 1 << 16


def pieces(text: Characters) -> Ints:
    """Return a row (first, end) for each piece of a text: paragraphs, and parts of very long ones."""
    n = text.points.size
    breaks = np.flatnonzero((text.points[1:] == 10) & (text.points[:-1] != 10)) + 1
    found, first = [], 0
    for end in [*breaks.tolist(), n]:
        while end - first > _MOST:
            blank = np.flatnonzero(text.kinds[first + _MOST : end] == 1)
            cut = first + _MOST + (int(blank[0]) if blank.size and blank[0] < _MOST else 0)
            if cut >= end:
                break
            found.append((first, cut))
            first = cut
        if end > first:
            found.append((first, end))
        first = end
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def labelled_text(surface: Surface) -> tuple[str, Ints]:
    """Return (the text of a treebank, the label of each character)."""
    parts: list[str] = []
    labels: list[NDArray[np.int64]] = []
    bounds = surface.offsets.tolist()
    for s, text in enumerate(surface.parts()):
        a, b = bounds[s], bounds[s + 1]
        own = np.full(len(text), OUTSIDE, dtype=np.int64)
        at = 0
        for t in range(a, b):
            size = len(surface.forms[t])
            own[at : at + size] = INSIDE
            own[at + size - 1] = LAST if t == b - 1 else END
            at += size + len(surface.after[t])
        parts.append(text)
        labels.append(own)
    return "".join(parts), np.concatenate([np.empty(0, dtype=np.int64), *labels])
