"""The meaning of `"auto"` for a tagger: templates, constraints, penalty, passes and step that follow from the data.

All are fixed rules, so a fit takes no longer than with every setting given. They were chosen on the development parts
of 19 taggings in 12 languages (entities, chunks, parts of speech) by their means, with one seed; the guide's page on
tagging has the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from spom.core import registry
from spom.core.arrays import Ints
from spom.core.warning import warn
from spom.data.columns import Columns
from spom.decoders.schemes import Constraints, tag_constraints
from spom.errors import Unsupported
from spom.estimators.checking import operator
from spom.features.ready import SETS
from spom.metrics.phrases import has_phrases
from spom.penalties import L1, GroupLasso, Zero
from spom.solvers.steps import AdaGrad
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.solver import broken_tokens, forbidden_scores
from spom.solvers.structured.chains.sparse.engine import LOSSES, Candidates

# The strength of the l1 norm is c / (sentences + few), with these (c, few). Chosen on development parts with one of 22
# sets left out at a time (benchmarks/defaults/tagger_strengths.py, docs: defaults), with the same result for all sets
# of phrases and for 13 of 15 sets of other labels, which need weaker penalties for few sentences at a margin of one.
PHRASES, LABELS = (0.4, 0.0), (0.4, 1000.0)
# Other labels have a margin of 1 + 9 MARGIN / (sentences + MARGIN), and then these (c, few). Chosen with one of 15
# treebanks left out at a time (benchmarks/defaults/tagger_margins.py), with the same result for 14 of them. On those
# left out it is better by .005, .004, .001 and .0005 from 20, 200, 1,000 and 3,000 sentences.
MARGIN, WIDE = 400.0, (0.4, 200.0)
# The minimum number of passes for phrases and for other labels; with few sentences, enough passes for ROUNDS rounds,
# up to MOST. Chosen on development parts with one set left out at a time
# (benchmarks/defaults/tagger_epochs.py, docs: defaults); at 250 sentences twenty are .01 better than six for phrases.
PASSES, OTHER_PASSES, ROUNDS, MOST = 12, 6, 5000, 20
# AdaGrad's rate times the number of features of a token: a step changes a score by about this much. The best rates are
# .15 to .25 at 36 templates and .5 to .8 at 12.
RATE, LOWEST, HIGHEST = 9.0, 0.1, 1.0
# A scheme counts as recognised if at most this share of the sentences breaks it.
BROKEN = 0.05
# For columns other than words and tags: their values in a window of one.
_MORE = (-1, 0, 1)
SCHEMES = ("BIO", "IOB1", "BIOES", "BILOU")


class Allowed(NamedTuple):
    """The name of the scheme (None: any label may follow any other), its constraints, and the sentences that break it.

    If there are such sentences, training runs without constraints and keeps them as they are; tagging applies them.
    """

    scheme: str | None
    constraints: Constraints | None
    broken: Ints

    @property
    def while_learning(self) -> Constraints | None:
        """The constraints that a solver may assume of the gold labels."""
        return None if self.broken.size else self.constraints


def is_auto(given: Any) -> bool:
    """Return whether a setting is left to the data."""
    return isinstance(given, str) and given == "auto"


# --- templates ------------------------------------------------------------------------------------------------


def chosen_templates(given: Any, X: Any, labels: Iterable[Any]) -> tuple[Any, str]:
    """Return (the argument of `make_features`, a readable name for it).

    Words get the set `"entities"` if labels mark phrases, else `"pos"`; a second column adds the set `"tags"`,
    and any other its values in a window of one. If no word has a capital letter, templates in lower case would
    duplicate others, and are omitted. Features as dicts, strings or vectors are used as they are.
    """
    if not (given is None or is_auto(given)):
        return given, given if isinstance(given, str) else f"{type(given).__name__} as given"
    if not isinstance(X, Columns):
        return None, "features as given"
    name = "entities" if has_phrases([str(label) for label in labels]) else "pos"
    found = list(SETS[name])
    # The other columns of a treebank have tags that are derived from the labels themselves.
    if "form" not in X.names and X.n_columns > 1:
        found += SETS["tags"]
        found += [f"{column}[{k}]" for column in range(2, X.n_columns) for k in _MORE]
        name += " + tags" + (f" + {X.n_columns - 2} columns" if X.n_columns > 2 else "")
    if not (X.n_tokens > 0 and any(str(word) != str(word).lower() for word in X.distinct("w")[1])):
        found = list(dict.fromkeys(template.replace(".lower", "") for template in found))
        name += ", no letter case"
    return found, f"{name} ({len(found)} templates)"


# --- labels that may follow each other ------------------------------------------------------------------------


def chosen_constraints(given: Any, classes: Any, y: Ints, offsets: Ints) -> Allowed:
    """Return the constraints that `constraints=` means for these labels and gold sequences."""
    schemes = schemes_for(given, [str(label) for label in classes.tolist()])
    broken = {name: broken_sentences(allowed, y, offsets) for name, allowed in schemes.items()}
    found = chosen_scheme(given, schemes, broken, offsets.size - 1)
    report_broken(found)
    return found


def schemes_for(given: Any, names: list[str]) -> dict[str, Constraints]:
    """Return the schemes that `constraints=` may mean for these labels, in the order in which they are preferred."""
    if given is None:
        return {}
    if isinstance(given, Constraints):
        return {"as given": given}
    if not isinstance(given, str):
        raise ValueError(f"constraints must be 'auto', the name of a scheme, Constraints or None; it is {given!r}")
    if not is_auto(given):
        return {given: tag_constraints(names, given)}
    letters, found = {name.partition("-")[0] for name in names}, {}
    # With I alone (or B alone) IOB1 allows every sequence, so nothing is gained.
    if "B" in letters and letters & {"I", "E", "L"}:
        for scheme in SCHEMES:
            with suppress(ValueError):
                found[scheme] = tag_constraints(names, scheme)
    return found


def chosen_scheme(given: Any, schemes: dict[str, Constraints], broken: dict[str, Ints], sentences: int) -> Allowed:
    """Return the scheme that fewest sentences break, if they are few enough, or the given scheme."""
    few = [name for name in schemes if not is_auto(given) or broken[name].size <= BROKEN * sentences]
    if not few:
        return Allowed(None, None, np.empty(0, dtype=np.int64))
    best = min(few, key=lambda name: broken[name].size)
    return Allowed(best, schemes[best], broken[best])


def broken_sentences(constraints: Constraints, y: Ints, offsets: Ints) -> Ints:
    """Return the sentences whose gold labels the constraints do not allow."""
    forbidden = forbidden_scores(constraints, constraints.begin.size)
    return np.unique(np.searchsorted(offsets, broken_tokens(forbidden, y, offsets), side="right") - 1)


def report_broken(found: Allowed, known: bool = True) -> None:
    """Warn of gold labels that break the scheme; if the sentences are not `known`, only of their number."""
    if found.broken.size:
        where = f" (the first is sentence {int(found.broken[0])})" if known else ""
        many = "1 sentence has" if found.broken.size == 1 else f"{found.broken.size} sentences have"
        warn(
            f"{many} gold labels that break {found.scheme}{where}: these are "
            "learnt as they are, and the constraints apply only to predictions"
        )


# --- score ----------------------------------------------------------------------------------------------------


def metric(scoring: str, classes: Sequence[Any]) -> str:
    """Return the metric: `"auto"` is the F1 of phrases for labels of a scheme such as BIO, else token accuracy."""
    if scoring not in ("auto", "f1", "accuracy"):
        raise Unsupported(f"unknown scoring {scoring!r} for taggers; available: auto, f1, accuracy")
    if scoring != "auto":
        return scoring
    return "f1" if has_phrases([str(label) for label in classes]) else "accuracy"


# --- numbers --------------------------------------------------------------------------------------------------


def chosen_cost(given: Any, auto: bool, sentences: int, phrases: bool) -> float:
    """Return the margin: `"auto"` is 1, for labels that are no phrases 1 + 3600 / (sentences + 400).

    That goes with the chosen penalty and softmax-margin: without them (`auto`) it is 1.

    >>> chosen_cost("auto", True, 1400, phrases=False), chosen_cost("auto", True, 1400, phrases=True)
    (3.0, 1.0)
    """
    if not is_auto(given):
        return given  # type: ignore[no-any-return]  # the solver checks it
    return 1.0 + 9.0 * MARGIN / (sentences + MARGIN) if auto and not phrases else 1.0


def chosen_penalty(given: Any, sentences: int, phrases: bool, cost: float = 1.0) -> Any:
    """Return the penalty: `"auto"` is L1, strength .4 / sentences (phrases) or .4 / (sentences + few); None is none.

    For labels that are no phrases, few is 1000 at a margin of 1, else 200. For a penalty given by name the strength
    follows from the data too: as above for single weights; 1 / sqrt(sentences) for the group lasso, the size of noise
    in a mean gradient; 1 / (2 sentences) for other block penalties, the squares.

    >>> chosen_penalty("auto", 1000, phrases=True)
    L1(strength=0.0004)
    >>> chosen_penalty("auto", 1000, phrases=False), chosen_penalty("auto", 800, phrases=False, cost=4.0)
    (L1(strength=0.0002), L1(strength=0.0004))
    >>> chosen_penalty("sparse-mkl", 1000, phrases=True)
    SparseMKL(strength=0.0005)
    """
    n = max(1, sentences)
    c, few = PHRASES if phrases else LABELS if cost == 1.0 else WIDE
    single = L1(c / (n + few))
    if given is None:
        return Zero()
    if is_auto(given):
        return single
    if not isinstance(given, str):
        return operator("penalty", given)
    found = registry.make("penalty", given)
    if isinstance(found, GroupLasso):
        return operator("penalty", given, L1(n**-0.5))
    return operator("penalty", given, single if found.elastic() is not None else L1(0.5 / n))


def chosen_epochs(given: Any, sentences: int, phrases: bool) -> int:
    """Return the passes: `"auto"` is twelve for phrases, six for other labels, up to twenty for few sentences.

    >>> chosen_epochs("auto", 10_000, phrases=True), chosen_epochs("auto", 10_000, phrases=False)
    (12, 6)
    >>> chosen_epochs("auto", 500, phrases=False), chosen_epochs("auto", 19, phrases=False)
    (10, 20)
    """
    if not is_auto(given):
        return int(given) if isinstance(given, (int, np.integer)) else given
    least = PASSES if phrases else OTHER_PASSES
    return min(MOST, max(least, -(-ROUNDS // max(1, sentences))))


def chosen_loss(given: str, penalty: Any) -> str:
    """Return the loss: `"auto"` is softmax-margin for penalties of single weights, the log loss for those of blocks.

    At the step of `chosen_step` softmax-margin beats the log loss by .005 on phrases, and by .001 on tags, at the same
    cost; at twice that step it is .002 worse on phrases.
    """
    if not is_auto(given):
        return given
    return "softmax-margin" if penalty.elastic() is not None else "log"


def chosen_step(given: Any, tokens: Tokens, penalty: Any, update: str) -> Any:
    """Return the step: `"auto"`, for dual averaging of single weights, is AdaGrad with 9 / (mean token features)."""
    if not is_auto(given) or update not in ("auto", "dual-averaging") or penalty.elastic() is None:
        return given
    return rate_for(tokens.indices.size / max(1, tokens.total))


def rate_for(features: float) -> AdaGrad:
    """Return AdaGrad's rate for this mean number of features per token."""
    return AdaGrad(min(HIGHEST, max(LOWEST, RATE / max(features, 1.0))), delta=0.1)


# --- many labels -------------------------------------------------------------------------------------
#
# With more than 100 labels a table of features by labels is large and mostly zero, and sums over all pairs of labels
# take most of the time. Training then keeps weights for the pairs that occur, and for those that a first pass confuses,
# and considers the labels with the best scores at each token (`solvers.structured.chains.sparse`); tagging is exact.

# More labels than this count as many.
MANY = 100
# The number of candidates per token in training, and the lowest probability at which a wrong label counts as confused.
# On EWT's dev sentences (features as labels, 230 of them) accuracy is .9499 without confused pairs, .9512 at .02, .9516
# at .002, and .9517 at .002 with 32 candidates instead of 16; dense tables have .9526, in seven times the time.
WIDTH, CONFUSED = 32, 0.002


def candidates_for(tagger: Any, tokens: Tokens, y: Ints) -> Candidates | None:
    """Return the candidates of `OnlineChain` for many labels; None for few labels, or if each label needs a weight."""
    step = chosen_step(tagger.step, tokens, tagger.penalty_, tagger.update)
    exact = tagger.solver == "batch" or tagger.tol is not None
    chosen = tagger.prune is not None or tagger.max_weights is not None
    plain = tagger.loss_ in LOSSES and tagger.penalty_.elastic() is not None and tagger.average in (False, "auto")
    plain = plain and tagger.update in ("auto", "dual-averaging") and isinstance(step, AdaGrad)
    known = y.size == 0 or int(y.min()) >= 0
    many = tagger.classes_.size > MANY and plain and known and not exact and not chosen
    return Candidates(width=WIDTH, confused=CONFUSED) if many else None
