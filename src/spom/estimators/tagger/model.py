"""Use of a fitted tagger: labels, probabilities, the best few sequences, explanations, scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spom.core.arrays import Floats, Ints, is_sparse
from spom.core.warning import warn
from spom.decoders import Chain, ChainParts
from spom.errors import DataError
from spom.estimators.explanation import Explanation, emissions_of, explain_tokens
from spom.estimators.saving import Saving
from spom.estimators.tagger.defaults import metric
from spom.estimators.tagger.inputs import Features, Names, in_sentences, label_codes, split_labels
from spom.estimators.tagger.kernels import is_pair
from spom.metrics.phrases import PhraseScores, score_codes
from spom.solvers.structured.chains.data import Tokens, as_tokens
from spom.solvers.structured.chains.predict import marginals, scores, tag
from spom.solvers.structured.chains.sparse.decoding import SparseWeights

# The number of sentences tagged at a time when they come one by one.
BATCH = 512


class TaggerModel(Saving, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A fitted tagger: features of sentences (`_features`), weights, and the block of the chain."""

    classes_: Names
    weights_: Any
    chain_: Floats
    block_norms_: Floats
    blocks_: tuple[str, ...]
    scoring: str
    history_: list[dict[str, Any]]
    pruning_: Any
    _features: Features
    _forbidden: Floats
    _going: Any

    def predict(self, X: Any, given: Any = None) -> Any:
        """Return the best labels of each sentence, as lists.

        `given` has a list per sentence with the known labels and None for the others: the best sequence that
        agrees with them is found. An iterator of sentences gives an iterator of labels: they are tagged as they come,
        512 at a time. The work runs without Python's lock, and any number of threads may call it.
        """
        if "weights_" not in vars(self):  # scikit-learn's check reads all attributes, which takes a third of a call
            check_is_fitted(self)
        if given is not None:
            return self._predict_given(X, list(given))
        if isinstance(X, Iterator):
            return self._stream(X)
        tokens = self._tokens(X)
        return in_sentences(self._codes(tokens), self.classes_, tokens.offsets)

    def _predict_given(self, X: Any, given: list[Any]) -> list[list[Any]]:
        tokens, decoder = self._tokens(X), Chain()
        unary = scores(tokens, self.weights_, self.classes_.size)
        forbid_others(unary, given, self.classes_.tolist(), tokens.offsets)
        none = np.empty(0, dtype=np.int64)
        codes = [decoder.best(part) if part.unary.size else none for part in self._parts(unary, tokens.offsets)]
        names = self.classes_.astype(object)
        return [names[found].tolist() for found in codes]

    def _parts(self, unary: Floats, offsets: Ints) -> list[ChainParts]:
        """Return the scores of labels and of the chain, sentence by sentence."""
        k, chain = self.classes_.size, self._scores_of_chain()
        return [ChainParts(unary[a:b], chain[:k], chain[k], chain[k + 1]) for a, b in pairwise(offsets.tolist())]

    def _stream(self, X: Iterator[Any]) -> Iterator[list[Any]]:
        while batch := list(islice(X, BATCH)):
            yield from self.predict(batch)

    def predict_marginals(self, X: Any) -> list[Floats]:
        """P(label | sentence) of each token: one matrix per sentence, with a column for each of `classes_`.

        These are probabilities of the fitted model; after a loss with a margin they are not calibrated.
        """
        check_is_fitted(self)
        tokens = self._tokens(X)
        out = marginals(tokens, self.weights_, self._scores_of_chain())
        return [out[a:b] for a, b in pairwise(tokens.offsets.tolist())]

    def predict_kbest(self, X: Any, count: int) -> list[list[tuple[list[Any], float]]]:
        """Return the `count` best sequences of each sentence with their scores, best first, or all if fewer exist."""
        check_is_fitted(self)
        tokens, decoder = self._tokens(X), Chain()
        names, found = self.classes_.astype(object), []
        for part in self._parts(scores(tokens, self.weights_, self.classes_.size), tokens.offsets):
            paths, values = decoder.kbest(part, count)
            found.append([(names[path].tolist(), float(value)) for path, value in zip(paths, values, strict=True)])
        return found

    def explain(self, X: Any) -> list[list[Explanation]]:
        """Explain why each token has its label and not the runner-up: what each feature and transition contributes.

        With kernels these are the contributions of each kernel, and of each template feature, if there are any.
        """
        check_is_fitted(self)
        rows = self._features.transform(X)
        tokens = as_tokens(rows, self.weights_.shape[0])
        codes = self._codes(tokens)
        kernels = getattr(self._features, "emissions", None)
        every = None if kernels is None else kernels(X, self.blocks_)
        sentences = X[0] if is_pair(X) else X
        found = []
        for i, (a, b) in enumerate(pairwise(tokens.offsets.tolist())):
            emissions = emissions_of(self, rows[i]) if every is None else every[a:b]
            words = [_word(token) for token in sentences[i]]
            found.append(explain_tokens(self, emissions, codes[a:b], words))
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return the F1 of phrases or the accuracy of tokens, as `scoring` says."""
        return self._score_of(self.evaluate(X, y))

    def _score_of(self, found: PhraseScores) -> float:
        return found.f1 if metric(self.scoring, self.classes_.tolist()) == "f1" else found.accuracy

    def evaluate(self, X: Any, y: Any = None) -> PhraseScores:
        """Return counts of phrases (as conlleval's) and the accuracy of tokens, which print as conlleval's table.

        A label that was not seen in training counts as wrong, with a warning that names it.
        """
        check_is_fitted(self)
        X, y = split_labels(X, y)
        tokens = self._tokens(X)
        gold, labels = label_codes(y, tokens.offsets)
        found = self._codes(tokens)
        return evaluate(gold, labels, found, self.classes_, tokens.offsets)

    def _measure(self, tokens: Tokens, gold: tuple[Ints, Names], weights: tuple[Any, Floats]) -> float:
        """Return the score of the given weights on development sentences."""
        W, chain = weights
        found = tag(tokens, W, chain + self._forbidden)
        return self._score_of(evaluate(*gold, found, self.classes_, tokens.offsets))

    def _tokens(self, X: Any) -> Tokens:
        return as_tokens(self._features.transform(X), self.weights_.shape[0])

    def _codes(self, tokens: Tokens) -> Ints:
        """Return the number of the best label of each token."""
        if not is_sparse(self.weights_):
            return tag(tokens, self.weights_, self._scores_of_chain())
        ready = vars(self).get("_ready")
        if ready is None or ready[0] is not self.weights_:
            # Computing the bounds of many labels takes longer than tagging a sentence.
            ready = self._ready = self.weights_, SparseWeights.of(self.weights_, self._scores_of_chain())
        return ready[1].tag(tokens)

    def _scores_of_chain(self) -> Floats:
        return np.asarray(self.chain_ + self._forbidden)

    def features(self, label: Any = None, count: int = 20) -> list[tuple[str, Any, float]]:
        """Return the `count` largest weights by size, as (feature, label, weight); of one label, or of all."""
        check_is_fitted(self)
        W = self.weights_[:, : self.classes_.size]
        names = self.classes_.tolist()
        if label is not None and label not in names:
            raise ValueError(f"unknown label {label!r}; available: {', '.join(map(str, names))}")
        rows, columns = W.nonzero()
        if label is not None:
            own = columns == names.index(label)
            rows, columns = rows[own], columns[own]
        values = np.asarray(W[rows, columns]).reshape(-1)
        order = np.argsort(-np.abs(values), kind="stable")[:count].tolist()
        return [(self._features.name(int(rows[i])), names[columns[i]], float(values[i])) for i in order]


def _word(token: Any) -> str:
    """Return how an explanation names a token: its word, its first field, or its first feature."""
    if isinstance(token, str):
        return token
    if isinstance(token, dict):
        return str(next(iter(token.values()), ""))
    return str(token[0]) if isinstance(token, (tuple, list)) and len(token) else "token"


# --- scores --------------------------------------------------------------------------------------------


def evaluate(gold: Ints, labels: Names, found: Ints, classes: Names, offsets: Ints) -> PhraseScores:
    """Return counts of phrases and accuracy; gold labels not seen in training count as wrong, with one warning."""
    names = [str(label) for label in classes.tolist()]
    place = {label: c for c, label in enumerate(names)}
    unseen = [str(label) for label in labels.tolist() if str(label) not in place]
    if unseen:
        shown = ", ".join(unseen[:5]) + (", ..." if len(unseen) > 5 else "")
        warn(f"labels that were not seen in training count as wrong: {shown}")
    for label in unseen:
        place[label] = len(place)
    codes = np.array([place[str(label)] for label in labels.tolist()], dtype=np.int64)
    gold = codes[gold] if gold.size else gold
    return score_codes(gold, found, offsets, [*names, *unseen])


# --- labels known before decoding --------------------------------------------------------------------


def forbid_others(unary: Floats, given: Sequence[Any], classes: Sequence[Any], offsets: Ints) -> None:
    """Set the score of every label but the given one to -inf, in place; None leaves a token free.

    >>> scores = np.zeros((2, 2))
    >>> forbid_others(scores, [["N", None]], ["D", "N"], np.array([0, 2]))
    >>> scores
    array([[-inf,   0.],
           [  0.,   0.]])
    """
    if len(given) != offsets.size - 1:
        raise DataError(f"given has {len(given)} sentences and X has {offsets.size - 1}: there must be labels for each")
    place = {label: c for c, label in enumerate(classes)}
    for i, labels in enumerate(given):
        first, last = int(offsets[i]), int(offsets[i + 1])
        if len(labels) != last - first:
            raise DataError(
                f"given, sentence {i}: {len(labels)} labels for {last - first} tokens; None leaves one free"
            )
        for t, label in enumerate(labels):
            if label is None:
                continue
            if label not in place:
                known = ", ".join(map(str, classes[:10]))
                raise DataError(f"given, sentence {i}, token {t}: the model has no label {label!r}; it has {known}")
            kept = unary[first + t, place[label]]
            unary[first + t] = -np.inf
            unary[first + t, place[label]] = kept
