"""The meaning of `"auto"` for a parser: its trees, its penalty, and the use of the penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.core import registry
from spom.data.treebank import Treebank
from spom.errors import Unsupported
from spom.estimators.checking import operator
from spom.penalties import GroupLasso
from spom.penalties.forms import runs_on_norms
from spom.solvers.structured.trees.select import looked_at

# Up to this share of trees with crossing arcs, trees without crossing arcs are better. On held-out trees of twelve
# treebanks with shares of 0 to .15 they were better by .002 to .019 UAS on all but one of fifteen sentences; at .21 and
# .22 both are equal, at .41 they lose .008. Any value from .16 to .4 gives the same choices on all of them.
CROSSING = 0.25
# The number of sentences in the sample, evenly spaced: enough to know the share to .015.
SAMPLE = 1000


def crosses(heads: Any) -> bool:
    """Return whether some arcs of a tree cross; heads count from one, and the root is 0 before the first word.

    >>> crosses([2, 0, 2]), crosses([3, 4, 0, 3])
    (False, True)
    """
    heads = np.asarray(heads, dtype=np.int64)
    words = np.arange(1, heads.size + 1)
    low, high = np.minimum(words, heads), np.maximum(words, heads)
    inside = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
    return bool(inside.any())


def crossing_share(bank: Treebank, most: int = SAMPLE) -> float:
    """Return the share of trees with crossing arcs, from at most `most` sentences."""
    chosen = np.unique(np.linspace(0, len(bank) - 1, min(len(bank), most)).astype(np.int64))
    found = [crosses(bank.heads[bank.offsets[i] : bank.offsets[i + 1]]) for i in chosen.tolist()]
    return float(np.mean(found)) if found else 0.0


def chosen_projective(given: Any, bank: Treebank) -> tuple[bool, str]:
    """Return (whether trees must be projective, why)."""
    if not (isinstance(given, str) and given == "auto"):
        if not isinstance(given, (bool, np.bool_)):
            raise ValueError(f"projective must be True, False or 'auto'; it is {given!r}")
        return bool(given), f"{'projective' if given else 'all'} trees, as given"
    share = crossing_share(bank)
    projective = share <= CROSSING
    return projective, f"{'projective' if projective else 'all'} trees: {100 * share:.1f} % have crossing arcs"


# --- penalty --------------------------------------------------------------------------------------------------

# The strength of a group lasso given by name is this over the root of the number of sentences used for selection; for
# other penalties of blocks, which are squares, it is this over their number. On development parts of six treebanks (467
# to 3,435 sentences, 69 templates) a group lasso of 3 keeps 49 to 66 templates at UAS -.0038 to +.0022, and 7 loses up
# to .015; squares of 7 keep 37 to 46 at -.0038 to +.0028, and 14 loses up to .009. No finer grid was tried.
GROUPS, SQUARES = 3.0, 7.0
# The strength of the l1 norm given by name is this over the number of all sentences. Chosen on development parts of
# nine treebanks with one left out at a time (benchmarks/defaults/parser_strengths.py): 36 % of the weights at UAS
# -.0031 to +.0008.
SINGLE = 1.0
UPDATES = ("auto", "select", "forward-backward", "dual-averaging")
# Options that need all sentences at once.
WHOLE = "prune= and penalties that select templates (update='select', which 'auto' takes)"


def chosen_penalty(given: Any, sentences: int) -> Any:
    """Return the penalty: none for `"auto"` and None; by name, its strength falls with the number of sentences.

    For a penalty of both single weights and templates, the two strengths give its ratio.

    >>> chosen_penalty("auto", 1000) is None
    True
    >>> chosen_penalty("group-lasso", 400)
    GroupLasso(strength=0.15)
    >>> chosen_penalty("sparse-group-lasso", 400)
    SparseGroupLasso(strength=0.152, l1_ratio=0.0164)
    """
    if given is None or (isinstance(given, str) and given == "auto"):
        return None
    if not isinstance(given, str):
        return operator("penalty", given)
    seen, found = max(1, looked_at(sentences)), registry.make("penalty", given)
    elastic, form = found.elastic(), found.split(1)
    groups, single = GROUPS / seen**0.5, SINGLE / max(1, sentences)
    if elastic is None and form is not None and form.elastic.l1 > 0.0:
        ratio = _rounded(single / (groups + single))
        return found.set_params(strength=_rounded(groups + single), l1_ratio=ratio)
    strength = groups if found.homogeneous else SQUARES / seen
    if elastic is not None and elastic.l1 > 0.0:
        strength = single
    return operator("penalty", given, GroupLasso(_rounded(strength)))


def _rounded(strength: float) -> float:
    """Return a strength with three digits."""
    return float(f"{strength:.3g}")


def chosen_update(given: str, penalty: Any, loss: str, count: int) -> str:
    """Return the update: `"auto"` selects among `count` templates under a block penalty, except with the log loss.

    Penalties of both, and of groups of blocks, use a selection under every loss; those of single weights never do.

    >>> chosen_update("auto", GroupLasso(0.1), "mira", 69), chosen_update("auto", GroupLasso(0.1), "log", 69)
    ('select', 'forward-backward')
    >>> from spom.penalties import L1, SparseGroupLasso
    >>> chosen_update("auto", L1(0.1), "mira", 69), chosen_update("auto", SparseGroupLasso(0.1), "log", 69)
    ('dual-averaging', 'select')
    """
    if given not in UPDATES:
        raise Unsupported(f"there is no update {given!r} for parsers; the updates are: {', '.join(UPDATES)}")
    if given in ("select", "dual-averaging") and penalty is None:
        what = "templates, such as GroupLasso(0.1)" if given == "select" else "single weights, such as L1(1e-3)"
        raise ValueError(f"update={given!r} needs a penalty of {what}, or a name")
    elastic, blocks = None if penalty is None else penalty.elastic(), penalty is None or runs_on_norms(penalty, count)
    if given == "auto":
        if elastic is not None and elastic.l1 > 0.0:
            return "dual-averaging"
        return "forward-backward" if blocks and (penalty is None or elastic is not None or loss == "log") else "select"
    if given == "dual-averaging" and elastic is None:
        raise Unsupported(f"update='dual-averaging' of parsers is for penalties of single weights, not {penalty!r}")
    if given == "forward-backward" and not blocks:
        other = "select" if elastic is None else "dual-averaging"
        raise Unsupported(f"{penalty!r} is no penalty of block norms: it needs update={other!r}")
    return given


def check_batch(parser: Any, penalty: Any) -> None:
    """Raise an error for settings that the batch solver does not support."""
    if parser.solver != "batch":
        raise Unsupported(f"there is no solver {parser.solver!r} for parsers; there are: online, batch")
    if parser.loss != "log":
        raise Unsupported(f"solver='batch' minimises the log loss; loss is {parser.loss!r}")
    if penalty is None:
        raise ValueError(
            "solver='batch' goes to the optimum of a penalty, such as L1(0.01) or GroupLasso(0.1); give one"
        )
    if parser.update == "select" or parser.prune == "auto":
        raise Unsupported("solver='batch' goes to the optimum: leave update='select' and prune='auto' out")
