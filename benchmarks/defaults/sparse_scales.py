"""Scales of sparse columns: powers of their root mean square, chosen with one family of sets left out at a time.

`python -m benchmarks.defaults.sparse_scales measure` learns from 300, 1,000 and three quarters of the *training* rows
of texts, of the census as indicators, and of words with their parts of speech, with each column divided by a power of
its root mean square. It scores up to 4,000 other training rows (test rows are not used). Scores, and what held-out rows
say of each power compared with none, go to `results/sparse_scales.json`. `... show` compares rules: a power without
a choice, or a power if held-out rows prefer it by so many standard errors.

Sentences of `genres` come from documents, so that held-out and other training rows share documents; `documents` scores
those of the development file in place of other training rows.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer

from benchmarks.defaults.scales import Rows, learnt
from benchmarks.defaults.sentence_sets import files
from benchmarks.defaults.sets import SETS, VECTORIZERS, _sentences
from spom.data.conllu import read_conllu
from spom.estimators.linear.scaling import Scaling, column_squares

RESULTS = Path(__file__).parent / "results" / "sparse_scales.json"
POWERS = (0.25, 0.5, 0.75)
TEXTS = [f"{text}-{form}" for text in ("polarity", "ag_news", "sst5", "trec", "genres") for form in ("tfidf", "binary")]
NAMES = [*TEXTS, "polarity-bigrams", "trec-fine-counts", "languages-chars", "a8a"]
TREEBANKS = ("tr_imst", "vi_vtb", "de_gsd", "fi_tdt")
RULES = [(power, errors) for power in POWERS for errors in (-np.inf, 0.0, 0.5, 1.0, 2.0)]
_SAME = {"sst5": "polarity"}


def words(name: str) -> Rows:
    """Return the words of a treebank with their neighbours, affixes and capitals as indicators, and their UPOS."""
    bank = read_conllu(files(name)["train"])
    rows, tags = [], []
    for sentence in list(bank)[:400]:
        forms = [word[1] for word in sentence]
        low = ["^", *(form.lower() for form in forms), "$"]
        for i, word in enumerate(sentence):
            own = low[i + 1]
            told = (own, "<" + low[i], ">" + low[i + 2], "-" + own[-3:], "-" + own[-2:], own[:2] + "-")
            rows.append({**dict.fromkeys(told, 1.0), f"capital {forms[i][:1].isupper()}": 1.0})
            tags.append(word[3])
    return DictVectorizer().fit_transform(rows[:5000]), np.array(tags[:5000])


def cuts(X: Any, y: Any, seed: int) -> list[tuple[str, Rows, Rows]]:
    """Return (name, rows to learn from, other rows) for each size."""
    order, found = np.random.default_rng(10 + seed).permutation(y.size), []
    for rows in (300, 1000, y.size - y.size // 4):
        if rows <= 1000 and rows > 0.6 * y.size:
            continue
        apart = order[: min(4000, y.size - rows)]
        chosen = order[apart.size : apart.size + rows]
        found.append(("most" if rows > 1000 else str(rows), (X[chosen], y[chosen]), (X[apart], y[apart])))
    return found


def one(train: Rows, apart: Rows, seed: int) -> dict[str, float]:
    """Return the score without scales and, for each power, what it gains; also the gain on held-out rows in errors."""
    squares = column_squares(train[0])[1]
    root = np.sqrt(np.where(squares > 0.0, squares, squares.max()))
    score, choice = learnt(Scaling(None, np.ones(root.size)), train, apart, seed)
    found = {"score": score}
    for power in POWERS:
        rival, other = learnt(Scaling(None, root**power), train, apart, seed)
        assert choice.best is not None
        assert other.best is not None
        gap = choice.best.losses - other.best.losses
        found[f"gain {power}"] = rival - score
        found[f"errors {power}"] = gap.mean() / max(gap.std() / np.sqrt(gap.size), 1e-12)
    return {key: round(float(value), 6) for key, value in found.items()}


def measure() -> None:
    """Measure what is not measured yet."""
    for name in [*NAMES, *TREEBANKS]:
        X, y = words(name) if name in TREEBANKS else (lambda s: (s.X, np.asarray(s.y)))(SETS[name].load(0))
        for seed in range(2):
            for rows, train, apart in cuts(sparse.csr_matrix(X), y, seed):
                _keep(f"{name}, {rows} rows, seed {seed}", train, apart, seed)
    for form in ("tfidf", "binary"):
        (texts, y), (others, gold) = (zip(*documents(part), strict=True) for part in ("train", "dev"))
        vectorizer = VECTORIZERS[form]()
        train = vectorizer.fit_transform(texts).tocsr(), np.array(y)
        _keep(f"documents-{form}, most rows, seed 0", train, (vectorizer.transform(others), np.array(gold)), 0)


def documents(part: str) -> list[tuple[str, str]]:
    """Return the sentences of EWT with their genres; those of the two files come from different documents."""
    return [(text, name.split("-")[0]) for name, text in _sentences(f"ewt/en_ewt-ud-{part}.conllu.gz")]


def _keep(key: str, train: Rows, apart: Rows, seed: int) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if key in done:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done[key] = one(train, apart, seed)
    RESULTS.write_text(json.dumps(done, sort_keys=True).replace("}, ", "},\n ") + "\n")
    print(key, done[key], flush=True)


def gains(power: float, errors: float) -> dict[str, float]:
    """Return what a rule gains on each family."""
    found: dict[str, list[float]] = defaultdict(list)
    for key, values in json.loads(RESULTS.read_text()).items():
        name = key.split(",")[0]
        family = "words" if name in TREEBANKS else name.split("-")[0]
        taken = values[f"errors {power}"] > errors
        found[_SAME.get(family, family)].append(values[f"gain {power}"] if taken else 0.0)
    return {family: float(np.mean(values)) for family, values in found.items()}


def show() -> None:
    """Print the gain of each rule on each family, and the rule that each left-out family gets."""
    found = {rule: gains(*rule) for rule in RULES}
    families = list(found[RULES[0]])
    for rule, own in found.items():
        print(f"  {rule!s:<14} mean {np.mean(list(own.values())):+.4f} ", {k: round(v, 4) for k, v in own.items()})
    left = []
    for family in families:
        best = max(RULES, key=lambda rule: np.mean([v for k, v in found[rule].items() if k != family]))
        left.append(found[best][family])
        print(f"  without {family:<12} {best!s:<14} {left[-1]:+.4f}")
    print(f"  mean on families that were left out: {np.mean(left):+.4f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure()
    else:
        show()
