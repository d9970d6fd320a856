"""Names, sets and layout of templates for arcs."""

from __future__ import annotations

import numpy as np
import pytest

from spom.core.arrays import read_only
from spom.data import Treebank
from spom.errors import DataError
from spom.features import arc_spaces
from spom.features.arc_sets import LABELS, guided_templates, parse_template, template_name
from spom.features.arc_spaces import outer_children
from spom.features.arcs import ArcTemplates

WORDS = [
    {"form": "The", "lemma": "the", "upos": "DET", "xpos": "DT", "head": 2, "deprel": "det"},
    {"form": "dogs", "lemma": "dog", "upos": "NOUN", "xpos": "NNS", "head": 3, "deprel": "nsubj"},
    {"form": "bark", "lemma": "bark", "upos": "VERB", "xpos": "VBP", "head": 0, "deprel": "root"},
]


@pytest.mark.parametrize("name", ["compact", "large"])
def test_sets_are_sorted_named_and_of_their_size(name: str) -> None:
    templates = ArcTemplates(name)
    assert len(set(templates.blocks)) == len(templates.blocks)
    assert len(templates.blocks) == {"compact": 60, "large": 447}[name]
    families = [family.name for family in templates.families]
    assert families == sorted(families)
    for block, (f, slot) in zip(templates.blocks, templates.places, strict=True):
        family, found = parse_template(block)
        assert (family, found) == (templates.families[f], slot)
        assert template_name(family.name, found) == block
    assert ArcTemplates(list(reversed(templates.blocks))).blocks == templates.blocks


def test_guided_templates_know_that_they_need_a_tree() -> None:
    assert not ArcTemplates("large").guided
    assert all(parse_template(name)[0].guided for name in guided_templates())
    assert any(parse_template(name)[0].guided for name in LABELS)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["h.word m.upos"], "'h.word' is no attribute of an arc"),
        (["h+3.upos"], "'h\\+3.upos' is no attribute"),
        (["dist"], "names no attribute"),
        ([""], "names no attribute"),
        ([], "there are no templates"),
        ("tiny", "no set of templates 'tiny'"),
        (["h.upos between.upos between.xpos"], "'between.xpos'"),
    ],
)
def test_bad_templates_are_named(names: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArcTemplates(names)  # type: ignore[arg-type]  # what is wrong is what is tested
    with pytest.raises(ValueError, match="table_bits"):
        ArcTemplates("compact", table_bits=60)


def test_tables_of_families_do_not_overlap() -> None:
    bank = Treebank.from_sentences([WORDS] * 3)
    for templates in (ArcTemplates("large"), ArcTemplates(LABELS)):
        templates.fit(bank)
        layout = templates.layout(apart=templates.guided)
        bases = layout.families[:, arc_spaces.BASE]
        assert bases[0] == 0
        assert (np.diff(bases) > 0).all()
        assert layout.rows > bases[-1]


def test_unknown_words_tags_and_columns_have_codes() -> None:
    bank = Treebank.from_sentences([WORDS, WORDS])
    templates = ArcTemplates(["h.form m.suffix", "h.upos m.xpos dist"], min_count=1)
    codes = templates.fit(bank)
    form = templates.columns.index("form")
    assert codes.codes[form, 0] == templates.radix("form") - 2
    other = Treebank.from_sentences([[{"form": "Xyz", "upos": "NEW", "xpos": "_"}], [WORDS[0] | {"head": 0}]])
    found = templates.transform(other)
    assert found.codes[form].tolist()[1] == 0
    assert found.codes[templates.columns.index("upos")].tolist()[1] == 0
    assert found.sizes.tolist() == [1, 1]
    assert found.first.tolist() == [0, 2]
    rare = ArcTemplates(["h.form m.upos"], min_count=3)
    rare.fit(bank)
    assert len(rare.vocabularies["form"]) == 0
    assert len(rare.vocabularies["upos"]) == 3


def test_affixes_and_lower_case_are_those_of_characters() -> None:
    forms = ["ÉCOLE", "a", "żółw", "日本語文", "Dogs", "éé"]
    bank = Treebank.from_sentences([[{"form": form, "upos": "X", "head": k} for k, form in enumerate(forms)]])
    templates = ArcTemplates(["h.prefix", "h.suffix", "h.lower"], min_count=1)
    templates.fit(bank)
    expected = {"prefix": lambda f: f[:3], "suffix": lambda f: f[-3:], "lower": str.lower}
    for name, made in expected.items():
        assert sorted(templates.vocabularies[name].strings()) == sorted({made(form) for form in forms})


def test_kept_templates_and_arrays_are_the_same_templates() -> None:
    bank = Treebank.from_sentences([WORDS, WORDS])
    templates = ArcTemplates("compact", min_count=1)
    codes = templates.fit(bank)
    kept = templates.keep([0, 5, 40])
    assert kept.blocks == [templates.blocks[k] for k in (0, 5, 40)]
    again = ArcTemplates.from_arrays(templates.arrays())
    assert again.blocks == templates.blocks
    np.testing.assert_array_equal(again.transform(bank).codes, codes.codes)
    assert again.layout().rows == templates.layout().rows
    assert "60 templates" in repr(again)


def test_bins_of_distances_and_the_arcs_of_a_long_sentence() -> None:
    bins = [arc_spaces.distance_bin(d) for d in range(1, 15)]
    assert bins == [0, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5]
    n = 14
    codes = read_only(np.zeros((1, n + 1), dtype=np.int32))
    kinds = read_only(np.zeros(n + 1, dtype=np.int64))
    sentence = arc_spaces.Sentence(codes, kinds, np.empty(0, dtype=np.int64), 0, n)
    arcs = np.empty((4, (n + 1) ** 2), dtype=np.int64)
    count = arc_spaces.candidates(sentence, 0, np.empty((0, 0, 0), dtype=np.int16), arcs)
    assert count == n * n
    for h, m, side, place in arcs[:, :count].T.tolist():
        assert side == (h > m)
        assert place == 6 * side + bins[abs(h - m) - 1]
    # The filter: the largest distance of the direction, whatever the distance of an arc from the root.
    limits = np.full((2, 1, 1), 6, dtype=np.int16)
    count = arc_spaces.candidates(sentence, 0, limits, arcs)
    expected = {(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m and (h == 0 or abs(h - m) <= 6)}
    assert set(map(tuple, arcs[:2, :count].T.tolist())) == expected


def test_a_sentence_without_a_tree_has_no_guide() -> None:
    """Check the size of the guide, which kernels read first."""
    codes = ArcTemplates("compact").fit(Treebank.from_sentences([WORDS, WORDS]))
    parts = (codes.codes, codes.kinds, codes.first, codes.sizes)
    for guides, expected in ((np.zeros(0, dtype=np.int64), []), (np.arange(8), [4, 5, 6, 7])):
        corpus = arc_spaces.Corpus(*map(read_only, (*parts, guides)))
        assert arc_spaces.sentence_of(corpus, 1).guide.tolist() == expected


def test_outer_children_are_those_of_one_sentence() -> None:
    # Heads of words 1 to 4, then the root and the first word of the next sentence.
    guide = np.array([-1, 2, 0, 2, 3, 0, 1, 2], dtype=np.int64)
    children = np.full((2, guide.size), 9, dtype=np.int64)
    outer_children(4, guide, children)
    assert children[:, :5].tolist() == [[-1, -1, 1, -1, -1], [2, -1, 3, 4, -1]]
    assert (children[:, 5:] == 9).all()
