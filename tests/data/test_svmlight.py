"""The svmlight reader against scikit-learn's, Python's float, and every way in which a line can be wrong."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from spom.data import SvmlightFile, read_svmlight
from spom.data import svmlight_parser as parser
from spom.errors import DataError


def whole(blocks):
    parts = list(blocks)
    width = parts[-1][0].shape[1]
    rows = [sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X, _ in parts]
    return sparse.vstack(rows).tocsr(), np.concatenate([y for _, y in parts])


def random_file(tmp_path, n=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density=0.2, format="csr", random_state=seed)
    X.data = rng.normal(size=X.nnz) * 10.0 ** rng.integers(-12, 12, X.nnz)
    y = rng.normal(size=n)
    path = tmp_path / "a.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.mark.parametrize("block_rows", [1, 7, 300, 10**6])
def test_equals_scikit_learn_to_the_bit(tmp_path, block_rows):
    path = random_file(tmp_path)
    X, y = whole(read_svmlight(path, block_rows=block_rows, n_features=40))
    Z, z = load_svmlight_file(str(path), n_features=40)
    assert X.shape == Z.shape
    assert (X != Z).nnz == 0
    np.testing.assert_array_equal(y, z)
    sizes = [len(b[1]) for b in read_svmlight(path, block_rows=block_rows)]
    assert all(size == block_rows for size in sizes[:-1])


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.floats(-1.79e308, 1.79e308))
def test_numbers_are_read_as_python_reads_them(x):
    for text in (repr(x), f"{x:.16g}", f"{x:.3f}" if abs(x) < 1e15 else repr(x)):
        out, raw = np.empty(1), np.frombuffer(bytearray(text.encode() + b"\n"), dtype=np.uint8)
        assert parser.number(raw, 0, out, parser.POWERS) == len(text)
        if 1e-260 < abs(x) < 1e280 or float(text) == 0.0:
            assert out[0] == float(text)
        else:
            assert abs(Fraction(out[0]) - Fraction(text)) <= 4 * Fraction(np.spacing(abs(float(text))))


@pytest.mark.parametrize(
    "text", ["12345678901234567890123", "0." + "1" * 40, "123456789012345678901.5e-30", "1e400", "1e-400", ".5", "5."]
)
def test_long_and_odd_numbers(text):
    out, raw = np.empty(1), np.frombuffer(bytearray(text.encode() + b" "), dtype=np.uint8)
    assert parser.number(raw, 0, out, parser.POWERS) == len(text)
    assert out[0] == pytest.approx(float(text), rel=3e-16)


@pytest.mark.parametrize("text", ["", "-", "+", ".", "e5", "1e", "1e+", "nan", "inf", "0x10"])
def test_what_is_no_number(text):
    out, raw = np.empty(1), np.frombuffer(bytearray(text.encode() + b" \n"), dtype=np.uint8)
    end = parser.number(raw, 0, out, parser.POWERS)
    assert end == -1 or raw[end] > 32  # nothing, or something is left over


def test_comments_blank_lines_crlf_tabs_and_ranking_groups():
    text = b"# header\n\n  \n+1\t1:1 \t 3:0.5   # note 9:9\r\n-1 qid:7 2:2#x\n0\n1 # empty row"
    X, y = whole(read_svmlight(io.BytesIO(text), n_features=3))
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 0.5], [0, 2, 0], [0, 0, 0], [0, 0, 0]])
    assert y.tolist() == [1, -1, 0, 1]


def test_zero_based_and_growing_width():
    text = b"1 0:5\n1 4:6\n"
    blocks = list(read_svmlight(io.BytesIO(text), zero_based=True, block_rows=1))
    assert [X.shape for X, _ in blocks] == [(1, 1), (1, 5)]
    assert list(read_svmlight(io.BytesIO(b""))) == []
    assert list(read_svmlight(io.BytesIO(b"# nothing\n"))) == []


WRONG = [
    (b"spam 1:1\n", "expected a label", "spam"),
    (b"1,2 1:1\n", "expected a label", "1,2"),
    (b"nan 1:1\n", "expected a label", "nan"),
    (b"1e999 1:1\n", "expected a label", "1e999"),
    (b"1 x:1\n", "expected a feature index", "x:1"),
    (b"1 -3:1\n", "expected a feature index", "-3:1"),
    (b"1 3\n", "expected index:value", "3"),
    (b"1 3:\n", "finite number as the value", "3:"),
    (b"1 3:abc\n", "finite number as the value", "3:abc"),
    (b"1 3:1e999\n", "finite number as the value", "3:1e999"),
    (b"1 3:1.5.2\n", "finite number as the value", "3:1.5.2"),
    (b"1 3:1 3:1\n", "increasing", "3:1"),
    (b"1 3:1 2:1\n", "increasing", "2:1"),
    (b"1 0:1\n", "zero_based=True", "0:1"),
    (b"1 9:1\n", "an index of at most 5", "9:1"),
    (b"1 99999999999999999999:1\n", "an index of at most 5", "99999999999999999999:1"),
]


@pytest.mark.parametrize(("line", "expected", "found"), WRONG, ids=[w[2] for w in WRONG])
def test_a_malformed_line_says_where_and_what(tmp_path, line, expected, found):
    path = tmp_path / "bad.svm"
    path.write_bytes(b"# a comment\n1 1:1\n\n" + line + b"1 1:1\n")
    with pytest.raises(DataError, match=expected) as raised:
        list(read_svmlight(path, n_features=5, block_rows=1))
    assert raised.value.line == 4
    assert raised.value.source == str(path)
    assert found in str(raised.value)


def test_blocks_before_a_bad_line_are_given():
    blocks = read_svmlight(io.BytesIO(b"1 1:1\n1 1:2\nbad\n"), block_rows=2)
    assert next(blocks)[0].shape == (2, 1)
    with pytest.raises(DataError, match="line 3"):
        next(blocks)


def test_gzip_and_zstd_are_known_by_content(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    path = random_file(tmp_path)
    plain = path.read_bytes()
    X, y = whole(read_svmlight(path))
    packed = [gzip.compress(plain), zstandard.compress(plain)]
    # Two frames one after another are one file.
    half = plain.index(b"\n", len(plain) // 2) + 1
    packed += [
        gzip.compress(plain[:half]) + gzip.compress(plain[half:]),
        zstandard.compress(plain[:half]) + zstandard.compress(plain[half:]),
    ]
    for content in packed:
        other = tmp_path / "packed.dat"
        other.write_bytes(content)
        for source in (other, str(other), io.BytesIO(content)):
            Z, z = whole(read_svmlight(source))
            assert (X != Z).nnz == 0
            assert (y == z).all()
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(plain)[:-50])
    with pytest.raises(DataError, match=r"damaged.gz: expected a complete gzip file"):
        list(read_svmlight(damaged))


def test_files_of_the_user_stay_open():
    file = io.BytesIO(b"1 1:1\n")
    list(read_svmlight(file))
    assert not file.closed
    with pytest.raises(DataError, match="binary mode"):
        list(read_svmlight(io.StringIO("1 1:1\n")))
    with pytest.raises(ValueError, match="path or a binary file"):
        list(read_svmlight(7))
    with pytest.raises(ValueError, match="block_rows"):
        read_svmlight(file, block_rows=0)
    with pytest.raises(ValueError, match="n_features"):
        read_svmlight(file, n_features=-1)


def test_lines_longer_than_a_chunk(monkeypatch):
    monkeypatch.setattr("spom.data.svmlight._CHUNK", 16)
    text = b"1 " + b" ".join(b"%d:%d" % (j, j) for j in range(1, 200)) + b"\n-1 5:1\n"
    X, y = whole(read_svmlight(io.BytesIO(text)))
    assert X.shape == (2, 199)
    assert X[0].toarray().ravel().tolist() == list(range(1, 200))
    assert y.tolist() == [1, -1]


def test_a_look_through_the_file(tmp_path):
    path = tmp_path / "a.svm"
    path.write_bytes(b"# x\n2 1:1 17:0.5 # 99:1\n\n-1\n2 3:1e5\n0.5 2:1\n")
    file = SvmlightFile(path, block_rows=3)
    assert (file.n_rows, file.n_features, file.labels.tolist()) == (4, 17, [-1.0, 0.5, 2.0])
    assert [X.shape for X, _ in file] == [(3, 17), (1, 17)]
    assert [X.shape for X, _ in file] == [(3, 17), (1, 17)]
    path.write_bytes(b"".join(b"%d 0:1 4:1\n" % i for i in range(1500)))
    file = SvmlightFile(path, zero_based=True)
    assert (file.n_rows, file.n_features, file.labels) == (1500, 5, None)
    with pytest.raises(DataError, match="no such file"):
        SvmlightFile(tmp_path / "none.svm")


def test_memory_is_flat(tmp_path):
    path = tmp_path / "long.svm"
    line = b"1 " + b" ".join(b"%d:0.125" % j for j in range(1, 40)) + b"\n"
    peaks = []
    for count in (20_000, 80_000):
        path.write_bytes(line * count)
        next(iter(read_svmlight(path, block_rows=1000)))  # compiled before it is measured
        tracemalloc.start()
        for _ in read_svmlight(path, block_rows=1000):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 40e6


@pytest.mark.parametrize("index", [9, 999_999_999, 2_147_483_646, 9_999_999_999])
def test_the_largest_index_is_found_whatever_its_length(index: int) -> None:
    text = np.frombuffer(bytearray(f"1 1:1 {index}:2\n-1 1:3\n".encode()), dtype=np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    rows, widest, count = parser.scan_lines(text, ends, False, 0, np.empty(4), 0, parser.POWERS)
    assert (rows, widest, count) == (2, index, 2)


def test_zeros_before_an_index_count_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "zeros.svm"
    path.write_text("1 0002:1\n-1 00000000000012:3\n")
    look = SvmlightFile(path)
    assert look.n_features == 12
    ((X, _),) = look
    assert X.toarray()[1].tolist() == [0.0] * 11 + [3.0]
    text = np.frombuffer(
        bytearray(b"1 00000000000012:2\n1 99999999999:2\n1 99999999999999999999999:2\n"), dtype=np.uint8
    )
    # What no index can be is left to the parser, which says so.
    found = parser.scan_lines(text, np.flatnonzero(text == ord("\n")), False, 0, np.empty(4), 0, parser.POWERS)
    assert found == (3, 12, 1)
