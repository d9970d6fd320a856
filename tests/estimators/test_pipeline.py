"""Pipelines on a generated language: from raw text to trees, files, bad input, and what is written."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from spom import Pipeline, load_model
from spom.data import Treebank, read_conllu
from spom.data.columns import packed_strings
from spom.data.conllu import conllu_text
from spom.data.surface import Surface
from spom.errors import DataError, ModelFileError
from spom.estimators.pipeline.characters import (
    BITS,
    FEW,
    FORMER,
    LOWER,
    MOST,
    OLDER,
    STOP,
    UNKNOWN,
    UPPER,
    Characters,
    bucket,
    character_hashes,
    character_places,
    characters_of,
    count_places,
    lowered,
    number_places,
    places_before,
    runs_of,
    without,
)
from spom.estimators.pipeline.characters import TEMPLATES as CHARACTER_TEMPLATES
from spom.estimators.pipeline.lemmas import LemmaStage, Stems
from spom.estimators.pipeline.multiword import Splitter, apply_rule, rule_of
from spom.estimators.pipeline.packing import pack, unpack
from spom.estimators.pipeline.pipeline import with_gold
from spom.estimators.pipeline.pruning import Judged, kept_templates, rows_of, without_template
from spom.estimators.pipeline.scripts import apply_script, script_of
from spom.estimators.pipeline.segmenter import (
    KEPT,
    LEARNERS,
    PASSES,
    STRENGTH,
    WEIGHED,
    Segmenter,
    better_chained,
    features_of,
    labelled_text,
    mean_weights,
    one_after_another,
    thinned,
)
from spom.estimators.pipeline.sentences import TEMPLATES, Seen, SentenceEnds, Spans, described, places_of
from spom.estimators.pipeline.shrinking import bytes_of, without_small
from spom.estimators.pipeline.tags import TagStage, agreement, chosen, label_parts, parted, tags_of, word_classes
from spom.estimators.pipeline.writing import Strings
from spom.features.rows import Blocks
from spom.solvers.structured.chains.data import Tokens
from spom.solvers.structured.chains.sparse.solver import SparseChain

NOUNS = {"dogs": "dog", "cats": "cat", "birds": "bird", "trees": "tree", "horses": "horse"}
VERBS = {"chased": "chase", "saw": "see", "liked": "like", "followed": "follow"}


BLANK = "\t_" * 8


def generated(count: int, seed: int) -> bytes:
    """Draw sentences `The dogs don't chase cats.` with multiword tokens, paragraphs and trees, as CoNLL-U."""
    draw = np.random.default_rng(seed)
    blocks = []
    for s in range(count):
        subject, thing = draw.choice(list(NOUNS), 2)
        verb = str(draw.choice(list(VERBS)))
        rows = [
            ("1", "The", "the", "DET", "DT", "Definite=Def|PronType=Art", "2", "det", "_"),
            ("2", subject, NOUNS[subject], "NOUN", "NNS", "Number=Plur", "0", "nsubj", "_"),
        ]
        at = 3
        lines = []
        if draw.random() < 0.4:
            rows += [
                ("3-4", "don't", "_", "_", "_", "_", "_", "_", "_"),
                ("3", "do", "do", "AUX", "VBP", "Tense=Pres", "0", "aux", "_"),
                ("4", "n't", "not", "PART", "RB", "_", "0", "advmod", "_"),
            ]
            at = 5
        rows += [
            (str(at), verb, VERBS[verb], "VERB", "VBD", "Tense=Past", "0", "root", "_"),
            (str(at + 1), thing, NOUNS[thing], "NOUN", "NNS", "Number=Plur", str(at), "obj", "SpaceAfter=No"),
            (str(at + 2), ".", ".", "PUNCT", ".", "_", str(at), "punct", "_"),
        ]
        for r in rows:
            head = r[6] if r[6] not in ("0",) or r[7] == "root" else str(at)
            lines.append("\t".join((*r[:6], head if "-" not in r[0] else "_", r[7], "_", r[8])))
        head_lines = ["# newpar"] if s % 4 == 0 else []
        blocks.append("\n".join([*head_lines, *lines]))
    return ("\n\n".join(blocks) + "\n\n").encode()


def bank(count: int, seed: int) -> Treebank:
    from spom.data.conllu import parse_conllu

    return parse_conllu(generated(count, seed))


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline(verbose=0).fit(bank(200, 0))


def test_raw_text_to_trees(pipeline: Pipeline) -> None:
    found = pipeline.evaluate(bank(60, 1))
    for name in ("tokens", "sentences", "words", "upos", "xpos", "feats", "lemmas", "uas", "las"):
        assert found[name] > 0.97, name
    assert pipeline.score(bank(20, 2)) == pytest.approx(pipeline.evaluate(bank(20, 2))["las"])


def test_offsets_and_text_are_those_of_the_input(pipeline: Pipeline) -> None:
    text = "The dogs  don't chased\ncats.\n\n\nThe birds saw trees. "
    found = pipeline.predict(text)
    surface, misc = Surface.of(found), found.columns.strings("misc")
    assert surface.text().split() == text.split()
    ranges = [part for row in misc for field in row for part in field.split("|") if part.startswith("TokenRange=")]
    spans = [tuple(map(int, part.removeprefix("TokenRange=").split(":"))) for part in ranges]
    assert [text[a:b] for a, b in spans] == [w for w in surface.forms if w != "don't"]
    assert len(found) == 2


def test_model_files_give_the_same_trees(pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "p.spom"
    pipeline.save(path)
    text = Surface.of(bank(30, 3)).text()
    again = load_model(path)
    assert conllu_text(again.predict(text)) == conllu_text(pipeline.predict(text))
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 255
    path.write_bytes(bytes(raw))
    with pytest.raises(ModelFileError):
        load_model(path)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        Pipeline(verbose=0, folds=2).fit(bank(40, 0)).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_words_that_are_given_enter_at_their_stage(pipeline: Pipeline) -> None:
    gold = bank(20, 4)
    blank = gold.without_trees().with_columns(upos=["_"] * gold.n_words, lemma=["_"] * gold.n_words)
    found = pipeline.predict(blank)
    assert found.columns.strings("form") == gold.columns.strings("form")
    assert np.mean(found.heads == gold.heads) > 0.95
    assert found.columns.strings("upos") == gold.columns.strings("upos")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n ",
        "x",
        "\x00\x01 dogs\x07",
        "狗追貓。鳥看樹。",
        "a" * 70_000,
        "dogs " * 1500,
        "\ufeffThe dogs saw cats.",
        "|\\",
    ],
)
def test_odd_texts_give_trees(pipeline: Pipeline, text: str) -> None:
    found = pipeline.predict(text)
    if found.n_words:
        found.check_trees()
    assert "".join(Surface.of(found).text().split()) == "".join(text.split())
    assert np.diff(found.offsets).max(initial=0) <= 500


def test_blocks_in_threads_are_those_of_one_thread(pipeline: Pipeline) -> None:
    blocks = [Surface.of(bank(20 + k, k)).text() + "\n\n" for k in range(6)]
    one = b"".join(conllu_text(part) for part in pipeline.predict_blocks(blocks))
    many = clone(pipeline).set_params(n_jobs=3)
    many.__dict__.update({name: held for name, held in vars(pipeline).items() if name.endswith("_")})
    assert b"".join(conllu_text(part) for part in many.predict_blocks(blocks)) == one
    # Numbers of sentences and places in the text go on from block to block.
    text = "".join(blocks)
    numbers = re.findall(rb"# sent_id = (\d+)", one)
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    last = re.findall(rb"TokenRange=(\d+):(\d+)", one)[-1]
    assert text[int(last[0]) : int(last[1])] == "."


def test_blocks_of_paragraphs_give_what_the_whole_text_gives(pipeline: Pipeline) -> None:
    blocks = ["\n\n", "The dogs saw cats.\n\n", "\n", "A cat sleeps. The dog saw.\n", "\nThe dogs saw cats."]
    whole = conllu_text(pipeline.predict("".join(blocks)))
    assert whole.count(b"# newpar") == 2
    headings = [line for line in whole.split(b"\n") if line.startswith(b"#")]
    found = b"".join(conllu_text(part) for part in pipeline.predict_blocks(blocks))
    assert [line for line in found.split(b"\n") if line.startswith(b"#")] == headings


@pytest.mark.parametrize(
    ("parser", "message"),
    [(3, "parser must be a dict of settings"), ({"ordr": 1}, "no setting 'ordr'; did you mean 'order'")],
)
def test_unknown_settings_of_the_parser_are_an_error(parser: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pipeline(parser=parser, verbose=0).fit(bank(20, 0))


def test_several_texts_and_no_text(pipeline: Pipeline) -> None:
    one = pipeline.predict("The dogs saw cats.")
    both = pipeline.predict(["The dogs saw cats.", "The dogs saw cats."])
    assert both.heads.tolist() == one.heads.tolist() * 2
    with pytest.raises(DataError, match="expected text as a string"):
        pipeline.predict([3])
    with pytest.raises(DataError, match="no words"):
        Pipeline().fit(Treebank.from_sentences([]))


def test_without_trees_and_without_lemmas() -> None:
    gold = bank(60, 0)
    found = (
        Pipeline(trees=False, verbose=0)
        .fit(gold.with_columns(lemma=["_"] * gold.n_words))
        .predict("The dogs saw cats.")
    )
    assert found.heads.tolist() == [-1] * 5
    assert found.columns.strings("lemma") == [["_"] * 5]


def test_a_treebank_without_trees() -> None:
    gold = bank(60, 0).without_trees()
    with pytest.raises(DataError, match="no word has a HEAD; set trees=False"):
        Pipeline(verbose=0).fit(gold)
    learnt = Pipeline(trees=False, verbose=0).fit(gold)
    measures = learnt.evaluate(gold).flat()
    assert learnt.score(gold) == measures["upos"] > 0.9
    assert list(measures) == [*("tokens", "sentences", "words", "upos", "xpos", "feats", "alltags", "lemmas")]
    # With trees on one side alone there is nothing to compare either.
    assert learnt.evaluate(bank(60, 0)).flat() == measures


def test_what_is_written_is_valid(pipeline: Pipeline, tmp_path: Path) -> None:
    validator = pytest.importorskip("udtools.validator")
    text = Surface.of(bank(40, 5)).text() + "\n\nSome  other\twords, 42 of them!\n\nThe cats don't saw dogs."
    path = tmp_path / "out.conllu"
    path.write_bytes(conllu_text(pipeline.predict(text)))
    state = validator.Validator(lang="en", level=2).validate_file(str(path))
    assert state.passed(), str(state.error_counter)


# --- the stages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "lemma"),
    [("Running", "run"), ("went", "go"), ("McDonald", "McDonald"), ("USA", "USA"), ("PARIS", "Paris"), ("a", "_"),
     ("İstanbul", "İstanbul"), ("geht", "gehen"), ("x", ""), ("ungesehen", "sehen")],
)  # fmt: skip
def test_scripts_make_the_lemma(form: str, lemma: str) -> None:
    assert apply_script(form, script_of(form, lemma)) == lemma


@pytest.mark.parametrize(
    ("token", "words"),
    [("du", ["de", "le"]), ("DON'T", ["DO", "N'T"]), ("Zum", ["Zu", "dem"]), ("damelo", ["da", "me", "lo"]),
     ("dándole", ["dando", "le"]), ("Díselo", ["Di", "se", "lo"]), ("à", ["a", "a"]), ("ÀS", ["A", "AS"]),
     ("mantê-los", ["mantê", "los"]), ("añadírselo", ["añadir", "se", "lo"])],
)  # fmt: skip
def test_rules_give_the_words(token: str, words: list[str]) -> None:
    assert apply_rule(token, rule_of(token, words)) == words


def split(splitter: Splitter, text: str) -> list[list[str]]:
    """Return the words of each token of a text with blanks between all tokens."""
    number: dict[str, int] = {}
    codes = np.array([number.setdefault(token, len(number)) for token in text.split()])
    words, first = splitter.split(Strings(codes, list(number)))
    forms = [words.strings[k] for k in words.codes.tolist()]
    return [forms[a:b] for a, b in pairwise(first.tolist())]


def test_unseen_tokens_are_split_by_their_ending() -> None:
    splitter = Splitter.fit(Surface.of(bank(50, 0)), bank(50, 0), {})
    assert splitter.words("don't") == ["do", "n't"]
    assert splitter.words("Don't") == ["Do", "n't"]
    assert splitter.words("dogs") is None
    assert Splitter.from_state(splitter.state(), splitter.arrays()).words("don't") == ["do", "n't"]
    # Words that end as `haven't` does, whatever comes before.
    stems = ["have", "could", "would", "should", "did", "had", "must", "might", "need"]
    rows, spans = [], []
    for stem in stems:
        rows += [f"1-2\t{stem}n't" + "\t_" * 8, f"1\t{stem}" + "\t_" * 8, "2\tn't" + "\t_" * 8, ""]
        spans += [f"1\t{stem}" + "\t_" * 8, ""]
    from spom.data.conllu import parse_conllu

    made = parse_conllu(("\n".join(rows + spans) + "\n").encode())
    found = Splitter.fit(Surface.of(made), made, {})
    assert split(found, "couldn't are aren't Wasn't") == [["could", "n't"], ["are"], ["are", "n't"], ["Was", "n't"]]


def test_endings_take_accents_off_and_leave_tokens_without_letters_whole() -> None:
    from spom.data.conllu import parse_conllu

    lines = []
    for stem in ("cant", "mir", "habl", "llam", "busc", "dej", "pag", "lav"):
        lines += [f"1-2\t{stem}ándole{BLANK}", f"1\t{stem}ando{BLANK}", f"2\tle{BLANK}", ""]
        lines += [f"1-2\t{stem}o3{BLANK}", f"1\t{stem}o{BLANK}", f"2\t3{BLANK}", "", f"1\t{stem}ando{BLANK}", ""]
    made = parse_conllu(("\n".join(lines) + "\n").encode())
    splitter = Splitter.fit(Surface.of(made), made, {})
    assert splitter.seen == {}
    assert split(splitter, "Tomándole tomando tomo3 20,3 53") == [
        *(["Tomando", "le"], ["tomando"], ["tomo", "3"], ["20,3"], ["53"])
    ]


def test_the_next_token_decides_where_a_token_has_two_readings() -> None:
    from spom.data.conllu import parse_conllu

    def word(number: str, form: str) -> str:
        return f"{number}\t{form}" + "\t_" * 8

    one = [word("1", "its"), word("2", "tail"), ""]
    two = [word("1-2", "its"), word("1", "it"), word("2", "s"), word("3", "not"), ""]
    made = parse_conllu(("\n".join(one * 5 + two * 3) + "\n").encode())
    splitter = Splitter.fit(Surface.of(made), made, {})
    again = Splitter.from_state(splitter.state(), splitter.arrays())
    # Files of older versions have a table of the tokens after it.
    assert splitter.endings is not None
    table = {"its": {"not": rule_of("its", ["it", "s"])}}
    older = Splitter(splitter.seen, splitter.endings, table)
    for found in (splitter, again, older, Splitter.from_state(older.state(), older.arrays())):
        assert split(found, "its tail its not Its not") == [
            *(["its"], ["tail"], ["it", "s"], ["not"], ["It", "s"], ["not"])
        ]


def test_classes_of_the_neighbours_decide_where_these_are_new() -> None:
    from spom.data.conllu import parse_conllu

    nouns, verbs = [f"noun{k}" for k in "abcdefgh"], [f"verb{k}" for k in "abcdefgh"]
    lines = []
    for noun, verb in zip(nouns[:6], verbs[:6], strict=True):
        lines += [f"1\tits{BLANK}", f"2\t{noun}{BLANK}", ""]
        lines += [f"1-2\tits{BLANK}", f"1\tit{BLANK}", f"2\ts{BLANK}", f"3\t{verb}{BLANK}", ""]
    made = parse_conllu(("\n".join(lines) + "\n").encode())
    classes = {**dict.fromkeys(nouns, "NOUN"), **dict.fromkeys(verbs, "VERB")}
    splitter = Splitter.fit(Surface.of(made), made, classes)
    assert split(splitter, "its nounh its verbh") == [["its"], ["nounh"], ["it", "s"], ["verbh"]]


def test_labels_of_characters_are_those_of_the_tokens() -> None:
    text, labels = labelled_text(Surface.of(bank(3, 0)))
    assert text.startswith("The ")
    assert labels[:4].tolist() == [0, 0, 1, 3]
    assert (labels == 2).sum() == 3


def test_languages_without_blanks() -> None:
    words = ["狗", "貓貓", "看見", "喜歡", "很", "樹"]
    draw = np.random.default_rng(0)
    rows = [
        [
            *({"form": str(w), "misc": "SpaceAfter=No"} for w in draw.choice(words, 4)),
            {"form": "。", "misc": "SpaceAfter=No"},
        ]
        for _ in range(150)
    ]
    gold = Treebank.from_sentences(rows)
    surface = Surface.of(gold)
    found = Segmenter.fit(surface, np.zeros(gold.n_words, dtype=np.int64)).segments(surface.text())
    text = surface.text()
    assert [text[a:b] for a, b in zip(found.begin.tolist(), found.end.tolist(), strict=True)] == surface.forms
    assert np.array_equal(found.offsets, surface.offsets)


def test_a_text_without_blanks_is_cut_like_another_one() -> None:
    # The whole text is one run of non-blanks: what is learnt of that run must not stand in for a bias.
    words = ["狗", "貓貓", "看見", "喜歡", "很", "樹"]
    surfaces = []
    for seed, count in ((0, 300), (1, 40)):
        draw = np.random.default_rng(seed)
        rows = [[{"form": str(w)} for w in [*draw.choice(words, draw.integers(3, 9)), "。"]] for _ in range(count)]
        surfaces.append(Surface.of(Treebank.from_sentences(rows)))
    text = surfaces[1].text()
    tags = np.zeros(len(surfaces[0].forms), dtype=np.int64)
    found = Segmenter.fit(surfaces[0], tags).segments(text)
    assert [text[a:b] for a, b in zip(found.begin.tolist(), found.end.tolist(), strict=True)] == surfaces[1].forms
    assert np.array_equal(found.offsets, surfaces[1].offsets)


def test_runs_of_a_text() -> None:
    text = 'He said (x\n\nNo! "a b" 12-Ab cd-Ef No!'
    characters = characters_of(text)
    runs = runs_of(characters, lowered(characters.points))
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    assert list(zip(runs.begin.tolist(), runs.end.tolist(), strict=True)) == spans
    words = [text[a:b] for a, b in spans]
    for a in range(len(words)):
        for b in range(a):
            assert (runs.whole[a] == runs.whole[b]) == (words[a] == words[b])
            assert (runs.lower[a] == runs.lower[b]) == (words[a].lower() == words[b].lower())
    # He said (x | No! "a b" 12-Ab cd-Ef No! : before, after, since a stop, 2 for a bracket + 1 for a quote
    before, after, since, opened = runs.place.T.tolist()
    assert before == [0, 1, 2, 0, 1, 2, 3, 4, 4]
    assert after == [2, 1, 0, 4, 4, 3, 2, 1, 0]
    assert since == [0, 1, 2, 0, 0, 1, 2, 3, 4]
    assert opened == [0, 0, 2, 0, 1, 0, 0, 0, 0]


def test_margins_of_tokens_learn_where_sentences_end() -> None:
    text = "Yes. He came (late) 3 p.m. Then he left\n\nNo end"
    spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    tokens = Spans(*(np.array(ends) for ends in zip(*spans, strict=True)))
    characters = characters_of(text)
    lower = lowered(characters.points)
    last = np.array([text[a:b] in (".", "left", "end") for a, b in spans])
    ends = SentenceEnds.fit(characters, lower, tokens, last, np.arange(last.size) % 3, 0)
    found = ends.margins(characters, lower, tokens)
    assert np.array_equal(found > 0, last)
    # Tokens with the same neighbours have the same features; one in another paragraph has not.
    again = Spans(*(np.array(ends) for ends in zip(*spans[:-2], strict=True)))
    assert np.allclose(ends.margins(characters_of(text[:-8]), lower[:-8], again)[:5], found[:5])


@pytest.mark.parametrize("stop", [".", "!", "?", "\u3002", "\uff01", "\uff1f"])
def test_tokens_are_counted_from_the_last_end_of_a_sentence_in_any_script(stop: str) -> None:
    text = f"a b {stop} c d , e"
    spans = Spans(*(np.array([match.span()[k] for match in re.finditer(r"\S", text)]) for k in (0, 1)))
    characters = characters_of(text)
    attributes, _ = described(characters, lowered(characters.points), spans)
    assert attributes[:, 7].tolist() == [0, 1, 2, 0, 1, 2, 3]


def test_counts_fall_into_bins() -> None:
    bounds = {-1: 0, 0: 0, 3: 3, 4: 4, 6: 4, 7: 5, 10: 5, 11: 6, 20: 6, 21: 7, 500: 7}
    assert {count: int(bucket(count)) for count in bounds} == bounds


def test_features_of_tokens_are_those_of_a_naive_twin() -> None:
    text = 'Yes. He came (Late) at 3 p.m. "Then he Left.\n\nhe came. At 33 Yes! Left no-end'
    spans = [match.span() for match in re.finditer(r"[A-Za-z]+|[0-9]+|[^\w\s]", text)]
    characters = characters_of(text)
    codes = np.arange(len(spans)) * 7 % 50
    arrays = [np.array(ends) for ends in zip(*spans, strict=True)]
    attributes, paragraph = described(characters, lowered(characters.points), Spans(*arrays))
    found = places_of(attributes, paragraph, codes)
    own = []
    for t, (a, b) in enumerate(spans):
        kinds = [characters.kinds[i] if text[i].isalnum() else text[i] for i in range(a, b)]
        paragraph_of = [text[:c].count("\n") for c, _ in spans]
        same = [k for k in range(len(spans)) if paragraph_of[k] == paragraph_of[t]]
        stops = [k for k in same if k < t and text[spans[k][1] - 1] in ".!?"]
        since = t - (stops[-1] + 1 if stops else same[0])
        first = int(characters.kinds[a])
        own.append({
            "lower": text[a:b].lower(), "suffix": text[a:b].lower()[-3:], "blank": int(text[b : b + 1].isspace()),
            "shape": tuple(k for j, k in enumerate(kinds) if j == 0 or k != kinds[j - 1]),
            "case": tuple(characters.kinds[a : min(b, a + 2)].tolist()),
            "before": int(bucket(t - same[0])), "after": int(bucket(same[-1] - t)), "since": int(bucket(since)),
            "tags": int(codes[t] // 16), "seen": (first, int(codes[t] % 16) if first == UPPER else 0),
            "paragraph": paragraph_of[t],
        })  # fmt: skip
    for v, template in enumerate(TEMPLATES):
        parts = [(name, int(at)) for name, at in re.findall(r"(\w+)\[(-?\d)\]", template)]
        naive = []
        for t, word in enumerate(own):
            others = [own[t + at] if 0 <= t + at < len(own) else {} for _, at in parts]
            inside = [other.get("paragraph") == word["paragraph"] for other in others]
            naive.append(tuple(o[n] if i else 0 for (n, _), o, i in zip(parts, others, inside, strict=True)))
        assert len(set(naive)) == len(set(zip(naive, found[:, v].tolist(), strict=True))), template
        assert len(set(naive)) == np.unique(found[:, v]).size, template


def test_what_was_seen_of_tokens() -> None:
    # a a A(first) A B B B c: small letters, capitals inside of sentences, and sets of tags of what occurs three times.
    hashes = np.array([1, 1, 1, 1, 2, 2, 2, 3], dtype=np.uint64)
    kinds = np.array([LOWER, LOWER, UPPER, UPPER, UPPER, UPPER, UPPER, LOWER])
    first = np.array([0, 0, 1, 0, 0, 0, 0, 0], dtype=bool)
    seen, own = Seen.of(hashes, kinds, first, np.array([0, 1, 0, 0, 5, 5, 5, 2]))
    case = {int(h): divmod(int(code) % 16, 4) for h, code in zip(seen.hashes, seen.codes, strict=True)}
    assert case == {1: (2, 1), 2: (0, 2), 3: (1, 0)}
    # None counts itself.
    assert [divmod(code % 16, 4) for code in own.tolist()] == [
        (1, 1), (1, 1), (2, 1), (2, 0), (0, 2), (0, 2), (0, 2), (0, 0),
    ]  # fmt: skip
    sets = [code // 16 for code in own.tolist()]
    assert sets[0] == sets[3] > 0 < sets[4] != sets[0]
    assert sets[7] == 0
    assert seen.look_up(np.array([2, 9], dtype=np.uint64)).tolist() == [int(seen.codes[1]), 0]


def test_a_segmenter_of_an_older_file_has_no_second_opinion(pipeline: Pipeline) -> None:
    arrays = {n: a for n, a in pipeline.segmenter_.arrays().items() if not n.startswith("ends.")}
    old = Segmenter.from_arrays(arrays)
    assert old.ends is None
    assert old.segments("The dogs saw cats. The cats saw dogs.").offsets.tolist() == [0, 5, 10]


def test_a_pipeline_of_another_version_is_refused(pipeline: Pipeline) -> None:
    state, arrays = pipeline.model_state()
    with pytest.raises(ModelFileError, match="train it again"):
        Pipeline.from_model_state({**state, "params": {}, "version": 1}, arrays)


def test_classes_of_frequent_words() -> None:
    rows = [
        ("The", "DET"),
        ("the", "DET"),
        ("the", "DET"),
        ("saw", "NOUN"),
        ("saw", "VERB"),
        ("saw", "VERB"),
        ("x", "X"),
    ]
    found = Treebank.from_sentences([[{"form": form, "upos": upos} for form, upos in rows]])
    assert word_classes(found.columns, tags_of(found)) == {"the": "DET", "saw": "NOUN/VERB"}


def test_agreement_is_the_mean_over_columns() -> None:
    names = [("A", "x", "f"), ("A", "y", "f"), ("B", "y", "_")]
    # The first word has another XPOS; of the last one nothing but XPOS is right.
    found = agreement(np.array([0, 1, 1]), np.array([1, 1, 2]), names)
    assert found == pytest.approx([2 / 3, 1.0, 1 / 3])


def test_long_affixes_are_taken_where_they_help() -> None:
    # The tag is told by the fifth letter from the front, or by nothing but the word's shape.
    draw = np.random.default_rng(0)

    def words(told: bool) -> Treebank:
        sentences = []
        for _ in range(900):
            sentence = []
            for _ in range(8):
                letters = "".join(draw.choice(list("abcdefghij"), 12))
                upos = "NOUN" if (letters[4] if told else letters[0]) in "abcde" else "VERB"
                stem = "abcd" if told else letters[:4]
                sentence.append({"form": stem + letters[4:], "upos": upos})
            sentences.append(sentence)
        return Treebank.from_sentences(sentences)

    for told in (True, False):
        made = words(told)
        gold = tags_of(made)
        templates = chosen(made.columns, gold, False, 0)
        assert ("w.lower.prefix5[0]" in templates) == told


def test_labels_share_upos_and_attributes() -> None:
    names = [("NOUN", "_", "Case=Nom|Number=Sing"), ("VERB", "_", "_"), ("NOUN", "N", "Case=Nom")]
    names += [("ADJ", "_", "Number=Sing|Case=Nom")]
    # UPOS as they appear, as in older files: NOUN, VERB, ADJ; then Case=Nom and Number=Sing.
    assert label_parts(names, True).tolist() == [[4, 7, 8], [5, -1, -1], [4, 7, -1], [6, 7, 8]]
    assert label_parts(names, False).tolist() == [[4], [5], [4], [6]]
    assert label_parts([], True).shape == (0, 0)


def test_a_form_never_seen_with_a_combination_gets_it_from_its_attributes() -> None:
    """Check that the suffix tells the case and the prefix the number, of which one combination is rare."""
    cases, numbers = {"ka": "Nom", "lo": "Acc", "mi": "Dat"}, {"su": "Sing", "pe": "Plur"}
    draw, sentences = np.random.default_rng(0), []

    def word(number: str, case: str) -> dict[str, str]:
        stem = "".join(draw.choice(list("bdfg"), 3))
        feats = f"Case={cases[case]}|Number={numbers[number]}"
        return {"form": number + stem + case, "upos": "NOUN", "feats": feats}

    pairs = [(number, case) for number in numbers for case in cases]
    for _ in range(60):
        some = [pairs[int(k)] for k in draw.integers(0, 5, 6)]
        sentences.append([word(*pair) for pair in some])
    sentences.append([word("pe", "mi")])
    made = Treebank.from_sentences(sentences)
    stage, _ = TagStage.fit(made.columns, tags_of(made))
    assert stage.shared
    test = Treebank.from_sentences([[word("pe", "mi")] for _ in range(50)])
    found = [stage.names[c][2] for c in stage.codes(test.columns)]
    assert found.count("Case=Dat|Number=Plur") >= 40
    again = TagStage.from_arrays(stage.arrays(), stage.names)
    assert again.shared
    np.testing.assert_array_equal(again.codes(test.columns), stage.codes(test.columns))


def test_attributes_are_shared_where_labels_are_rare() -> None:
    for count, shared in ((199, True), (200, False)):
        made = Treebank.from_sentences([[{"form": f"w{k % 7}", "upos": "X"}] for k in range(count)])
        assert TagStage.fit(made.columns, tags_of(made))[0].shared == shared


def test_tags_of_an_older_file_share_upos_alone() -> None:
    made = Treebank.from_sentences([[{"form": f"w{k % 7}", "upos": "X"}] for k in range(300)])
    stage, _ = TagStage.fit(made.columns, tags_of(made))
    arrays = {name: array for name, array in stage.arrays().items() if name != "shared"}
    old = TagStage.from_arrays(arrays, stage.names)
    assert not old.shared
    np.testing.assert_array_equal(old.codes(made.columns), stage.codes(made.columns))


@pytest.mark.parametrize(("size", "count"), [("5MB", 5_000_000), ("0.5 kB", 500), (17, 17)])
def test_sizes(size: Any, count: int) -> None:
    assert bytes_of(size) == count


@pytest.mark.parametrize("size", ["", "5 apples", "-3MB", 0])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(ValueError, match="number of bytes"):
        Pipeline(size=size, verbose=0).fit(bank(5, 0))


def test_a_model_within_a_size(pipeline: Pipeline, tmp_path: Path) -> None:
    whole, small = tmp_path / "whole.spom", tmp_path / "small.spom"
    pipeline.save(whole)
    # A few weights are enough for the generated language; most of so small a file is its header.
    limit = int(0.93 * whole.stat().st_size)
    found = Pipeline(size=limit, verbose=0).fit(bank(200, 0))
    found.save(small)
    assert small.stat().st_size <= limit
    assert found.evaluate(bank(60, 1))["las"] > 0.95
    again = load_model(small)
    assert conllu_text(again.predict("The dogs saw cats.")) == conllu_text(found.predict("The dogs saw cats."))
    with pytest.raises(DataError, match="smallest model"):
        Pipeline(size=100, verbose=0).fit(bank(20, 0))


def test_small_weights_go_and_the_rest_is_near() -> None:
    weights = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    found = without_small(weights, 0.6)
    kept = found != 0
    assert abs(int(kept.sum()) - 400) <= 1
    assert np.abs(weights[~kept]).max() <= np.abs(weights[kept]).min()
    np.testing.assert_allclose(found[kept], weights[kept], rtol=1 / 31)
    assert np.unique(np.abs(np.frexp(found[kept])[0])).size <= 17


@pytest.mark.parametrize("strings", [[], [""], ["a", "bc"], ["ä", "", "b", "語語", "", "x😀"], ["", "é"], ["é", ""]])
def test_packed_strings(strings: list[str]) -> None:
    buffer, start, length = packed_strings(strings)
    spans = zip(start.tolist(), length.tolist(), strict=True)
    assert [buffer[a : a + n].tobytes().decode() for a, n in spans] == strings


def test_beginnings_that_are_lemmas() -> None:
    pairs = [("walks", "walk"), ("walked", "walk"), ("walkers", "walker"), ("be", "be"), ("\u0130zi", "iz")]
    stems = Stems.of(pairs)
    lemmas = {lemma for _, lemma in pairs}

    def naive(form: str, own: str | None) -> tuple[str, ...]:
        low, cuts = form.replace("\u0130", "i").lower(), []
        for k in range(len(low)):
            part = low[: len(low) - k]
            others = {f for f, lemma in pairs if lemma == part and not (own == part and f.lower() == low)}
            if part in lemmas and others:
                cuts.append(str(k))
        return tuple([*cuts, "-", "-"][:2])

    for form, own in [("Walking", None), ("walkerish", None), ("walks", "walk"), ("be", "be"), ("x", None), ("", None)]:
        assert stems.cuts(form, own) == naive(form, own)
    assert stems.cuts("\u0130zler") == ("3", "-")


def test_lemmas_of_words_that_were_not_seen() -> None:
    # Endings may follow each other, so that only a list of lemmas tells where the word ends.
    draw = np.random.default_rng(0)
    stems = sorted({"".join(draw.choice(list("abdegklmnorst"), draw.integers(3, 7))) for _ in range(120)})
    endings = ["", "er", "erde", "erdeki", "de", "deki", "im", "imde", "imdeki", "erim"]
    words = [(stem + end, stem) for stem in stems for end in endings]
    order = draw.permutation(len(words))
    seen, new = [words[i] for i in order[:700]], [words[i] for i in order[700:]]
    tags = np.zeros(len(seen), dtype=np.int64)
    names = [("NOUN", "_", "_")]
    stage = LemmaStage.fit([w for w, _ in seen], (tags, tags), [lemma for _, lemma in seen], names)
    found = stage.lemmas([(w, 0) for w, _ in new], names)
    assert np.mean([a == b for a, (_, b) in zip(found, new, strict=True)]) > 0.9


def test_seconds_of_the_stages(pipeline: Pipeline) -> None:
    assert [entry["stage"] for entry in pipeline.history_][:3] == ["characters", "multiword tokens", "tags"]
    assert all(entry["seconds"] >= 0 for entry in pipeline.history_)


def test_packed_arrays_come_back() -> None:
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "rising": np.sort(draw.integers(0, 1 << 40, 1000)),
        "labels": draw.integers(-5, 300, (20, 3)).astype(np.int32),
        "empty": np.empty(0, dtype=np.int64),
        "text": np.array(["a", "", "ü"], dtype=object),
        "weights": draw.standard_normal(50).astype(np.float32),
    }
    told, packed = pack(arrays)
    found = unpack(told, packed)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype, name
        if name == "weights":
            np.testing.assert_allclose(found[name], array, rtol=1e-3)
        else:
            np.testing.assert_array_equal(found[name], array)
    packed["labels"] = packed["rising"]
    with pytest.raises(ModelFileError, match="recorded size"):
        unpack(told, packed)


def test_treebank_file_of_the_users_kind(tmp_path: Path, pipeline: Pipeline) -> None:
    path = tmp_path / "gold.conllu"
    path.write_bytes(generated(10, 9))
    assert pipeline.evaluate(read_conllu(path))["words"] == 1.0


def test_places_are_counted_and_numbered_as_arrays_say() -> None:
    draw = np.random.default_rng(0)
    places = draw.integers(0, 40, (200, 6)).astype(np.int32)
    counts = np.zeros(40, dtype=np.int64)
    count_places(places, counts)
    np.testing.assert_array_equal(counts, np.bincount(places.reshape(-1), minlength=40))
    there = np.arange(6) < draw.integers(0, 7, 200)[:, None]
    number = np.where(np.arange(40) % 3 == 0, -1, np.arange(40)).astype(np.int32)
    kept = there & (places % 3 != 0)
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    ids = places[there]
    ids = ids[: number_places(ids, number, indptr)]
    np.testing.assert_array_equal(ids, places[kept])
    np.testing.assert_array_equal(np.diff(indptr), kept.sum(axis=1))


def test_characters_have_as_many_templates_as_are_counted() -> None:
    text = "Mail me...@example.com, b/c \u4e2d\u6587, 3.5 x-rays (or so).\n\n  \u00e9t\u00e9-2 ok!"
    characters = characters_of(text)
    runs = runs_of(characters, lowered(characters.points))
    window, hashes = np.empty((3, 9), dtype=np.uint64), np.empty(CHARACTER_TEMPLATES, dtype=np.uint64)
    found = [character_hashes(characters, runs, i, window, hashes) for i in range(len(text))]
    np.testing.assert_array_equal(np.diff(places_before(characters, runs)), found)
    assert set(found) == {FEW, MOST, CHARACTER_TEMPLATES}
    indptr, counts = places_before(characters, runs), np.zeros(1 << BITS, dtype=np.int32)
    places = np.empty(int(indptr[-1]), dtype=np.int32)
    character_places(characters, runs, indptr, places, counts)
    np.testing.assert_array_equal(counts, np.bincount(places, minlength=1 << BITS))


def test_characters_of_older_files_have_fewer_templates(pipeline: Pipeline) -> None:
    arrays = pipeline.segmenter_.arrays()
    assert Segmenter.from_arrays(arrays).slots.templates == CHARACTER_TEMPLATES
    old = Segmenter.from_arrays({name: a for name, a in arrays.items() if name != "templates"})
    assert old.slots.templates == MOST
    assert old.segments("Dogs bark.").end.tolist() == pipeline.segmenter_.segments("Dogs bark.").end.tolist()
    for size in (OLDER, FORMER):
        assert Segmenter.from_arrays({**arrays, "templates": np.array([size])}).slots.templates == size
    with pytest.raises(ModelFileError, match="damaged"):
        Segmenter.from_arrays({**arrays, "templates": np.array([3])})


def test_characters_of_older_files_have_the_same_places() -> None:
    text = "Mail me...@example.com, b/c (or so)."
    characters = characters_of(text)
    runs, window = runs_of(characters, lowered(characters.points)), np.empty((3, 9), dtype=np.uint64)
    for i in range(len(text)):
        found = {size: np.zeros(size, dtype=np.uint64) for size in (MOST, OLDER, FORMER, CHARACTER_TEMPLATES)}
        counts = {size: character_hashes(characters, runs, i, window, out) for size, out in found.items()}
        few = counts[CHARACTER_TEMPLATES] == FEW
        assert counts[MOST] == (FEW - 1 if few else MOST)
        assert counts[OLDER] == (FEW - 1 if few else min(OLDER, counts[CHARACTER_TEMPLATES]))
        assert counts[FORMER] == min(FORMER, counts[CHARACTER_TEMPLATES])
        for size in (MOST, OLDER, FORMER):
            np.testing.assert_array_equal(found[size][: counts[size]], found[CHARACTER_TEMPLATES][: counts[size]])


def test_a_bracket_is_a_token_before_what_it_was_seldom_seen_before() -> None:
    # Points inside of numbers and after words go on; brackets stand beside letters, and five times beside numbers.
    draw, lines = np.random.default_rng(0), []
    for k in range(400):
        word, other = ("".join(draw.choice(list("abdeiklmnorst"), draw.integers(2, 9))) for _ in range(2))
        one, two = draw.integers(1, 99, 2)
        lines.append([word, "(", other if k < 200 else f"{one}", ")", f"{one}.{two}", f"{other}."])
        lines.append([word, f"{one}.{two}.{one}", other, "!"])
    surface = surface_of(lines)
    first, tags = surface.part(0, 410), np.zeros(len(surface.forms), dtype=np.int64)
    segmenter = replace(Segmenter.fit(first, tags, chained=False), whole=np.empty(0, dtype=np.int64))
    text = "sono (20 dal) 3.5 kasa (7.5 mit) 20"
    found = segmenter.segments(text)
    tokens = [text[a:b] for a, b in zip(found.begin.tolist(), found.end.tolist(), strict=True)]
    assert tokens == ["sono", "(", "20", "dal", ")", "3.5", "kasa", "(", "7.5", "mit", ")", "20"]
    assert not segmenter.chain.any()
    assert not better_chained(surface, 0, STRENGTH)


def test_the_second_copy_of_characters_has_fewer_features() -> None:
    indptr = np.array([0, 3, 3, 5003, 5003], dtype=np.int64)
    tokens = Tokens(indptr, np.arange(5003, dtype=np.int32), np.empty(0), np.array([0, 2, 4], dtype=np.int64))
    second = thinned(tokens, np.random.default_rng(0))
    assert abs(second.indices.size / 5003 - KEPT) < 0.03
    sizes = np.diff(second.indptr).tolist()
    assert sizes == [np.count_nonzero(second.indices < 3), 0, np.count_nonzero(second.indices >= 3), 0]
    both = one_after_another([tokens, second])
    assert both.offsets.tolist() == [0, 2, 4, 6, 8]
    np.testing.assert_array_equal(both.indices, np.concatenate([tokens.indices, second.indices]))
    np.testing.assert_array_equal(np.diff(both.indptr), [3, 0, 5000, 0, *sizes])


def made_of(marks: list[str]) -> Surface:
    """Return the surface of 200 sentences with some of these marks around one word of each."""
    draw, forms = np.random.default_rng(1), list[str]()
    for k in range(200):
        one, two, three = ("".join(draw.choice(list("abdeiklmnorst"), draw.integers(2, 9))) for _ in range(3))
        forms += [one, marks[k % len(marks)], two, marks[k % len(marks)], f"{three}-{one}", "."]
    after, size = [" ", "", "", " ", "", " "] * 200, len(forms)
    return Surface(forms, after, np.arange(size + 1), np.arange(0, size + 1, 6), [False] * 200)


def test_punctuation_that_was_never_seen_is_a_token_as_other_punctuation_is() -> None:
    surface = made_of(["(", "\u201c", "[", "*"])
    segmenter = Segmenter.fit(surface, np.zeros(len(surface.forms), dtype=np.int64))
    segmenter = replace(segmenter, whole=np.empty(0, dtype=np.int64))
    again = Segmenter.from_arrays(segmenter.arrays())
    older = Segmenter.from_arrays({name: a for name, a in segmenter.arrays().items() if name != "known"})
    assert segmenter.known.tolist() == sorted(map(ord, {*" \u201c([*-.", *"abdeiklmnorst"}))
    text = "lemo \u00absola\u00ab dan-tek."
    for one in (segmenter, again):
        found = one.segments(text)
        tokens = [text[a:b] for a, b in zip(found.begin.tolist(), found.end.tolist(), strict=True)]
        assert tokens == ["lemo", "\u00ab", "sola", "\u00ab", "dan-tek", "."]
    # All characters are known to older files: the same for what was seen.
    for known in ("lemo (sola( dan-tek.", ""):
        assert older.segments(known).end.tolist() == segmenter.segments(known).end.tolist()
    assert older.known.size == 0


def test_hidden_punctuation_is_not_in_the_first_reading() -> None:
    surface = made_of(["("])
    characters = characters_of(surface.text())
    readings, kept, known = features_of(characters, runs_of(characters, lowered(characters.points)), 0)
    assert [tokens.total for tokens in readings] == [len(surface.text())] * (1 + LEARNERS)
    assert set(known.tolist()) == set(characters.points.tolist())
    hidden = without(characters, characters.kinds >= STOP)
    assert (hidden.points >= UNKNOWN).sum() == (characters.kinds >= STOP).sum() > 0
    np.testing.assert_array_equal(hidden.kinds, characters.kinds)
    np.testing.assert_array_equal(lowered(hidden.points)[hidden.points >= UNKNOWN], UNKNOWN + STOP)
    # Places that only unknown punctuation has are among the features, and do not occur in the first reading.
    there = np.flatnonzero(np.isin(kept, places_of_unknown(hidden)))
    first, *others = (set(tokens.indices.tolist()) for tokens in readings)
    assert not first.intersection(there.tolist())
    assert all(other.intersection(there.tolist()) for other in others)


def test_weights_of_characters_are_means_over_learners_that_leave_out_a_reading() -> None:
    surface = made_of(["(", "*"])
    text, labels = labelled_text(surface)
    characters = characters_of(text)
    readings, kept, _ = features_of(characters, runs_of(characters, lowered(characters.points)), 3)
    sums, chain = np.zeros((kept.size, 4)), np.zeros((4, 4))
    for k in range(LEARNERS):
        learnt = one_after_another(readings[: k + 1] + readings[k + 2 :])
        learner = SparseChain(
            learnt, np.tile(labels, LEARNERS), 4, features=kept.size, l1=STRENGTH, loss="softmax-margin", width=4,
            reach=40.0, weighed=WEIGHED, epochs=PASSES, random_state=3 * LEARNERS + k,
        )  # fmt: skip
        weights = [learner.weights() for _ in learner.passes()][-1]
        for j in range(kept.size):
            own = slice(int(weights.pairs.starts[j]), int(weights.pairs.starts[j + 1]))
            sums[j, weights.pairs.labels[own]] += weights.values[own]
        chain += weights.chain[:4]
    found = mean_weights(readings, kept.size, labels, STRENGTH, True, 3, LEARNERS)
    assert np.abs(sums).max() > 0.1
    np.testing.assert_allclose(found[0], sums / LEARNERS, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], chain / LEARNERS, rtol=1e-5, atol=1e-6)
    # A text that is read once has one learner.
    assert mean_weights(readings[:1], kept.size, labels, STRENGTH, False, 3, LEARNERS)[0].any()


def places_of_unknown(hidden: Characters) -> NDArray[np.int32]:
    """Return the places of the template of the character itself where it is unknown punctuation."""
    runs, window = runs_of(hidden, lowered(hidden.points)), np.empty((3, 9), dtype=np.uint64)
    hashes, found = np.empty(CHARACTER_TEMPLATES, dtype=np.uint64), []
    for i in np.flatnonzero(hidden.points >= UNKNOWN).tolist():
        character_hashes(hidden, runs, i, window, hashes)
        found.append((int(hashes[6]) * 10376313370251892927 & (1 << 64) - 1) >> 42)
    return np.unique(np.array(found, dtype=np.int32))


@pytest.mark.parametrize("lines", [[["a"]], [["No", "."]], [["\u4e2d"]], [["("]]])
def test_one_short_sentence_is_enough_to_learn_from(lines: list[list[str]]) -> None:
    surface = surface_of(lines)
    segmenter = Segmenter.fit(surface, np.zeros(len(surface.forms), dtype=np.int64))
    assert segmenter.segments(surface.text()).end.tolist()[-1] == len(surface.text())
    assert segmenter.segments("").end.size == 0
    assert segmenter.segments("\u00ab\u20ac\u00bb").last.tolist()[-1]


def test_neighbouring_labels_have_scores_where_they_help() -> None:
    # Every token has two characters of no meaning: only the label before a character says what comes.
    draw = np.random.default_rng(0)
    signs = list("\u4e2d\u6587\u5b57")
    lines = [["".join(draw.choice(signs, 2)) for _ in range(8)] for _ in range(60)]
    surface = surface_of(lines, blank="")
    tags = np.zeros(len(surface.forms), dtype=np.int64)
    assert better_chained(surface, 0, STRENGTH)
    found = Segmenter.fit(surface, tags)
    assert found.chain[0, 1] > found.chain[0, 0]
    alone = surface.part(0, 1)
    assert better_chained(alone, 0, STRENGTH)


def surface_of(lines: list[list[str]], blank: str = " ") -> Surface:
    """Return a surface with a blank after each token, except after `(` and before `)` and `!`."""
    pairs = [(form, after) for line in lines for form, after in zip(line, [*line[1:], ""], strict=True)]
    after = ["" if form == "(" or after in (")", "!") else blank for form, after in pairs]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])]).astype(np.int64)
    return Surface([form for form, _ in pairs], after, np.arange(len(pairs) + 1), offsets, [False] * len(lines))


def test_folds_are_the_parts_of_the_sentences() -> None:
    draw, lengths = np.random.default_rng(0), np.array([3, 1, 5, 2, 4, 1])
    sizes = draw.integers(0, 4, lengths.sum())
    indptr, offsets = (np.concatenate([[0], np.cumsum(part)]).astype(np.int64) for part in (sizes, lengths))
    tokens = Tokens(indptr, draw.integers(0, 9, indptr[-1]).astype(np.int32), np.empty(0), offsets)
    for a, b in ((0, 2), (2, 5), (4, 6)):
        every = np.arange(6)
        for found, wanted in zip(parted(tokens, a, b), (np.delete(every, np.s_[a:b]), every[a:b]), strict=True):
            for own, right in zip(found, tokens.part(wanted), strict=True):
                np.testing.assert_array_equal(own, right)


def test_gold_tags_beside_predicted_ones() -> None:
    gold = bank(10, 0)
    predicted = gold.with_columns(upos=["X"] * gold.n_words)
    both = with_gold(gold, predicted)
    assert len(both) == 20
    # A sentence and its twin stand side by side, the one with predicted tags first.
    forms, tags = both.columns.strings("form"), both.columns.strings("upos")
    assert forms[::2] == forms[1::2] == gold.columns.strings("form")
    assert tags[::2] == predicted.columns.strings("upos")
    assert tags[1::2] == gold.columns.strings("upos")
    both.check_trees()
    # Room for three more, spread over the treebank; and for none.
    some = with_gold(gold, predicted, 13)
    assert [i for i, row in enumerate(some.columns.strings("upos")) if row[0] != "X"] == [1, 6, 12]
    assert with_gold(gold, predicted, 10) is predicted


def judged_by(need: dict[str, float], seen: list[tuple[str, ...]]) -> Any:
    """Return a learner that gets as many words right for each template it has as `need` says."""

    def learn(names: tuple[str, ...], rest: Any, held: Any) -> Judged:
        assert not set(rest) & set(held)
        seen.append(names)

        def counts(without: str = "") -> Any:
            right = 100 - sum(int(v) for name, v in need.items() if name not in names or name == without)
            return np.tile([100, 100, right], (held.size, 1))

        return Judged(counts(), 10 * len(names), counts)

    return learn


def test_templates_that_held_out_words_do_not_miss_go() -> None:
    seen: list[tuple[str, ...]] = []
    found = kept_templates("tags", ("a", "b", "c", "d", "e", "f"), 90, judged_by({"b": 9, "e": 3}, seen))
    assert found.kept == ("b", "e")
    assert [row[0] for row in found.tried] == [6, 2]
    assert seen == [("a", "b", "c", "d", "e", "f")] * 3 + [("b", "e")] * 3
    assert "tags: 2 of 6 templates kept" in str(found)
    assert "  - a" in str(found)
    # Three are needed, so two will not do.
    assert kept_templates("tags", tuple("abcdef"), 90, judged_by({"b": 9, "e": 3, "f": 2}, [])).kept == ("b", "e", "f")
    every = kept_templates("tags", tuple("abcdef"), 90, judged_by(dict.fromkeys("abcdef", 5.0), []))
    assert every.kept == tuple("abcdef")
    assert "fewer will not do" in every.why


def test_few_sentences_keep_all_templates() -> None:
    seen: list[tuple[str, ...]] = []
    found = kept_templates("lemmas", ("a", "b"), 59, judged_by({}, seen))
    assert found.kept == ("a", "b")
    assert "59 sentences are too few" in str(found)
    assert not seen


def test_features_of_a_template_are_left_out() -> None:
    tokens = Tokens(np.array([0, 2, 3]), np.array([0, 4, 4]), np.ones(0), np.array([0, 2]))
    blocks = Blocks(("w[0]", "w[1]"), np.array([0, 3, 5]))
    assert without_template(tokens, blocks, "w[0]").indices.tolist() == [4, 4]
    assert without_template(tokens, blocks, "w[2]") is tokens
    assert rows_of(np.array([2, 0, 3]), np.array([0, 2, 3]), 3).tolist() == [[6, 6, 2], [3, 3, 3]]


def test_pruning_of_all_stages(pipeline: Pipeline, tmp_path: Path) -> None:
    found = Pipeline(prune="auto", verbose=0).fit(bank(200, 0))
    assert list(found.pruning_) == ["tags", "lemmas", "trees"]
    # The generated language needs few of them.
    for stage, name in ((found.tagger_, "tags"), (found.lemmatizer_, "lemmas")):
        kept = found.pruning_[name]
        assert len(kept.kept) < len(kept.names)
        assert set(stage.templates.blocks.names) <= set(kept.kept)
    assert found.tagger_.weights.values.size < pipeline.tagger_.weights.values.size
    assert found.evaluate(bank(60, 1))["las"] > 0.97
    assert pipeline.pruning_ == {}
    found.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    text = "The dogs saw cats. The birds don't liked trees."
    assert again.get_params()["prune"] == "auto"
    assert conllu_text(again.predict(text)) == conllu_text(found.predict(text))
    # A number is the parser's alone.
    few = Pipeline(prune=5, folds=0, verbose=0).fit(bank(30, 0))
    assert list(few.pruning_) == ["trees"]
    assert int(few.pruning_["trees"].kept.sum()) == 5
    with pytest.raises(ValueError, match="prune must be"):
        Pipeline(prune="all", verbose=0).fit(bank(5, 0))
