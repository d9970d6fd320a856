"""Lemmas: a dictionary of seen words, by form and tags, and edit scripts for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from spom.core.arrays import Ints, under
from spom.core.container import check_indices, check_shape, take
from spom.data.columns import Columns, gather
from spom.estimators.pipeline.pruning import Judged, Kept, kept_templates, rows_of, without_template
from spom.estimators.pipeline.scripts import apply_script, lowered, script_of
from spom.estimators.pipeline.tags import weight_arrays, weights_from
from spom.features.templates import Templates
from spom.solvers.structured.chains.data import as_tokens
from spom.solvers.structured.chains.sparse.decoding import SparseWeights
from spom.solvers.structured.chains.sparse.solver import SparseChain

# The forms of unseen words carry no information; their ends, their case and their tags do.
TEMPLATES = (
    *(f"w.lower.suffix{k}[0]" for k in range(1, 9)),
    *(f"w.lower.prefix{k}[0]" for k in range(1, 7)),
    *("stem[0]", "stem[0]|upos[0]", "stem[0]|second[0]", "stem[0]|w.lower.suffix3[0]", "w.length[0]"),
    *("w.shape[0]", "w.case[0]", "upos[0]", "tag[0]", "upos[0]|w.case[0]", "tag[0]|w.case[0]"),
    *(f"upos[0]|w.lower.suffix{k}[0]" for k in range(1, 6)),
    *(f"tag[0]|w.lower.suffix{k}[0]" for k in range(1, 5)),
    *("upos[0]|w.lower[0]", "upos[0]|w.case[0]|w.lower.suffix2[0]", "upos[0]|w.lower.prefix2[0]"),
)
# The minimum strength; with few words it is FEW_STRENGTH over their number. Mean lemmas on eight treebanks'
# dev sets from 20 and 50 sentences: .746 without, .755 with .05, .758 with .1 and .2.
STRENGTH, FEW_STRENGTH = 1e-6, 0.1
EPOCHS = 8

Key = tuple[str, int]


@dataclass(frozen=True)
class Stems:
    """The number of distinct forms of each lemma, all in lower case: beginnings of a word that are lemmas.

    >>> stems = Stems.of([("yerde", "yer"), ("yerler", "yer"), ("ye", "ye")])
    >>> stems.cuts("yerden"), stems.cuts("Yerde", "yer"), stems.cuts("ye", "ye")
    (('3', '4'), ('2', '3'), ('-', '-'))
    """

    counts: dict[str, int]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Stems:
        """Count the distinct forms of each lemma from pairs (form, lemma)."""
        distinct = {(lowered(form), lowered(lemma)) for form, lemma in set(pairs)}
        return cls(dict(Counter(lemma for _, lemma in distinct)))

    def cuts(self, form: str, own: str | None = None) -> tuple[str, str]:
        """Return the number of letters after each of the two longest beginnings that are lemmas, as text; - for none.

        In training a form's own lemma counts only if another form has it too, as for a new form.
        """
        low, found = lowered(form), []
        mine = None if own is None else lowered(own)
        for size in range(len(low), 0, -1):
            start = low[:size]
            if self.counts.get(start, 0) > (start == mine):
                found.append(str(len(low) - size))
                if len(found) == 2:
                    break
        return (found[0] if found else "-"), (found[1] if len(found) > 1 else "-")


@dataclass(frozen=True)
class LemmaStage:
    """A script by (form, tag) for seen words, and a classifier of scripts for other words."""

    seen: dict[Key, int]
    templates: Templates
    weights: SparseWeights
    scripts: list[str]
    stems: Stems

    @classmethod
    def fit(
        cls,
        forms: list[str],
        tags: tuple[Ints, Ints],
        lemmas: list[str],
        names: list[tuple[str, ...]],
        seed: int = 0,
        epochs: int = EPOCHS,
        features: tuple[str, ...] = TEMPLATES,
    ) -> LemmaStage:
        """Learn from words, the numbers of their gold and predicted tags, and their lemmas: each word counts once.

        Predicted tags show the effect of wrong tags: on Turkish .8 more of all lemmas are right.
        """
        best, guessed = (_most_common(forms, part, lemmas) for part in tags)
        number: dict[str, int] = {}
        seen = {key: number.setdefault(script_of(key[0], lemma), len(number)) for key, lemma in best.items()}
        more = {key: number.setdefault(script_of(key[0], lemma), len(number)) for key, lemma in guessed.items()}
        every, stems = {**more, **seen}, Stems.of(zip(forms, lemmas, strict=True))
        lemma_of = {**guessed, **best}
        own = [lemma_of[key] for key in every]
        templates = Templates(features)
        tokens = as_tokens(templates.fit(_columns(list(every), names, stems, own)))
        y = np.fromiter(every.values(), dtype=np.int64, count=len(every))
        l1 = max(STRENGTH, FEW_STRENGTH / y.size)
        solver = SparseChain(
            tokens, y, len(number), features=templates.n_features, l1=l1, transitions=False, epochs=epochs,
            random_state=seed,
        )  # fmt: skip
        weights = solver.learnt()
        used = weights.used()
        return cls(seen, templates.compact(used), weights.only(used), list(number), stems)

    @classmethod
    def crossed(
        cls,
        forms: list[str],
        tags: tuple[Ints, Ints],
        lemmas: list[str],
        names: list[tuple[str, ...]],
        folds: int,
        features: tuple[str, ...] = TEMPLATES,
    ) -> list[str]:
        """Return lemmas of each part of the words, by a model of the other parts with half the epochs.

        `tags` are the gold and the predicted ones.
        """
        predicted = tags[1]
        found: list[str] = []
        cuts = np.linspace(0, len(forms), folds + 1).astype(int).tolist()
        for a, b in pairwise(cuts):
            rest = tuple(np.concatenate([part[:a], part[b:]]) for part in tags)
            if b == a or rest[0].size == 0:
                found += lemmas[a:b]
                continue
            mine = forms[:a] + forms[b:], (rest[0], rest[1]), lemmas[:a] + lemmas[b:]
            stage = cls.fit(*mine, names, epochs=EPOCHS // 2, features=features)
            keys = list(zip(forms[a:b], predicted[a:b].tolist(), strict=True))
            distinct = list(dict.fromkeys(keys))
            known = dict(zip(distinct, stage.lemmas(distinct, names), strict=True))
            found += [known[key] for key in keys]
        return found

    @cached_property
    def forms(self) -> dict[str, int]:
        """The script of each form that has only one, whatever its tags; -1 for other forms."""
        found: dict[str, int] = {}
        for (form, _), script in self.seen.items():
            found[form] = script if found.get(form, script) == script else -1
        return found

    def lemmas(self, keys: list[Key], names: list[tuple[str, ...]], without: str = "") -> list[str]:
        """Return the lemma of each (form, tag); without the weights of a template, if one is given."""
        found = [self.seen.get(key, self.forms.get(key[0], -1)) for key in keys]
        unknown = [i for i, script in enumerate(found) if script < 0]
        if unknown:
            rows = as_tokens(self.templates.transform(_columns([keys[i] for i in unknown], names, self.stems)))
            rows = without_template(rows, self.templates.blocks, without) if without else rows
            for i, script in zip(unknown, self.weights.tag(rows).tolist(), strict=True):
                found[i] = script
        return [apply_script(key[0], self.scripts[script]) for key, script in zip(keys, found, strict=True)]

    def arrays(self) -> dict[str, Any]:
        """Return everything except the scripts as arrays, for a model file."""
        forms = list(dict.fromkeys(form for form, _ in self.seen))
        place = {form: k for k, form in enumerate(forms)}
        found: dict[str, Any] = {f"features.{name}": array for name, array in self.templates.arrays().items()}
        found |= weight_arrays(self.weights)
        found["seen.forms"] = np.array(forms, dtype=object)
        found["stems"] = np.array(sorted(self.stems.counts), dtype=object)
        columns = {"form": [place[form] for form, _ in self.seen], "tag": [tag for _, tag in self.seen]}
        columns["script"] = list(self.seen.values())
        return found | {f"seen.{name}": np.array(values, dtype=np.int32) for name, values in columns.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], scripts: list[str], tags: int) -> LemmaStage:
        """Read and check the arrays that `arrays()` returns."""
        templates = Templates.from_arrays(under(arrays, "features."))
        forms = arrays["seen.forms"].tolist()
        sizes = {"form": len(forms), "tag": tags, "script": len(scripts)}
        parts = [check_indices(take(arrays, f"seen.{n}", "i"), size, n) for n, size in sizes.items()]
        for part in parts:
            check_shape(part, parts[0].shape, "seen")
        seen = {(forms[f], t): s for f, t, s in zip(*(part.tolist() for part in parts), strict=True)}
        for script in scripts:
            apply_script("x", script)
        stems = Stems(dict.fromkeys(arrays["stems"].tolist(), 2))
        return cls(seen, templates, weights_from(arrays, templates.n_features, len(scripts)), scripts, stems)


def needed(
    forms: list[str], tags: tuple[Ints, Ints], lemmas: list[str], names: list[tuple[str, ...]], offsets: Ints
) -> Kept:
    """Choose the templates that lemmas need; half the epochs suffice to compare. `offsets` delimit sentences."""
    words = np.array(forms, dtype=object), np.array(lemmas, dtype=object)

    def learn(features: tuple[str, ...], rest: Ints, held: Ints) -> Judged:
        (own, _), (test, ends) = gather(offsets, rest), gather(offsets, held)
        part = words[0][own].tolist(), (tags[0][own], tags[1][own]), words[1][own].tolist()
        stage = LemmaStage.fit(*part, names, epochs=EPOCHS // 2, features=features)
        keys = list(zip(words[0][test].tolist(), tags[1][test].tolist(), strict=True))
        distinct = list(dict.fromkeys(keys))

        def counts(without: str = "") -> Ints:
            known = dict(zip(distinct, stage.lemmas(distinct, names, without), strict=True))
            return rows_of(np.array([known[key] for key in keys], dtype=object) == words[1][test], ends)

        return Judged(counts(), stage.weights.values.size, counts)

    return kept_templates("lemmas", TEMPLATES, offsets.size - 1, learn)


def _most_common(forms: list[str], tags: Ints, lemmas: list[str]) -> dict[Key, str]:
    """Return the most frequent lemma of each (form, tag); ties go to the first."""
    best: dict[Key, tuple[int, str]] = {}
    for (form, tag, lemma), count in Counter(zip(forms, tags.tolist(), lemmas, strict=True)).items():
        if count > best.get((form, tag), (0, ""))[0]:
            best[form, tag] = count, lemma
    return {key: lemma for key, (_, lemma) in best.items()}


def _columns(keys: list[Key], names: list[tuple[str, ...]], stems: Stems, own: list[str] | None = None) -> Columns:
    """Return words as sentences of one word, with tags and stems as columns; `own` are their lemmas, in training."""
    # Words have several tags, and tags have many words.
    whole = ["|".join(name) for name in names]
    cuts = cache(stems.cuts)
    rows = []
    for k, (form, tag) in enumerate(keys):
        stem, second = cuts(form, None if own is None else own[k])
        rows.append([(form, names[tag][0], whole[tag], stem, second)])
    return Columns.from_lists(rows, names=("form", "upos", "tag", "stem", "second"))
