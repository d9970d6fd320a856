"""Every verdict follows from the numbers: numbers against a claim give "NO", numbers for it none."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spom.papers import Result
from spom.papers.catalogue import find, list_experiments
from spom.papers.ocmd_bregman import PLAIN
from spom.papers.page import html, not_held, rst
from spom.papers.running import again, table_of
from spom.papers.spom_fig2 import SPOM

STORED = Path(__file__).parents[2] / "docs" / "papers" / "results"
Change = Callable[[Any], None]


def _runs(numbers: Any, accuracy: float) -> None:
    for name, rules in numbers["runs"].items():
        for run in (run for runs in rules.values() for run in runs):
            run["accuracy"] = accuracy if name.startswith("MKL") else 0.86


def _fig1(numbers: Any, seconds: float) -> None:
    for name, case in numbers["curves"].items():
        case["accuracy"] = [0.9] * len(case["accuracy"])
        case["seconds"] = [seconds if name == "MKL L, Q, G" else 1.0] * len(case["seconds"])


def _fig2(numbers: Any, ours: float) -> None:
    high = numbers["optimum"]["high"]
    numbers["curves"] = {name: [high * (ours if name == SPOM else 5.0)] * 40 for name in numbers["curves"]}


def _fig3(numbers: Any, ours: float) -> None:
    for name, sizes in numbers["uas"].items():
        numbers["uas"][name] = dict.fromkeys(sizes, ours if name == "SPOM" else 0.85)


def _regret(numbers: Any, factor: float) -> None:
    for case in (case for steps in numbers["found"].values() for case in steps.values()):
        case["regret"] = [factor * bound for bound in case["bound"]]


def _fobos1(numbers: Any, factor: float) -> None:
    for case in numbers["cases"].values():
        for name, ends in case["ends"].items():
            case["ends"][name] = [(1.0 + 0.01 * k) * (factor if "Pegasos" in name else 1.0) for k in range(len(ends))]


def _fobos2(numbers: Any, share: float) -> None:
    for curves in numbers["curves"].values():
        curves["subgradient"]["shares"] = [share]
        curves["FOBOS"].update(gaps=[1e-6], rounds=[1], seconds=[1e-9])
    for case in numbers["sparsity"].values():
        case["shares"][-1] = case["optimum"] if share == 1.0 else case["optimum"] + 0.5


def _fobos3(numbers: Any, good: bool) -> None:
    for case in numbers["found"].values():
        for part, curve in case["curves"].items():
            count, whole = len(curve["error"]), part == "1"
            curve["error"] = [0.1] * count
            curve["gradients"] = [100.0 * (k + (10 if whole and good else 1)) for k in range(count)]
            curve["rows"] = [1.0] * (count - 1) + [0.2 if whole and good else 0.5]


def _table1(numbers: Any, good: bool) -> None:
    for name, cases in numbers["found"].items():
        for penalty, case in cases.items():
            error = {"l1": 0.3, "l1/l2": 0.2 if name == "landsat" else 0.3, "l1/linf": 0.4}[penalty]
            case["errors"] = [error if good else 0.9 - error] * 4
            for path in case["paths"]:
                path["entries"][-1] = (0.1 if good else 0.9) * path["rows"][-1]
        if not good and name == "mnist":
            cases["l1"]["errors"] = [0.1] * 4


def _rates(numbers: Any, slope: float | None) -> None:
    for case in (*numbers["found"].values(), *numbers["variants"].values()):
        for problem in ("noise", "tail"):
            case[problem]["slope"] = case["theory"] if slope is None else slope
            if slope is None and case[problem]["bound"] is not None:
                case[problem]["excess"] = [0.5 * bound for bound in case[problem]["bound"]]


def _dimension(numbers: Any, power: float) -> None:
    for name, cases in numbers["found"].items():
        for d, case in cases.items():
            case["rounds"] = 100.0 * float(d) ** (power if name == "p-norm" else 1.0)


def _bregman(numbers: Any, slope: float) -> None:
    for name, case in numbers["found"].items():
        case["slopes"] = [slope] * len(case["slopes"]) if name != PLAIN else case["slopes"]


def _gpm1(numbers: Any, good: bool) -> None:
    for place, case in enumerate(numbers["found"].values()):
        for name, curve in case["curves"].items():
            curve["errors"][-1] = 1e-12
            curve["rounds"] = 10 if name.startswith("l1") == ((place == 0) == good) else 20


def _gpm_table(numbers: Any, factor: float) -> None:
    for case in numbers["found"].values():
        case["linf"] = max(case["cyclic"].values()) / factor


def _gpm2(numbers: Any, error: float) -> None:
    for case in numbers["found"].values():
        for name, curve in case["curves"].items():
            curve["errors"] = [error if "accGPM" in name else 1.0]


# For each experiment: numbers that speak against its claims, and numbers that speak for them.
CHANGES: dict[str, tuple[Change, Change]] = {
    "spom-table1": (lambda n: _runs(n, 0.5), lambda n: _runs(n, 0.95)),
    "spom-fig1": (lambda n: _fig1(n, 9.0), lambda n: _fig1(n, 0.1)),
    "spom-fig2": (lambda n: _fig2(n, 9.0), lambda n: _fig2(n, 1.05)),
    "spom-fig3": (lambda n: _fig3(n, 0.84), lambda n: _fig3(n, 0.86)),
    "spom-regret": (lambda n: _regret(n, 2.0), lambda n: _regret(n, 0.5)),
    "fobos-fig1": (lambda n: _fobos1(n, 0.5), lambda n: _fobos1(n, 1.1)),
    "fobos-fig2": (lambda n: _fobos2(n, 0.5), lambda n: _fobos2(n, 1.0)),
    "fobos-fig3": (lambda n: _fobos3(n, False), lambda n: _fobos3(n, True)),
    "fobos-table1": (lambda n: _table1(n, False), lambda n: _table1(n, True)),
    "ocmd-rates": (lambda n: _rates(n, 0.1), lambda n: _rates(n, None)),
    "ocmd-dimension": (lambda n: _dimension(n, 1.0), lambda n: _dimension(n, 0.1)),
    "ocmd-bregman": (lambda n: _bregman(n, 0.0), lambda n: _bregman(n, -0.5)),
    "gpm-fig1": (lambda n: _gpm1(n, False), lambda n: _gpm1(n, True)),
    "gpm-table1": (lambda n: _gpm_table(n, 1.0), lambda n: _gpm_table(n, 1e4)),
    "gpm-fig2": (lambda n: _gpm2(n, 1.0), lambda n: _gpm2(n, 1e-12)),
}


def stored(id: str) -> Result:
    return Result.load(STORED / f"{id}.json")


def test_every_experiment_is_here() -> None:
    assert set(CHANGES) == {experiment.id for experiment in list_experiments()}


@pytest.mark.parametrize("id", [id for id in CHANGES if (STORED / f"{id}.json").exists()])
def test_a_verdict_can_fail_and_can_hold(id: str) -> None:
    result, experiment = stored(id), find(id)
    for change, wanted in zip(CHANGES[id], (False, True), strict=True):
        numbers = copy.deepcopy(result.numbers)
        change(numbers)
        verdicts = [row.met for row in table_of(experiment, numbers, result.settings, False)]
        assert any(met is not None for met in verdicts)
        assert (False in verdicts) is not wanted
        assert all(met is None for met in [row.met for row in table_of(experiment, numbers, result.settings, True)])


@pytest.mark.parametrize("id", [id for id in CHANGES if (STORED / f"{id}.json").exists()])
def test_the_stored_table_is_that_of_the_numbers(id: str) -> None:
    result = stored(id)
    assert not result.quick
    assert again(result).table == result.table


def test_what_does_not_hold_comes_first(tmp_path: Path) -> None:
    result = stored("spom-fig2")
    numbers = copy.deepcopy(result.numbers)
    _fig2(numbers, 9.0)
    bad = again(Result(**{**result.__dict__, "numbers": numbers}))
    claims = not_held([bad])
    assert claims
    page, text = html([bad], {}, tmp_path), rst([bad], "papers")
    assert page.index("do not hold here") < page.index(f'<h2 id="{bad.id}">')
    assert text.index("do not hold here") < text.index(".. list-table::")


def test_the_readme_is_what_the_results_give() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, root / "tools" / "readme.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
