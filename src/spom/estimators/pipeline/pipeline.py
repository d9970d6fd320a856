"""Pipeline: raw text to tokens, sentences, tags, lemmas and trees, learnt from one treebank."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Ints
from spom.core.ordered import in_order
from spom.core.registry import keep, register, suggestion
from spom.data.columns import Columns, packed_strings
from spom.data.conllu import join_treebanks, parse_conllu
from spom.data.interning import distinct
from spom.data.surface import Surface
from spom.data.treebank import Treebank
from spom.errors import DataError
from spom.estimators.parser.parser import DependencyParser
from spom.estimators.pipeline.lemmas import TEMPLATES, LemmaStage, needed
from spom.estimators.pipeline.multiword import Splitter
from spom.estimators.pipeline.saving import SavingPipeline
from spom.estimators.pipeline.segmenter import Segmenter, Segments
from spom.estimators.pipeline.shrinking import bytes_of, shrink
from spom.estimators.pipeline.tags import TagStage, tags_of, word_classes
from spom.estimators.pipeline.writing import Place, Strings, Words, conllu_of
from spom.metrics.conll2018 import Measures, conll2018

# Trees of second order, or a second stage if arcs may cross. On EWT's dev set, raw text: LAS .789 with neither, .795
# with a second stage, .809 with second order, which takes as long to train.
PARSER: dict[str, Any] = {"order": 2, "second_stage": True}
_T = TypeVar("_T")
# With fewer sentences than this, the parser learns from gold tags as well as predicted ones: from those of all
# sentences for up to 2,000 sentences, then from 4,000 minus their number. LAS with gold words on held-out sentences of
# 15 treebanks (Buryat excluded), without and with: .254 and .308 from 20 sentences, .418 and .453 from 80, .583 and
# .598 from 300 (better on 15, 15 and 14); .652 and .665 from 1,000 (10 of 10), .678 and .680 from 2,500 (4, one worse).
BOTH = 4000
# Sentences with more tokens are cut: the cost of parsing grows faster than the square of their length. Two sentences of
# all 16 treebanks are longer (311 and 332). A long line of words without a stop takes a third of the time with 500.
LONGEST = 300


class Clock:
    """The time of each stage, with one line per stage on a terminal."""

    def __init__(self, verbose: int) -> None:
        self.shown = bool(verbose) and sys.stderr.isatty()
        self.history: list[dict[str, Any]] = []

    def timed(self, stage: str, work: Callable[[], _T]) -> _T:
        """Return the result of `work`, and record the seconds it took."""
        begin = time.perf_counter()
        if self.shown:
            print(f"{stage} ...", end="", file=sys.stderr, flush=True)
        found = work()
        seconds = time.perf_counter() - begin
        self.history.append({"stage": stage, "seconds": seconds})
        if self.shown:
            print(f" {seconds:.1f} s", file=sys.stderr, flush=True)
        return found


@register("estimator", "pipeline", examples=lambda: [Pipeline()], cost="O(features) per word, and a tree")
class Pipeline(SavingPipeline, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """text -> tokens -> words -> tags -> lemmas -> trees: each stage learns from the treebank and feeds the next.

    Tokens and sentences are labels of characters; multiword tokens are split by learnt rules; UPOS, XPOS and features
    are one label of a chain; lemmas are edit scripts, and a dictionary of seen words. The parser learns from tags
    and lemmas predicted by models trained without the sentence (jackknifing), as it will get them in use.

    Parameters
    ----------
    parser : a dict of settings of the `DependencyParser`; the defaults are those of the parser, except
        `order=2, second_stage=True`.
    folds : the number of models that predict tags for training the parser; 0: it learns from the gold tags.
    trees : whether there is a parser; without it the result has no trees.
    size : None, or the maximum size of the model file, such as "5MB": small weights of all stages are dropped to fit.
    prune : None; or "auto": for tags, lemmas and trees keep only the templates needed according to held-out sentences.
        Any other value is passed to the parser.
    n_jobs : threads of `predict`. random_state : the seed. verbose : 1 shows progress on a terminal.

    Attributes
    ----------
    segmenter_, splitter_, tagger_, lemmatizer_, parser_ : the stages. history_ : the time of each in seconds.
    pruning_ : with `prune`, the templates that each stage kept, and why; print it.

    Examples
    --------
    >>> from spom import Pipeline
    >>> from spom.data import Treebank
    >>> words = [("Dogs", "dog", "NOUN", 2, "nsubj", "_"), ("bark", "bark", "VERB", 0, "root", "SpaceAfter=No"),
    ...          (".", ".", "PUNCT", 2, "punct", "_")]
    >>> names = ("form", "lemma", "upos", "head", "deprel", "misc")
    >>> bank = Treebank.from_sentences([[dict(zip(names, word)) for word in words]] * 30)
    >>> pipeline = Pipeline(verbose=0).fit(bank)
    >>> found = pipeline.predict("Dogs bark. Dogs bark.")
    >>> found, found.columns.strings("upos")[0], found.heads[:3]
    (Treebank(2 sentences, 6 words), ['NOUN', 'VERB', 'PUNCT'], array([2, 0, 2]))
    """

    segmenter_: Segmenter
    splitter_: Splitter
    tagger_: TagStage
    lemmatizer_: LemmaStage | None
    parser_: DependencyParser | None
    pruning_: dict[str, Any]
    history_: list[dict[str, Any]]

    def __init__(
        self,
        parser: dict[str, Any] | None = None,
        folds: int = 4,
        trees: bool = True,
        size: int | str | None = None,
        *,
        prune: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 1,
    ) -> None:
        keep(self, locals())

    # --- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Treebank, y: Any = None, dev: Treebank | None = None) -> Self:
        """Learn all stages from a treebank; `dev` chooses the parser's best epoch. `y` is not used."""
        parser = self._new_parser()
        bank, held = _checked(X, self.trees), None if dev is None else _checked(dev, self.trees)
        most = None if self.size is None else bytes_of(self.size)
        surface, clock = Surface.of(bank), Clock(self.verbose)
        seed = 0 if self.random_state is None else int(self.random_state)
        words = bank.columns.distinct("upos")[0].astype(np.int64)
        segmenter = clock.timed("characters", lambda: Segmenter.fit(surface, words, seed))
        gold = tags_of(bank)
        classes = word_classes(bank.columns, gold)
        splitter = clock.timed("multiword tokens", lambda: Splitter.fit(surface, bank, classes, seed))
        auto = isinstance(self.prune, str) and self.prune == "auto"
        tagger, crossed = clock.timed("tags", lambda: TagStage.fit(bank.columns, gold, self.folds, seed, auto))
        forms, lemmas = _flat(bank, "form"), _flat(bank, "lemma")
        lemmatizer, own, both = None, None, (gold.codes, crossed)
        kept: dict[str, Any] = {} if tagger.kept is None else {"tags": tagger.kept}
        if any(lemma != "_" for lemma in lemmas):
            told = forms, both, lemmas, gold.names
            if auto:
                kept["lemmas"] = clock.timed("templates of lemmas", lambda: needed(*told, bank.columns.offsets))
            features = kept["lemmas"].kept if auto else TEMPLATES
            lemmatizer = clock.timed("lemmas", lambda: LemmaStage.fit(*told, seed, features=features))
        found: dict[str, Any] = {"segmenter_": segmenter, "splitter_": splitter, "tagger_": tagger}
        found |= {"lemmatizer_": lemmatizer, "parser_": None, "history_": clock.history, "pruning_": kept}
        if self.trees:
            seen = bank
            if self.folds > 1:
                if lemmatizer is not None:
                    own = clock.timed(
                        "lemmas to learn trees from",
                        lambda: LemmaStage.crossed(*told, self.folds, features),
                    )
                seen = with_gold(bank, _with_words(bank, tagger, crossed, own))
            known = None if held is None else _tagged(tagger, lemmatizer, held)
            found["parser_"] = clock.timed("trees", lambda: parser.fit(seen, dev=known))
            kept |= {} if parser.pruning_ is None else {"trees": parser.pruning_}
        self.__dict__.update(found)
        if most is not None:
            clock.timed("size", lambda: shrink(self, most))
        return self

    def _new_parser(self) -> DependencyParser:
        """Return the parser before training, with the settings of `parser`."""
        given = {} if self.parser is None else self.parser
        if not isinstance(given, dict):
            raise ValueError(f"parser must be a dict of settings, such as {{'order': 1}}; it is {given!r}")
        known = DependencyParser._get_param_names()
        for name in given:
            if name not in known:
                raise ValueError(f"the parser has no setting {name!r}; {suggestion(name, known)}")
        return DependencyParser(
            **{**PARSER, "prune": self.prune, "random_state": self.random_state, "verbose": 0, **given}
        )

    # --- using it ----------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Treebank:
        """Return the sentences of a text, or of several texts in order; a `Treebank` keeps its words.

        A blank line ends a paragraph, and so a sentence. `TokenRange` in the column MISC has the place of each token in
        its text; `# text` is the text itself.
        """
        check_is_fitted(self, "segmenter_")
        if isinstance(X, Treebank):
            return self._parsed(_tagged(self.tagger_, self.lemmatizer_, X), self.n_jobs)
        if isinstance(X, str):
            return self._predicted(X, Place())
        place, found = Place(), []
        for text in X:
            place.characters = 0
            found.append(self._predicted(text, place))
        return found[0] if len(found) == 1 else join_treebanks(found)

    def predict_blocks(self, blocks: Iterable[str]) -> Iterator[Treebank]:
        """Return an iterator of sentences, block by block, of one long text; a block must end where a sentence does.

        Blocks are cut into words one after another; the later stages run in `n_jobs` threads.
        """
        check_is_fitted(self, "segmenter_")
        jobs = 1 if self.n_jobs is None else int(self.n_jobs)
        return in_order(lambda part: self._finished(*part, 1), self._segmented(blocks), jobs)

    def _segmented(self, blocks: Iterable[str]) -> Iterator[tuple[Words, Place]]:
        """Yield the words of each block, and the number of characters and sentences before it."""
        place = Place()
        for text in blocks:
            words = self._words(text)
            yield words, replace(place)
            place.characters += len(text)
            place.sentences += words.offsets.size - 1
            if words.tokens.codes.size:
                place.after = text[int(words.segments.end[-1]) :]
            elif place.after is not None:
                place.after += text

    def _predicted(self, text: str, place: Place) -> Treebank:
        if not isinstance(text, str):
            raise DataError(f"expected text as a string, found {type(text).__name__}")
        return self._finished(self._words(text), place, self.n_jobs)

    def _finished(self, words: Words, place: Place, jobs: int | None) -> Treebank:
        """Return a treebank with tags, lemmas and trees."""
        codes = self.tagger_.codes(_columns(words.forms, words.offsets))
        tags = Strings(codes, ["\t".join(name) for name in self.tagger_.names])
        lemmas = _lemmas(self.lemmatizer_, words.forms, codes, self.tagger_.names)
        bank = parse_conllu(conllu_of(words, tags, lemmas, place))
        return self._parsed(bank, jobs)

    def _words(self, text: str) -> Words:
        segments = shortened(self.segmenter_.segments(text))
        tokens = _tokens(text, segments)
        return Words(text, segments, tokens, *self.splitter_.split(tokens))

    def _parsed(self, bank: Treebank, jobs: int | None) -> Treebank:
        if self.parser_ is None or len(bank) == 0:
            return bank
        self.parser_.n_jobs = jobs
        return self.parser_.predict(bank)

    def evaluate(self, X: Treebank) -> Measures:
        """Return the CoNLL 2018 measures from the raw text of a treebank, which is assembled from its tokens."""
        return conll2018(X, self.predict(Surface.of(X).text()))

    def score(self, X: Treebank, y: Any = None) -> float:
        """Return the LAS from the raw text of a treebank; UPOS without a parser."""
        return self.evaluate(X)["upos" if self.parser_ is None else "las"]


def shortened(segments: Segments, longest: int = LONGEST) -> Segments:
    """Return the same segments with sentences of more than `longest` tokens cut."""
    offsets = segments.offsets
    if offsets.size < 2 or np.diff(offsets).max() <= longest:
        return segments
    last = segments.last.copy()
    for a, b in pairwise(offsets.tolist()):
        last[a + longest - 1 : b - 1 : longest] = True
    return Segments(segments.begin, segments.end, last)


def with_gold(gold: Treebank, predicted: Treebank, most: int = BOTH) -> Treebank:
    """Return the sentences with predicted tags, plus sentences with gold tags, up to `most` in all.

    Both versions of a sentence are adjacent, so runs of held-out sentences rarely separate them.
    """
    more = min(len(gold), most - len(gold))
    if more <= 0:
        return predicted
    spread = np.unique(np.linspace(0, len(gold) - 1, more).astype(np.int64))
    order = np.argsort(np.concatenate([np.arange(len(gold)), spread]), kind="stable")
    return join_treebanks([predicted, gold[spread]])[order]


def _checked(bank: Any, trees: bool) -> Treebank:
    """Return a treebank to learn from; `trees` says that it needs trees."""
    if not isinstance(bank, Treebank):
        raise TypeError(f"expected a Treebank, as returned by read_conllu, not {type(bank).__name__}")
    if bank.n_words == 0:
        raise DataError("there are no words to learn from: the treebank is empty", bank.columns.source or None)
    if trees and not bank.has_trees:
        raise DataError("no word has a HEAD; set trees=False to learn all but trees", bank.columns.source or None)
    if trees:
        bank.check_trees()
    return bank


def _flat(bank: Treebank, name: str) -> list[str]:
    codes, strings = bank.columns.distinct(name)
    found: list[str] = strings[codes].tolist()
    return found


def _tokens(text: str, segments: Segments) -> Strings:
    """Return the tokens of a text; one that spans a line end is written with a blank."""
    try:
        buffer = np.frombuffer(text.encode(), dtype=np.uint8)
    except UnicodeEncodeError as error:
        raise DataError(f"expected text that can be written as UTF-8 ({error})") from None
    begin, end = segments.begin, segments.end
    if buffer.size > len(text):
        bytes_of = np.append(np.flatnonzero((buffer & 0xC0) != 0x80), buffer.size)
        begin, end = bytes_of[begin], bytes_of[end]
    length = (end - begin).astype(np.int32)
    codes, first = distinct(buffer, begin[:, None], length[:, None], 0)
    spans = zip(segments.begin[first].tolist(), segments.end[first].tolist(), strict=True)
    found = [text[a:b] for a, b in spans]
    found = [token if token.isprintable() else " ".join(token.split()) or token for token in found]
    return Strings(codes.astype(np.int64), found)


def _columns(forms: Strings, offsets: Ints) -> Columns:
    buffer, start, length = packed_strings(forms.strings)
    lines = np.arange(1, forms.codes.size + 1)
    return Columns(buffer, start[forms.codes, None], length[forms.codes, None], offsets, ("form",), lines)


def _lemmas(stage: LemmaStage | None, forms: Strings, codes: Ints, names: list[tuple[str, ...]]) -> Strings:
    if stage is None:
        return Strings(np.zeros(codes.size, dtype=np.int64), ["_"])
    keys, where = np.unique(forms.codes * len(names) + codes, return_inverse=True)
    form, tag = np.divmod(keys, len(names))
    pairs = [(forms.strings[f], t) for f, t in zip(form.tolist(), tag.tolist(), strict=True)]
    return Strings(where, stage.lemmas(pairs, names))


def _tagged(tagger: TagStage, lemmatizer: LemmaStage | None, bank: Treebank) -> Treebank:
    """Return a treebank with predicted tags and lemmas."""
    codes, (forms, strings) = tagger.codes(bank.columns), bank.columns.distinct("form")
    lemmas = _lemmas(lemmatizer, Strings(forms.astype(np.int64), strings.tolist()), codes, tagger.names)
    return _with_words(bank, tagger, codes, (lemmas.codes, lemmas.strings))


def _with_words(bank: Treebank, tagger: TagStage, codes: Ints, lemmas: Any) -> Treebank:
    columns: dict[str, Any] = {
        name: (codes, [labels[k] for labels in tagger.names]) for k, name in enumerate(("upos", "xpos", "feats"))
    }
    if lemmas is not None:
        columns["lemma"] = lemmas
    return bank.with_columns(**columns)
