"""Templates against features that are built as strings in plain Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spom.data import Columns
from spom.errors import DataError, SpomError, Unsupported
from spom.features import Template, Templates
from spom.features.conjunctions import Conjunctions
from spom.features.ready import SETS
from spom.features.streams import grouped


def step(value: str, name: str) -> str | None:
    """Return what is derived from a string, computed with Python's own strings."""
    if name.startswith("prefix"):
        return value[: int(name[6:])]
    if name.startswith("suffix"):
        return value[-int(name[6:]) :]
    if name == "lower":
        return "".join(c.lower() if len(c.lower()) == 1 else c for c in value)
    symbols = "".join(
        "X" if c.isalpha() and (c.isupper() or c.istitle()) else "x" if c.isalpha() else "d" if c.isdigit() else c
        for c in value
    )
    if name == "pattern":
        return symbols
    if name == "shape":
        return "".join(c for i, c in enumerate(symbols) if i == 0 or symbols[i - 1] != c)
    if name == "length":
        return str(len(value))
    digits = sum(c.isdigit() and not c.isalpha() for c in value)
    if name == "digit":
        return "none" if digits == 0 else "all" if digits == len(value) else "some"
    letters = [c for c in value if c.isalpha()]
    upper = [c.isupper() or c.istitle() for c in letters]
    if not letters:
        return "none"
    if not any(upper):
        return "lower"
    if all(upper):
        return "upper"
    return "title" if sum(upper) == 1 and value[0] == letters[0] and upper[0] else "mixed"


def strings(sentences, texts, names=("w", "pos"), boundaries=True, clusters=None):
    """Return for each token the list of (block, value), with None if a template has no value."""
    found = []
    for sentence in sentences:
        for t in range(len(sentence)):
            row = []
            for text in texts:
                template = Template.parse(text)
                values = []
                for stream, offset in template.atoms:
                    p = t + offset
                    if 0 <= p < len(sentence):
                        value = sentence[p][names.index(stream.column)]
                        for name in stream.steps:
                            value = (
                                clusters.get(value)
                                if name == "cluster"
                                else None
                                if value is None
                                else step(value, name)
                            )
                    else:
                        value = (f"_B{p}" if p < 0 else f"_B+{p - len(sentence) + 1}") if boundaries else None
                    values.append(value)
                row.append(None if None in values else (template.name, tuple(values)))
            found.append(row)
    return found


def check(texts, train, test, boundaries=True, min_count=1, clusters=None, templates=None):
    """Same strings, same ids, and ids in order of first occurrence within a block."""
    templates = templates or Templates(texts, boundaries=boundaries, min_count=min_count, clusters=clusters)
    fitted = templates.fit(Columns.from_lists(train, ["w", "pos"]))
    slow = strings(train, texts, boundaries=boundaries, clusters=clusters)
    counts: dict[tuple, int] = {}
    # Block after block, because templates of one name share their features.
    for m in range(len(texts)):
        for row in slow:
            if row[m] is not None:
                counts[row[m]] = counts.get(row[m], 0) + 1
    names = templates.blocks.names
    known = [feature for name in names for feature in counts if feature[0] == name and counts[feature] >= min_count]
    ids = {feature: k for k, feature in enumerate(known)}
    assert templates.n_features == len(ids)
    for rows, sentences in (
        (fitted, train),
        (templates.transform(Columns.from_lists(train, ["w", "pos"])), train),
        (templates.transform(Columns.from_lists(test, ["w", "pos"])), test),
    ):
        slow = strings(sentences, texts, boundaries=boundaries, clusters=clusters)
        for t, row in enumerate(slow):
            got = rows.indices[rows.indptr[t] : rows.indptr[t + 1]].tolist()
            assert got == [ids[feature] for feature in row if feature in ids]
        assert rows.indptr.size == len(slow) + 1
        assert rows.offsets.tolist() == np.cumsum([0, *map(len, sentences)]).tolist()
    for feature, id in ids.items():
        assert templates.name(id) == f"{feature[0]}={'|'.join(feature[1])}"
    return templates


words = st.sampled_from(["The", "cat", "CAT", "x", "McX", "42", "4-b", "naïve", "ÉTÉ", "東京", "", "İΣ", "ⅷ½²", "𝐀c"])
sentence = st.lists(st.tuples(words, st.sampled_from(["DT", "NN", "JJ"])), max_size=6)
texts = st.lists(sentence, max_size=5)
STEPS = ["lower", "prefix1", "prefix3", "suffix2", "shape", "pattern", "length", "digit", "case", "lower.suffix2"]


@given(texts, texts)
def test_words_tags_and_conjunctions(train, test):
    check(["w[0]", "pos[-2]", "w[-1]|w[0]", "pos[1]|pos[0]|w[3]", "pos[-1]|w.lower[0]"], train, test)


@given(texts, texts)
def test_derived_columns(train, test):
    check([f"w.{name}[{k % 2}]" for k, name in enumerate(STEPS)], train, test)


@given(texts, texts, st.sampled_from([2, 3]))
def test_no_boundaries_rare_features_and_clusters(train, test, least):
    clusters = {"The": "01", "cat": "0110", "naïve": "1"}
    check(["w[-1]", "w.cluster[0]|pos[1]", "w.cluster.prefix2[0]"], train, test, False, least, clusters)


@pytest.mark.parametrize("name", sorted(SETS))
def test_ready_sets(name):
    train = [[("The", "DT"), ("cat", "NN"), ("sat", "VBD")], [("Yes", "UH")], []]
    test = [[("a", "DT"), ("Cat", "NN")], [], [("Yes", "NN"), ("The", "DT"), ("cat", "NN")]]
    check(SETS[name], train, test)


def test_the_chunking_set_is_that_of_the_tutorial():
    # CRFsuite's chunking.py: (('w', -2),), ..., (('w', -1), ('w', 0)), ..., (('pos', 0), ('pos', 1), ('pos', 2)).
    singles = [((c, k),) for c in ("w", "pos") for k in (-2, -1, 0, 1, 2)]
    pairs = [(("w", -1), ("w", 0)), (("w", 0), ("w", 1)), *((("pos", k), ("pos", k + 1)) for k in (-2, -1, 0, 1))]
    triples = [(("pos", k), ("pos", k + 1), ("pos", k + 2)) for k in (-2, -1, 0)]
    ours = {tuple((s.column, o) for s, o in Template.parse(text).atoms) for text in SETS["chunking"]}
    assert ours == {*singles, *pairs, *triples}
    assert len(SETS["chunking"]) == 19


@given(texts, texts)
def test_templates_of_one_name_share_their_features(train, test):
    check(["near: w[-1]", "near: w[1]", "pair: w[0]|pos[0]", "pair: w[1]|pos[-1]"], train, test)


@given(texts, texts, st.sampled_from([8, 100, 3000]))
def test_keys_that_outgrow_their_room_are_cut_into_stages(train, test, limit):
    names = ["w[-2]|w[-1]|pos[0]|w[0]|pos[1]", "w[0]|w.shape[1]|w[0]"]
    train_columns = Columns.from_lists(train, ["w", "pos"])
    plain, cut = Templates(names), Templates(names)
    rows = plain.fit(train_columns)
    model, other = Conjunctions.fit(cut._coder(), grouped(cut.templates), train_columns, limit)
    cut._model = model
    assert other.indices.tolist() == rows.indices.tolist()
    if train_columns.n_tokens:
        assert len(model.parts[0].stages) > 1
    for columns in (train_columns, Columns.from_lists(test, ["w", "pos"])):
        one, two = plain.transform(columns), cut.transform(columns)
        assert one.indices.tolist() == two.indices.tolist()
        assert one.indptr.tolist() == two.indptr.tolist()
        used = np.arange(0, plain.n_features, 2)
        one, two = plain.compact(used), cut.compact(used)
        assert one.transform(columns).indices.tolist() == two.transform(columns).indices.tolist()
        again = Templates.from_arrays(two.arrays())
        assert again.transform(columns).indices.tolist() == two.transform(columns).indices.tolist()
    assert [plain.name(k) for k in range(plain.n_features)] == [cut.name(k) for k in range(plain.n_features)]


@given(texts, texts, st.integers(0, 99), st.sampled_from([None, 40]))
def test_what_is_kept_stays_the_same(train, test, seed, table):
    names = ["w[0]", "w.suffix2[0]", "pos[-1]|w[0]", "near: pos[1]", "near: pos[-1]", "w.cluster[0]"]
    clusters = {"cat": "0", "CAT": "1"}
    full = Templates(names, clusters=clusters, table=table)
    full.fit(Columns.from_lists(train, ["w", "pos"]))
    random = np.random.default_rng(seed)
    used = np.flatnonzero(random.random(full.n_features) < 0.4)
    small = full.compact(used)
    frozen = {key: value.copy() for key, value in small.arrays().items()}
    for value in frozen.values():
        value.flags.writeable = False
    kept = full.keep([0, 2, 3])
    ids = full.blocks.ids([0, 2, 3])
    for columns in (Columns.from_lists(train, ["w", "pos"]), Columns.from_lists(test, ["w", "pos"])):
        rows = full.transform(columns).to_csr(full.n_features).toarray()
        np.testing.assert_array_equal(small.transform(columns).to_csr(used.size).toarray(), rows[:, used])
        again = Templates.from_arrays(frozen).transform(columns)
        np.testing.assert_array_equal(again.to_csr(used.size).toarray(), rows[:, used])
        np.testing.assert_array_equal(kept.transform(columns).to_csr(ids.size).toarray(), rows[:, ids])
    assert kept.blocks.names == ("w[0]", "pos[-1]|w[0]", "near")
    if used.size and table is None:
        assert [small.name(k) for k in range(used.size)] == [full.name(k) for k in used]


def test_unused_strings_are_forgotten():
    full = Templates(["w[0]", "w.lower[0]", "w[-1]|w[0]"])
    full.fit(Columns.from_lists([["The", "cat", "sat", "on", "THE", "mat"]]))
    wanted = [k for k in range(full.n_features) if full.name(k) in ("w[0]=sat", "w.lower[0]=the")]
    small = full.compact(wanted)
    assert small.blocks.names == ("w[0]", "w.lower[0]")
    blobs = [value.tobytes() for key, value in small.arrays().items() if key.endswith("blob")]
    assert sorted(blobs) == [b"sat", b"the"]
    rows = small.transform(Columns.from_lists([["tHe", "sat", "The"]]))
    assert [small.name(k) for k in rows.indices] == ["w.lower[0]=the", "w[0]=sat", "w.lower[0]=the"]


def test_hashed_features_are_equal_where_the_strings_are():
    names = ["w[0]", "w.lower[-1]|pos[0]", "near: w[1]", "near: w[-1]"]
    train = Columns.from_lists([[("The", "DT"), ("cat", "NN")], [("the", "DT"), ("cat", "NN"), ("the", "DT")]])
    hashed = Templates(names, table=3 << 16)
    rows, slow = hashed.fit(train), strings(list(train), names)
    flat = [feature for row in slow for feature in row]
    pairs = dict(zip(flat, rows.indices.tolist(), strict=True))
    assert [pairs[feature] for feature in flat] == rows.indices.tolist()
    assert len(set(pairs.values())) == len(pairs)
    assert hashed.blocks.of(rows.indices).reshape(-1, 4).tolist() == [[0, 1, 2, 2]] * 5
    assert hashed.blocks.sizes.tolist() == [1 << 16] * 3
    unseen = hashed.transform(Columns.from_lists([[("never", "seen")]]))
    assert unseen.indices.size == 4
    none = Templates(["w[1]"], table=8, boundaries=False).transform(train)
    assert np.diff(none.indptr).tolist() == [1, 0, 1, 1, 0]


def test_threads_give_what_one_thread_gives():
    random = np.random.default_rng(0)
    made = [[(f"w{k}", f"T{k % 3}") for k in random.integers(0, 50, 10)] for _ in range(40)]
    templates = Templates("chunking")
    templates.fit(Columns.from_lists(made[:20]))
    parts = [Columns.from_lists(made[k : k + 5]) for k in range(0, 40, 5)]
    one = [templates.transform(part).indices.tolist() for part in parts]
    with ThreadPoolExecutor(4) as pool:
        assert [rows.indices.tolist() for rows in pool.map(templates.transform, parts)] == one


def test_errors_say_what_is_wrong():
    columns = Columns.from_lists([[("a", "b")]])
    with pytest.raises(DataError, match=r"a template reads lemma.lower, but there is no column 'lemma'; there are 2"):
        Templates(["lemma.lower[0]"]).fit(columns)
    with pytest.raises(DataError, match="no column 2"):
        Templates(["2[0]"], table=8).fit(columns)
    fitted = Templates(["pos[0]"])
    fitted.fit(columns)
    with pytest.raises(DataError, match="no column 'pos'"):
        fitted.transform(Columns.from_lists([["a"]]))
    for bad in ("w", "w[x]", "w[0]|", "w.Lower[0]", ""):
        with pytest.raises(DataError, match="expected column"):
            Templates([bad])
    with pytest.raises(DataError, match="no 'upper'; what can be derived"):
        Templates(["w.upper[0]"])
    with pytest.raises(DataError, match="needs clusters"):
        Templates(["w.cluster4[0]"])
    with pytest.raises(DataError, match="given twice"):
        Templates(["w[0]", "w[0]"])
    with pytest.raises(Unsupported, match="the sets are: chunking, pos, entities"):
        Templates("chunkign")
    with pytest.raises(SpomError, match="call fit"):
        Templates("pos").transform(columns)
    with pytest.raises(ValueError, match="at least one"):
        Templates([])
    with pytest.raises(ValueError, match="min_count"):
        Templates("pos", min_count=0)
    with pytest.raises(ValueError, match="table must be"):
        Templates("pos", table=3)
    with pytest.raises(ValueError, match="some of 0 to 0"):
        fitted.keep([1])
    with pytest.raises(ValueError, match="increasing ids"):
        fitted.compact([1])


def test_clusters_come_from_a_file(tmp_path):
    path = tmp_path / "paths.tsv"
    path.write_text("the\t0010\nNew York\t0111\nthe\t1\n")
    templates = Templates(["w.lower.cluster2[0]"], clusters=path)
    rows = templates.fit(Columns.from_lists([["The", "cat", "New York", "the"]]))
    assert [templates.name(k) for k in rows.indices] == ["w.lower.cluster2[0]=00", "w.lower.cluster2[0]=00"]
    path.write_text("the 0010\n")
    with pytest.raises(DataError, match="expected word<TAB>cluster, found 1 columns"):
        Templates(["w.cluster[0]"], clusters=path)
    with pytest.raises(ValueError, match="clusters must be"):
        Templates(["w.cluster[0]"], clusters=3)


def test_nothing_gives_nothing():
    templates = Templates("chunking")
    assert templates.fit(Columns.from_lists([])).n_tokens == 0
    assert templates.n_features == 0
    assert templates.transform(Columns.from_lists([[("a", "b")]])).indices.size == 0
    templates.fit(Columns.from_lists([[("a", "b")]]))
    rows = templates.transform(Columns.from_lists([[], []]))
    assert rows.offsets.tolist() == [0, 0, 0]
    assert rows.indptr.tolist() == [0]


def test_usual_column_names_serve_the_ready_sets():
    conllu = Columns.from_lists([[("1", "The", "the", "DET")]], ["id", "form", "lemma", "upos"])
    templates = Templates("chunking")
    templates.fit(conllu)
    assert "w[0]=The" in [templates.name(k) for k in range(templates.n_features)]
    assert "pos[0]=DET" in [templates.name(k) for k in range(templates.n_features)]
