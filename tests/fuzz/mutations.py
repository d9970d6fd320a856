"""Changes of bytes, arrays and JSON. A change of a file is a dict, so that what was found can be kept as text."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

WORDS = (
    *(b"\t", b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8", b" ", b"_", b"-", b"#"),
    *(b"-1", b"0", b"9" * 25, b"1e999", b"-1e999", b"nan", b"inf", b"1-2", b"2-1", b"1.1", b"0x1", b"4294967296"),
    *(b":", b"::", b'"', b'""', b",", b";", b"|", b"=", b"B-", b"a" * 300, b"\xef\xbb\xbf", b"\x1f\x8b", b"qid:1"),
)
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64")
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-300, 1e-3, 37.5, 1e8, 1e30, 1e300, -1e300)
LEAVES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 255, 2**31, 2**63, -(2**63), 2**70, 1.5, -0.5, 1e308, 5e-324),
    *("", "x", "nan", "inf", "0x1p+1023", "-0x1p-1074", "\0", "auto", "l1", "a" * 1000),
    *([], {}, [[]], [0], [0, 1], {"array": "x"}, {"float": "nan"}, {"tuple": []}, {"kind": "penalty"}),
)


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """Make a few changes: bytes, meaningful words, and parts that are dropped, repeated or moved."""
    data = bytearray(seed)
    for _ in range(draw.randint(1, 6)):
        at, end = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
        kind = draw.randint(0, 5)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] = draw.randrange(256)
        elif kind == 1:
            data[at:at] = draw.choice(WORDS)
        elif kind == 2:
            del data[at : min(end, at + draw.randint(1, 20))]
        elif kind == 3:
            data[at:at] = data[at : at + draw.randint(1, 40)] * draw.randint(1, 3)
        elif kind == 4:
            data[at : at + draw.randint(0, 4)] = draw.choice(WORDS)
        elif draw.random() < 0.2:
            del data[at:]
        else:
            part = bytes(data[at : at + 12])
            del data[at : at + 12]
            data[min(end, len(data)) : min(end, len(data))] = part
    return bytes(data)


# --- arrays -----------------------------------------------------------------------------------------


def array_change(name: str, arrays: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Another number, length, dtype, number of axes, or another array in the place of this one."""
    a = arrays[name]
    kind = draw.choice(("set", "set", "set", "set", "fill", "cut", "long", "dtype", "axes", "of", "turned", "drop"))
    change: dict[str, Any] = {"array": name, "do": kind}
    if kind in ("set", "fill"):
        value = draw.choice(_numbers(a))
        change |= {"value": str(value) if isinstance(value, float) else value}
        if kind == "set" and a.size:
            change["at"] = sorted(draw.sample(range(a.size), min(a.size, draw.randint(1, 3))))
    elif kind == "cut":
        change["size"] = draw.randint(0, a.size)
    elif kind == "long":
        change["size"] = a.size + draw.choice((1, 2, 7, a.size, 1000))
    elif kind == "dtype":
        change["dtype"] = draw.choice(DTYPES)
    elif kind == "axes":
        change["shape"] = draw.choice(([-1], [1, -1], [-1, 1], [1, 1, -1], [*a.shape, 1], list(reversed(a.shape))))
    elif kind == "of":
        change["of"] = draw.choice(sorted(arrays))
    return change


def _numbers(a: Any) -> list[Any]:
    if a.dtype.kind in "iu":
        info = np.iinfo(a.dtype)
        near = (-1, 0, 1, 2, 1000, 2**31 - 1, 2**31, int(a.max(initial=0)) + 1, *(a.size + k for k in (-1, 0, 1, 7)))
        return [int(info.min), int(info.max), *(v for v in near if info.min <= v <= info.max)]
    if a.dtype.kind == "f":
        return [float("nan"), float("inf"), float("-inf"), *FLOATS]
    return [0, 1]


def changed_array(change: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the array after a change other than "drop"."""
    a, kind = np.array(arrays[change["array"]]), change["do"]
    if kind == "dtype":
        with np.errstate(all="ignore"):
            return a.astype(change["dtype"])
    if kind == "of":
        return np.array(arrays[change["of"]])
    if kind == "turned":
        return np.ascontiguousarray(a.reshape(-1)[::-1]).reshape(a.shape)
    if kind == "axes":
        return a.reshape(change["shape"]) if a.size else a.reshape(-1)
    if kind in ("cut", "long"):
        return np.resize(a.reshape(-1), change["size"]) if a.size else np.zeros(change["size"], dtype=a.dtype)
    value = float(change["value"]) if isinstance(change["value"], str) else change["value"]
    flat = a.reshape(-1)
    with np.errstate(all="ignore"):
        flat[change.get("at", slice(None))] = value
    return flat.reshape(a.shape)


# --- JSON -------------------------------------------------------------------------------------------


def json_change(value: Any, draw: random.Random, avoid: tuple[str, ...] = ()) -> dict[str, Any]:
    """Another leaf or another part; `avoid` names fields that are rarely looked into."""
    where: list[Any] = []
    while isinstance(value, (dict, list)) and value and draw.random() < 0.92:
        keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw.choice(keys)
        if key in avoid and draw.random() < 0.95:
            key = draw.choice(keys)
        where.append(key)
        value = value[key]
    change: dict[str, Any] = {"json": where, "do": "put", "value": draw.choice(LEAVES)}
    if isinstance(value, (int, float)) and not isinstance(value, bool) and draw.random() < 0.5:
        change["value"] = draw.choice((value + 1, value - 1, -value, value * 2, float(value)))
    elif draw.random() < 0.1:
        change["do"] = "drop"
    elif draw.random() < 0.05:
        change["do"] = "deep"
    elif isinstance(value, list) and draw.random() < 0.3:
        change["value"] = draw.choice((value[:-1], value + value, value[::-1]))
    return change


def changed_json(value: Any, change: dict[str, Any]) -> Any:
    """Return a copy of the value after a change."""

    def walk(part: Any, where: list[Any]) -> Any:
        if not where:
            return deep() if change["do"] == "deep" else change.get("value")
        if isinstance(part, dict):
            if len(where) == 1 and change["do"] == "drop":
                return {k: v for k, v in part.items() if k != where[0]}
            return {**part, where[0]: walk(part[where[0]], where[1:])}
        at = int(where[0])
        if len(where) == 1 and change["do"] == "drop":
            return [*part[:at], *part[at + 1 :]]
        return [*part[:at], walk(part[at], where[1:]), *part[at + 1 :]]

    def deep() -> Any:
        nested: Any = []
        for _ in range(300):
            nested = [nested]
        return nested

    return walk(value, change["json"])
