"""The package itself: imports, compiled kernels, registry, parameters, states."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spom
from spom.core import registry
from spom.core.arrays import as_finite, output_like
from spom.core.jit import kernel
from spom.core.state import Counters, State
from spom.errors import DataError, ModelFileError, SpomError, Unsupported


def run(code: str, **environment: str) -> str:
    env = {**{k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["spom", "spom.penalties", "spom.losses", "spom.mirror"])
def test_import_loads_nothing_heavy(module: str) -> None:
    heavy = "{'numba', 'sklearn', 'matplotlib', 'scipy.optimize', 'highspy'}"
    assert run(f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))").strip() == "[]"


def test_public_names_are_there() -> None:
    for name in spom.__all__:
        assert getattr(spom, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spom.nothing
    assert "penalties" in dir(spom)


@pytest.mark.parametrize("home", ["writable", "blocked"])
def test_kernels_run_from_an_install_that_cannot_be_written_to(tmp_path: Path, home: str) -> None:
    """Put a file in the place of `__pycache__`, which blocks every user, including root."""
    package = tmp_path / "install" / "spom"
    source = Path(spom.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("")
    user = tmp_path / "home"
    user.write_text("") if home == "blocked" else user.mkdir()
    code = "import spom; from spom.penalties import L1; print(spom.__file__, L1(1.0).prox([3.0])[0])"
    where = {"PYTHONPATH": str(package.parent), "HOME": str(user), "XDG_CACHE_HOME": str(user / "cache")}
    where["NUMBA_CACHE_DIR"] = ""
    for _ in range(2):
        file, number = run(code, **where).split()
        assert Path(file).is_relative_to(tmp_path)
        assert float(number) == 2.0
    assert home == "blocked" or list(user.rglob("*.code"))


def test_kernels_run_without_the_compiler() -> None:
    code = "from spom.penalties import *; w = [3.0, 4.0, 1.0]; print(SparseMKL(1.0, 1).prox(w), L1Ball(2.0).prox(w))"
    assert run(code, NUMBA_DISABLE_JIT="1") == run(code)


def test_editing_a_helper_does_not_leave_a_stale_caller(tmp_path: Path) -> None:
    helper, caller = tmp_path / "helper.py", tmp_path / "caller.py"
    caller.write_text(
        "from spom.core.jit import kernel\nfrom helper import inner\n"
        "@kernel('float64(float64)')\ndef outer(x):\n    return inner(x) + 1.0\n"
    )
    for factor, offset in ((2.0, 0.0), (5.0, 0.0), (5.0, 1.0)):
        helper.write_text(
            f"from spom.core.jit import kernel\nOFFSET = {offset}\n"
            f"@kernel('float64(float64)')\ndef inner(x):\n    return {factor} * x + OFFSET\n"
        )
        # Python's own byte code cache looks at whole seconds; this test writes twice in one.
        where = os.pathsep.join([str(tmp_path), str(Path(spom.__file__).parents[1])])
        out = run("from caller import outer; print(outer(3.0))", PYTHONPATH=where, PYTHONDONTWRITEBYTECODE="1")
        assert float(out) == factor * 3.0 + offset + 1.0


def test_kernel_errors_are_not_swallowed() -> None:
    @kernel("float64(float64)", cache=False)
    def wrong(x: float) -> float:
        return undefined_name + x  # type: ignore[name-defined]  # noqa: F821 - the error is the test

    with pytest.raises(Exception, match="undefined_name"):
        wrong(1.0)


def test_registry_finds_and_makes() -> None:
    assert repr(registry.make("penalty", "l1", strength=0.5)) == "L1(strength=0.5)"
    with pytest.raises(Unsupported, match=r"no penalty 'l3'.*l1, "):
        registry.find("penalty", "l3")
    with pytest.raises(Unsupported, match="no kind"):
        registry.entries("nothing")
    with pytest.raises(ValueError, match="registered already"):
        registry.register("penalty", "l1", examples=list)(SpomError)


@pytest.mark.parametrize("kind", sorted(registry.PACKAGES))
def test_every_operator_documents_itself(kind: str) -> None:
    for entry in registry.entries(kind):
        assert entry.formula or kind in ("solver", "estimator"), entry.name
        assert entry.cost, entry.name
        assert ">>>" in (entry.cls.__doc__ or ""), entry.name
        assert entry.examples()


def test_arrays_come_in_one_way() -> None:
    assert as_finite([1, 2]).dtype == np.float64
    assert as_finite(np.asfortranarray(np.ones((2, 3)))).flags.c_contiguous
    for bad, what in [
        ("abc", "real numbers"),
        ([1j], "real numbers"),
        (3.0, "0 dimensions"),
        ([[1.0], [np.nan]], r"entry \(1, 0\) is nan"),
        ([0.0, np.inf], "entry 1 is inf"),
        ([[1.0], [1.0, 2.0]], "real numbers"),
    ]:
        with pytest.raises(ValueError, match=what):
            as_finite(bad)  # type: ignore[arg-type]  # wrong on purpose
    for out in (np.empty(3, dtype=np.float32), np.empty(4), np.empty(6)[::2]):
        with pytest.raises(ValueError, match="out must be"):
            output_like(np.zeros(3), out)  # type: ignore[arg-type]  # wrong on purpose


def test_a_state_comes_back_to_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    state = State(
        k=7,
        theta=rng.standard_normal(5),
        step=0.1,
        objective=1 / 3,
        block_norms=np.ones(2),
        counters=Counters(gradients=3, proxes=4),
        seconds=1.5,
        internal={"sum": rng.standard_normal(5), "index": np.arange(3)},
        random=rng.bit_generator.state,
    )
    path = tmp_path / "run.state"
    state.save(path)
    again = State.load(path)
    assert again.k == 7
    assert again.counters == state.counters
    assert again.objective == state.objective
    assert np.isnan(again.loss)
    assert again.random == state.random
    np.testing.assert_array_equal(again.theta, state.theta)
    np.testing.assert_array_equal(again.internal["sum"], state.internal["sum"])
    assert [p.name for p in tmp_path.iterdir()] == ["run.state"]


def test_a_damaged_state_is_refused_and_a_failed_save_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.state"
    State(k=1, theta=np.zeros(3)).save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        State(k=1, theta=np.zeros(3), random={"not": object()}).save(path)
    assert path.read_bytes() == before
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(ModelFileError, match=r"run\.state"):
        State.load(path)
    with pytest.raises(ModelFileError, match="there is no such file"):
        State.load(tmp_path / "missing")


def test_data_errors_say_where() -> None:
    assert str(DataError("3 columns expected", source="a.txt", line=4)) == "a.txt, line 4: 3 columns expected"
    assert isinstance(DataError("x"), ValueError)
