"""Explanations of predictions: the share of each feature, template or kernel in the lead of the winner."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats, Ints
from spom.errors import Unsupported


@dataclass(frozen=True)
class Explanation:
    """score(label) - score(runner-up) = sum of the contributions.

    `names` and `contributions` are in order of size. `label` is the prediction and `against` the runner-up; both are
    None for a regressor, whose contributions sum to the prediction. `of` is the token that was labelled, if any.

    >>> why = Explanation("good", "bad", ("warm", "long"), np.array([1.5, -0.5]))
    >>> why.lead
    1.0
    >>> print(why)
    good rather than bad, by 1.0000
       +1.5000  warm
       -0.5000  long
    """

    label: Any
    against: Any
    names: tuple[str, ...]
    contributions: Floats
    of: str | None = None

    @property
    def lead(self) -> float:
        """The sum of the contributions."""
        return float(self.contributions.sum())

    def top(self, count: int = 10) -> list[tuple[str, float]]:
        """Return the `count` largest contributions by size, as (name, contribution)."""
        return [(name, float(c)) for name, c in zip(self.names[:count], self.contributions[:count], strict=True)]

    def by_block(self) -> Explanation:
        """Return the contributions summed over templates: over the part of each name before `=`."""
        sums: dict[str, float] = {}
        for name, c in zip(self.names, self.contributions.tolist(), strict=True):
            block = name.partition("=")[0]
            sums[block] = sums.get(block, 0.0) + c
        return ordered(self.label, self.against, list(sums), np.array(list(sums.values())), self.of)

    def title(self) -> str:
        """Return one line that tells what won, and by how much."""
        of = "" if self.of is None else f"{self.of}: "
        if self.label is None:
            return f"{of}prediction {self.lead:.4f}"
        return f"{of}{self.label} rather than {self.against}, by {self.lead:.4f}"

    def __str__(self) -> str:
        rows = [f"  {c:+8.4f}  {name}" for name, c in self.top()]
        rest = len(self.names) - len(rows)
        if rest > 0:
            rows.append(f"  {float(self.contributions[len(rows) :].sum()):+8.4f}  {rest} more")
        return "\n".join([self.title(), *rows])

    def _repr_html_(self) -> str:
        most = max((abs(c) for _, c in self.top()), default=1.0) or 1.0
        rows = []
        for name, c in self.top():
            colour = "#2b6cb0" if c > 0 else "#c05621"
            bar = f"<div style='background:{colour};height:0.8em;width:{100 * abs(c) / most:.0f}%'></div>"
            rows.append(f"<tr><td>{html.escape(name)}</td><td>{c:+.4f}</td><td style='width:12em'>{bar}</td></tr>")
        return f"<table><caption>{html.escape(self.title())}</caption>{''.join(rows)}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the contributions as bars; return the matplotlib axes."""
        from spom.plot import contributions

        return contributions(self, ax=ax)


def ordered(label: Any, against: Any, names: Sequence[str], values: Floats, of: str | None = None) -> Explanation:
    """Return an explanation with its non-zero contributions in order of size."""
    order = [i for i in np.argsort(-np.abs(values), kind="stable").tolist() if values[i]]
    return Explanation(label, against, tuple(str(names[i]) for i in order), values[order], of)


def explain_linear(model: Any, scores: Floats, X: Any) -> list[Explanation]:
    """(w_label - w_runner-up) * x and the difference of the intercepts, for each row of checked X."""
    coef = model.coef_ if sparse.issparse(model.coef_) else np.atleast_2d(model.coef_)
    bias = np.broadcast_to(np.atleast_1d(model.intercept_), (coef.shape[0],))
    given = getattr(model, "feature_names_in_", None)
    names = [str(name) for name in given] if given is not None else [f"x{j}" for j in range(coef.shape[1])]
    classes = getattr(model, "classes_", None)
    found = []
    for i in range(X.shape[0]):
        x = X[i].toarray().ravel() if sparse.issparse(X) else np.asarray(X[i])
        w, b, label, against = _winner(coef, bias, classes, scores[i])
        found.append(ordered(label, against, [*names, "intercept"], np.append(w * x, b)))
    return found


def dense_row(coef: Any, k: int) -> Floats:
    """Return row k of a dense or sparse matrix."""
    return np.asarray(coef[k].toarray()[0] if sparse.issparse(coef) else coef[k])


def _winner(coef: Any, bias: Floats, classes: Any, scores: Floats) -> tuple[Floats, float, Any, Any]:
    """Return (weights, intercept) of the lead of the winner over the runner-up, and both labels."""
    if classes is None:
        return dense_row(coef, 0), float(bias[0]), None, None
    labels = classes.tolist()
    if coef.shape[0] == 1:
        sign = 1.0 if scores[0] > 0 else -1.0
        return sign * dense_row(coef, 0), sign * float(bias[0]), labels[int(sign > 0)], labels[int(sign < 0)]
    first, second = np.argsort(-scores, kind="stable")[:2].tolist()
    lead = dense_row(coef, first) - dense_row(coef, second)
    return lead, float(bias[first] - bias[second]), labels[first], labels[second]


def explain_blocks(
    labels: Sequence[Any] | None, names: Sequence[str], parts: Floats, scores: Floats | None = None
) -> list[Explanation]:
    """Explain the label of each row: `parts` is (blocks, rows, labels), each block's part of each score.

    Without labels there is one score per row, and the contributions sum to it. `scores` determine the winner and
    the runner-up if they are not the sum of the parts.
    """
    scores = parts.sum(axis=0) if scores is None else scores
    found = []
    for i in range(parts.shape[1]):
        own = parts[:, i]
        if labels is None:
            found.append(ordered(None, None, names, own[:, 0]))
            continue
        first, second = np.argsort(-scores[i], kind="stable")[:2].tolist()
        found.append(ordered(labels[first], labels[second], names, own[:, first] - own[:, second]))
    return found


Emissions = Sequence[tuple[Sequence[str], Floats]]


def emissions_of(model: Any, rows: Any) -> Emissions:
    """Return (names of features, the part of each in the score of each label) for each token of one sentence."""
    k, found = model.classes_.size, []
    for t in range(rows.indptr.size - 1):
        part = slice(int(rows.indptr[t]), int(rows.indptr[t + 1]))
        values = rows.values[part][:, None] if rows.values.size else 1.0
        names = [model._features.name(int(j)) for j in rows.indices[part]]
        own = model.weights_[rows.indices[part], :k].astype(np.float64)
        found.append((names, (own.toarray() if sparse.issparse(own) else own) * values))
    return found


def explain_tokens(model: Any, emissions: Emissions, codes: Any, words: Sequence[str]) -> list[Explanation]:
    """Explain the label of each token of one sentence against the next best one, with its neighbours unchanged.

    The contributions are those of its features and of the transitions to its neighbours; their sum is the difference
    of the scores of the two label sequences.
    """
    k = model.classes_.size
    if k < 2:
        raise Unsupported("the model has one label only: there is no runner-up to compare with")
    labels, n = model.classes_.tolist(), len(codes)
    found = []
    for t in range(n):
        own, scores = emissions[t]
        a = int(codes[t])
        # If the scheme allows no other label between these neighbours, the runner-up is one that it forbids.
        for chain in (model._scores_of_chain(), model.chain_):
            before = chain[codes[t - 1]] if t else chain[k]
            after = chain[:k, codes[t + 1]] if t + 1 < n else chain[k + 1]
            others = np.where(np.arange(k) == a, -np.inf, scores.sum(axis=0) + before + after)
            if np.isfinite(others).any():
                break
        b = int(np.argmax(others))
        names = [*own, "transition from the left", "transition to the right"]
        edges = [before[a] - before[b], after[a] - after[b]]
        found.append(ordered(labels[a], labels[b], names, np.append(scores[:, a] - scores[:, b], edges), words[t]))
    return found


# --- trees ---------------------------------------------------------------------------------------------

NO_OTHER = "no other head"


def template_scores(model: Any, codes: Any, guides: Ints | None) -> list[Floats]:
    """Return (templates, heads, modifiers) of each sentence: the part of each template in the score of each arc.

    Each template is scored alone, which takes one pass per template; it is meant for a few sentences.
    """
    count = len(codes.sizes)
    alone: list[list[Floats]] = [[] for _ in range(count)]
    for block in range(len(model.templates.blocks)):
        one = model.kept(np.array([block]))
        for s in range(count):
            alone[s].append(one.scores(codes, s, guides))
    return [np.array(parts) for parts in alone]


def explain_heads(names: list[str], parts: Floats, heads: Ints, words: list[str]) -> list[Explanation]:
    """Explain the head of each word of one sentence against the other head with the highest score.

    The contributions sum to the difference of the scores of the two arcs. The tree decides: a word may have a head with
    a lower score than another one, if that other arc does not fit the rest of the tree.
    """
    total = np.where(np.isneginf(parts).any(axis=0), -np.inf, np.nan_to_num(parts, neginf=0.0).sum(axis=0))
    finite, found = np.nan_to_num(parts, neginf=0.0), []
    for m, head in enumerate(heads.tolist(), 1):
        others = np.where(np.arange(total.shape[0]) == head, -np.inf, total[:, m])
        others[m] = -np.inf
        rival = int(np.argmax(others))
        known = bool(np.isfinite(others[rival]))
        lead = finite[:, head, m] - (finite[:, rival, m] if known else 0.0)
        against = _head(words, rival) if known else NO_OTHER
        found.append(ordered(_head(words, head), against, names, lead, words[m - 1]))
    return found


def _head(words: list[str], place: int) -> str:
    """Return a head as text: its place and its word."""
    return "the root" if place == 0 else f"{place} {words[place - 1]}"
