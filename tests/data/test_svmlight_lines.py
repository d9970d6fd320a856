"""The compiled loops over svmlight lines against a plain reader: random lines, most with something wrong in them."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from spom.data.svmlight_parser import (
    AT,
    BEYOND,
    COLON,
    DONE,
    ENTRIES,
    FULL,
    INDEX,
    LABEL,
    LINE,
    ORDER,
    POWERS,
    ROWS,
    VALUE,
    ZERO,
    Block,
    number,
    parse_lines,
    scan_lines,
)

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
GOOD = ["1", "-1", "0", "2.5", "-0.125", "+3", ".5", "-.75", "7.", "1e3", "-2E-4", "12345678.875", "0.1", "9" * 15]
GOOD += ["1234567890123456", "-123456789012.345678", "9" * 19, "9" * 18 + ".5", "1" * 22, "0." + "3" * 25, "1e+05"]
BAD = [
    "",
    "-",
    "+",
    ".",
    "e5",
    "1e",
    "1e+",
    "1.2.3",
    "nan",
    "inf",
    "1e400",
    "-1e999",
    "--1",
    "1x",
    "1/2",
    "-e3",
    "1 e3",
]


def read(text: str, at: int) -> tuple[int, float] | None:
    """(the end of the number that begins at `at`, the number); None where there is none."""
    found = NUMBER.match(text, at)
    if found is None or (text[found.end()] in "eE" and "e" not in found[0].lower()):
        return None
    return found.end(), float(found[0])


def whole(text: str, at: int) -> tuple[int, float] | None:
    """Do as `read` for a finite number that is followed by a blank, a comment or the end of the line."""
    found = read(text, at)
    return found if found and math.isfinite(found[1]) and (text[found[0]] <= " " or text[found[0]] == "#") else None


def skip(text: str, at: int) -> int:
    while text[at] <= " " and text[at] != "\n":
        at += 1
    return at


def entries(text: str, at: int, base: int, width: int, room: int) -> tuple[int, int, list[tuple[int, float]]]:
    """(code, where, entries) of a line after its label."""
    found: list[tuple[int, float]] = []
    last, at = base - 1, skip(text, at)
    if text.startswith("qid", at):
        at = skip(text, re.compile(r"[^\0- ]*").match(text, at).end())  # type: ignore[union-attr]
    while text[at] not in "\n#":
        digits = re.compile(r"\d*").match(text, at)
        assert digits is not None
        if not digits[0]:
            return INDEX, at, found
        if int(digits[0]) > width:
            return BEYOND, at, found
        if text[digits.end()] != ":":
            return COLON, at, found
        index = int(digits[0])
        if index <= last:
            return (ZERO if index < base else ORDER), at, found
        if len(found) == room:
            return FULL, at, found
        value = whole(text, digits.end() + 1)
        if value is None:
            return VALUE, at, found
        found.append((index - base, value[1]))
        last, at = index, skip(text, value[0])
    return DONE, at, found


def naive_lines(text: str, base: int, width: int, rows: int, room: int) -> dict[str, Any]:
    """Return the state that the compiled loop must end with."""
    y: list[float] = []
    sizes, data, at, line, code = [0], [], 0, 0, DONE
    while at < len(text) and len(y) < rows:
        begin = skip(text, at)
        if text[begin] not in "\n#":
            label = whole(text, begin)
            if label is None:
                at, code = begin, LABEL
                break
            y.append(label[1])
            code, stop, found = entries(text, label[0], base, width, room - len(data))
            if code != DONE:
                y.pop()
                at = at if code == FULL else stop
                break
            data += found
            sizes.append(len(data))
        at = text.index("\n", begin) + 1
        line += 1
    return {"code": code, "at": at, "line": line, "y": y, "indptr": sizes, "entries": data}


def some_text(draw: Any, good: float) -> str:
    """Draw lines, most parts of which are valid."""

    def of(usual: list[str], odd: list[str]) -> str:
        return str(draw.choice(usual if draw.random() < good else odd))

    lines = []
    for _ in range(int(draw.integers(1, 6))):
        start = of(["", "", "", " ", "\t"], ["# what", "  #", "\r"])
        parts, index = [of(GOOD, BAD)], 0
        if draw.random() < 0.2:
            parts.append(of(["qid:3", "qid:", "qid"], ["qi:1", "qid:1 qid:2", "qi", "id:1"]))
        for _ in range(int(draw.integers(0, 5))):
            index = index + int(draw.integers(1, 4)) if draw.random() < good else int(draw.integers(0, 12))
            shown = of([f"{index}"], ["", "a", "4294967297", "9999999999", "-1", "007"])
            parts.append(shown + of([":"], ["", "::", " :", ": "]) + of(GOOD, BAD))
        line = start + parts[0]
        for part in parts[1:]:
            line += of([" ", " ", "\t", "  "], [" \t ", "#", " # ", "\x0b"]) + part
        lines.append(line + of(["", " ", "# 1:2", " #c"], ["\r", "#", " 1"]) if draw.random() < 0.95 else "")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("good", [0.9, 0.98, 1.0])
@pytest.mark.parametrize("seed", range(100))
def test_lines_are_read_as_the_plain_reader_does(seed: int, good: float) -> None:
    draw = np.random.default_rng([seed, int(100 * good)])
    text = some_text(draw, good)
    base, rows, room = int(draw.integers(0, 2)), int(draw.integers(1, 6)), int(draw.integers(0, 16))
    width = int(draw.choice([9, 12, 2147483647]))
    expected = naive_lines(text, base, width, rows, room)
    block = Block(np.zeros(rows), np.zeros(rows + 1, np.int32), np.zeros(room, np.int32), np.zeros(room))
    place = np.zeros(4, dtype=np.int64)
    code = parse_lines(np.frombuffer(text.encode(), dtype=np.uint8).copy(), place, base, width, block, POWERS)
    n, nnz = len(expected["y"]), len(expected["entries"])
    assert (code, place[AT], place[LINE]) == (expected["code"], expected["at"], expected["line"])
    assert (place[ROWS], place[ENTRIES]) == (n, nnz)
    assert block.y[:n].tolist() == expected["y"]
    assert block.indptr[: n + 1].tolist() == expected["indptr"]
    assert list(zip(block.indices[:nnz].tolist(), block.data[:nnz].tolist(), strict=True)) == expected["entries"]


@pytest.mark.parametrize("seed", range(60))
def test_a_look_at_lines_finds_rows_labels_and_the_largest_index(seed: int) -> None:
    draw = np.random.default_rng(seed)
    text = some_text(draw, 1.0).replace("qid\n", "\n")
    room, widest, known = int(draw.integers(1, 5)), int(draw.integers(0, 9)), [7.5][: int(draw.integers(0, 2))]
    rows, labels, top = 0, list(known), widest
    for line in text.splitlines():
        content = line.split("#")[0].strip()
        if content:
            rows += 1
            labels += [x for x in [float(content.split()[0])] if x not in labels]
            top = max([top, *(int(part.split(":")[0]) for part in content.split()[1:] if not part.startswith("q"))])
    found = np.zeros(room)
    found[: len(known)] = known
    data = np.frombuffer(text.encode(), dtype=np.uint8).copy()
    ends = np.flatnonzero(data == 10)
    given = scan_lines(data, ends, "#" in text, widest, found, len(known), POWERS)
    assert given == (rows, top, min(len(labels), room + 1))
    assert found[: min(len(labels), room)].tolist() == labels[:room]


def test_numbers_of_all_sizes_are_read_to_the_bit() -> None:
    draw, out = np.random.default_rng(1), np.empty(1)
    texts = [*GOOD, "0e500", "0.0", "-0", "9007199254740992", "9007199254740993", "9007199254740994e22", "1e22", "1e23"]
    texts += ["3e-22", "7e-23", "4503599627370497.5", "1e280", "1e-260", "12e281", "5e-324", "1.7976931348623157e308"]
    texts += ["00000000000000000000000001", "0.00000000000000000000000001", "1" + "0" * 30, "1e000000000000000005"]
    for _ in range(400):
        digits = "".join(map(str, draw.integers(0, 10, int(draw.integers(1, 24)))))
        point = int(draw.integers(0, len(digits) + 1))
        texts.append(f"{digits[:point]}.{digits[point:]}e{int(draw.integers(-40, 41))}")
    for text in texts:
        raw = np.frombuffer((text + " ").encode(), dtype=np.uint8).copy()
        assert number(raw, 0, out, POWERS) == len(text)
        # Outside of 1e-260 .. 1e280 a few units in the last place may be lost.
        exact = 1e-250 < abs(float(text)) < 1e280 or float(text) == 0.0
        assert out[0] == float(text) if exact else out[0] == pytest.approx(float(text), rel=1e-14), text
    assert np.copysign(1.0, out[0]) == 1.0
    for text in ("1e308", "1e309", "1e99999999999", "1e-400", "1e-99999999999"):
        raw = np.frombuffer((text + "\n").encode(), dtype=np.uint8).copy()
        assert number(raw, 0, out, POWERS) == len(text)
        assert out[0] == pytest.approx(float(text), rel=1e-14)
