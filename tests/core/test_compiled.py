"""Compiled code that is kept: its key, its files, its checks, and loading it without numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spom.core.compiled import jobs, key, pool, store
from spom.core.compiled.running import explain, fits, plan_of, ready
from spom.core.jit import Kernel, kernel
from spom.penalties.l1 import soft_threshold


def run(code: str, **environment: str) -> tuple[str, str]:
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


LIMIT = 3.0


@kernel("float64(float64)")
def capped(x: float) -> float:
    """Return the smaller of x and the limit."""
    return min(x, LIMIT)


@kernel("float64(float64)")
def twice_capped(x: float) -> float:
    return 2.0 * capped(x)


def _digest(which: Any) -> str:
    for one in (capped, twice_capped):
        one.digest = None  # type: ignore[attr-defined]
    return key.digest(which)


def test_the_key_follows_constants_that_a_helper_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _digest(twice_capped)
    assert _digest(twice_capped) == before
    monkeypatch.setitem(globals(), "LIMIT", 4.0)
    assert _digest(twice_capped) != before


def test_the_key_follows_types_options_and_code_but_not_the_place() -> None:
    def body(x: float) -> float:
        return x + 1.0

    def other(x: float) -> float:
        return x + 2.0

    def made(function: Any, signature: str, **options: Any) -> str:
        function.__qualname__ = function.__name__ = "same"
        return key.digest(Kernel(function, signature, options))

    plain = made(body, "float64(float64)")
    assert made(body, "float64(float64)") == plain
    moved = body.__code__.replace(co_firstlineno=999, co_filename="elsewhere.py")
    assert made(type(body)(moved, globals()), "float64(float64)") == plain
    assert made(body, "float32(float32)") != plain
    assert made(body, "float64(float64)", fastmath={"reassoc"}) != plain
    assert made(other, "float64(float64)") != plain


def test_the_level_is_one_that_this_processor_has() -> None:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if key.level() in key.LEVELS:
        assert all(features[name] for name in key.LEVELS[key.level()])


def test_compiled_code_needs_no_numba_and_says_when_it_compiles(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np\nfrom spom.penalties import L1\nfrom spom.losses import MulticlassLogistic\n"
        "print(L1(1.0).prox([3.0, 0.5]), 'numba' in sys.modules)"
    )
    out, said = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert out == "[2. 0.] False"
    assert "spom: compiling 1 of 1 kernels" in said
    again, nothing = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert (again, nothing) == (out, "")


def test_a_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    code = "from spom.penalties import L1\nprint(L1(1.0).prox([3.0, 0.5]))"
    first, _ = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    for file in tmp_path.rglob("*.code"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        file.write_bytes(bytes(data))
    again, said = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert again == first
    assert "compiling" in said


def test_loaded_code_and_numba_live_in_one_process() -> None:
    """Before and after numba is imported, with an exception raised by compiled code in between."""
    code = (
        "import numpy as np\nfrom spom.penalties import L1\nw = np.array([3.0, 0.5])\nprint(L1(1.0).prox(w))\n"
        "import numba\n@numba.njit\ndef f(x): return np.sort(x)[::-1] * 2\nprint(f(w))\n"
        "from spom.penalties import L2\nprint(L1(2.0).prox(w), L2(1.0).prox(w))"
    )
    out, _ = run(code)
    assert out.splitlines() == ["[2. 0.]", "[6. 1.]", f"[1. 0.] {_l2([3.0, 0.5])}"]


def _l2(w: list[float]) -> str:
    v = np.array(w)
    return str(v * (1 - 1 / np.sqrt((v * v).sum())))


W, NO_INTS = np.array([3.0, 0.5]), np.zeros(0, dtype=np.int64)
FIXED = W.copy()
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    "wrong", [W.astype(np.float32), W.astype(np.int64), np.zeros((2, 2)), np.zeros(4)[::2], FIXED, [3.0], None]
)
def test_arguments_of_the_wrong_kind_are_refused(wrong: Any) -> None:
    run_it, _ = ready(soft_threshold)
    out = np.empty(2)
    with pytest.raises(TypeError, match="soft_threshold: argument 1 must be a writeable C-ordered array of float64"):
        run_it(wrong, 1.0, np.ones(1), NO_INTS, out)
    with pytest.raises(TypeError, match="takes 5 arguments, not 2"):
        run_it(W, 1.0)
    with pytest.raises(TypeError):
        run_it(W, "one", np.ones(1), NO_INTS, out)


def test_arguments_inside_tuples_are_checked() -> None:
    kinds = plan_of([("tuple", [("array", "float64", 1, "A", False), None]), None])
    assert fits(((np.zeros(4)[::2], 1), 2), kinds)
    assert not fits(((np.zeros(4, dtype=np.int32), 1), 2), kinds)
    assert not fits(((np.zeros(4),), 2), kinds)
    assert "argument 1, argument 1 must be" not in str(explain("f", ((np.zeros(4),), 2), kinds))
    assert "a tuple of 2" in str(explain("f", ((np.zeros(4),), 2), kinds))


def test_only_a_few_versions_of_a_kernel_are_kept(tmp_path: Path) -> None:
    record = store.Record(b"code", "w", "p", "e", [("e", [])], [None])
    for number in range(9):
        store.save(tmp_path, "m:f", f"{number:032d}", [record])
        os.utime(tmp_path / store.file_name("m:f", f"{number:032d}"), (number, number))
    left = sorted(path.name for path in tmp_path.rglob("*.code"))
    assert left == [f"m.f-{number:032d}.code" for number in range(5, 9)]
    assert store.find("m:f", f"{8:032d}", [tmp_path]) == [record]
    assert store.find("m:f", f"{0:032d}", [tmp_path]) is None


@pytest.mark.parametrize("job", sorted(jobs.MODULES))
def test_the_kernels_of_a_job_are_there(job: str) -> None:
    """`python tools/kernel_jobs.py` writes the list again."""
    import json

    listed = json.loads(Path(jobs.__file__).with_name("jobs.json").read_text())
    assert {k.name for k in jobs.kernels_of(job)} == {name for step in listed[job] for name in step}


def test_only_the_step_under_way_is_compiled() -> None:
    from spom import SequenceTagger  # noqa: F401 - its module says which job it is

    def along(name: str) -> set[str]:
        return {k.__name__ for k in jobs.together_with(name)}

    assert "marginal_rows" not in along("spom.data.interning:distinct")
    assert "adaptive_rounds" not in along("spom.solvers.structured.chains.predict:marginal_rows")
    assert along("spom.core:no_kernel") == set()


def test_a_process_that_holds_the_lock_does_not_hold_up_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(pool, "PATIENCE", 0.1)
    with (tmp_path / "lock").open("w") as held, (tmp_path / "lock").open("w") as waiting:
        fcntl.flock(held, fcntl.LOCK_EX)
        pool._wait_for(waiting)  # gives up
        fcntl.flock(held, fcntl.LOCK_UN)
        pool._wait_for(waiting)  # gets it
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


BEYOND = """
import sys
import numpy as np
from spom.core.compiled.key import key_of
from spom.penalties.l1 import soft_threshold

print(key_of(soft_threshold), flush=True)
if len(sys.argv) > 1:
    try:
        soft_threshold(np.zeros(10), 1.0, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(2))
    except IndexError as error:
        print(error, "numba" in sys.modules)
"""


def test_bounds_are_checked_where_numba_is_asked_to(tmp_path: Path) -> None:
    """Code that is kept without checks must not be loaded then: the fuzzer relies on it."""
    asked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    plain = subprocess.run([sys.executable, "-c", BEYOND], capture_output=True, text=True, check=True)
    # Twice: compiled, and loaded from what was kept.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", BEYOND, "run"], env=asked, capture_output=True, text=True, check=True
        )
        name, said = done.stdout.splitlines()
        assert name != plain.stdout.strip()
        assert said == "index is out of bounds False"


def test_code_is_loaded_once_however_many_threads_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load code once: a second copy would replace the first, and addresses of the first would be dangling."""
    for name in ("_run", "_address"):
        monkeypatch.setattr(soft_threshold, name, None)
    first = ready(soft_threshold)
    assert ready(soft_threshold) == first
