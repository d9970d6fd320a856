"""The pages that are written from the code hold all of it."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spom.core import registry

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import architecture  # noqa: E402 - the path comes first
import catalogue  # noqa: E402
import docstrings  # noqa: E402
import takers  # noqa: E402


@pytest.fixture(scope="module")
def operators() -> str:
    return catalogue.page()


@pytest.mark.parametrize("kind", ["penalty", "loss", "mirror"])
def test_every_operator_is_on_the_page(operators: str, kind: str) -> None:
    for entry in registry.entries(kind):
        assert f".. _{kind}-{entry.name}:" in operators
        assert f" = {entry.formula}\n" in operators
        first = (entry.cls.__doc__ or "").partition(">>>")[2].splitlines()[0].strip()
        assert f">>> {first}\n" in operators


def test_solvers_answer_for_themselves() -> None:
    """Known answers: of traits that a solver needs, and of those it cannot do without."""
    from spom.losses import Hinge, Squared
    from spom.penalties import L1, GroupLasso, LInf, SquaredL1

    assert takers.takers_of_penalty([L1(0.1)]) == set(takers.WAYS)
    assert "working set" in takers.takers_of_penalty([GroupLasso(0.1, 2)])
    for penalty in (LInf(0.1), SquaredL1(0.1)):
        found = takers.takers_of_penalty([penalty])
        assert {"batch", "online"} <= found
        assert found.isdisjoint({"working set", "online, sparse"})
    assert "other norms" not in takers.takers_of_penalty([SquaredL1(0.1)])
    assert "batch" in takers.takers_of_loss(Squared())
    assert takers.takers_of_loss(Hinge()).isdisjoint({"batch", "working set"})


def test_traits_that_depend_on_parameters_say_so() -> None:
    found = catalogue.traits(registry.find("penalty", "sum"))
    assert found["exact"] == "some"
    assert catalogue.traits(registry.find("penalty", "l1"))["semigroup"] == "yes"
    assert catalogue.traits(registry.find("penalty", "squared-l1"))["semigroup"] == "no"


def test_the_picture_has_every_room() -> None:
    drawn = {package for layer in architecture.layers() for package in layer}
    folders = {p.name for p in (ROOT / "src" / "spom").iterdir() if (p / "__init__.py").exists()}
    assert folders <= drawn
    assert drawn <= set(architecture.PACKAGES)
    for picture in (architecture.packages(), architecture.flow()):
        ElementTree.fromstring(picture)
    assert 'class="name"' in architecture.packages()
    assert all(f">{package}</text>" in architecture.packages() for package in drawn)


def test_docstrings_are_plain_text() -> None:
    assert docstrings.plain("|x| of coef_ and a * b") == r"\|x\| of coef\_ and a \* b"
    assert docstrings.plain("`coef_` and ``|x|``") == "`coef_` and ``|x|``"
    assert docstrings.plain("w_m stays") == "w_m stays"


def test_types_of_parameters_stand_beside_their_names() -> None:
    text = ["Parameters", "----------", "tol : float", "    The end.", "a, b", "    Both.", "c : the |x|", "    of it."]
    assert list(docstrings.convert(text))[3:] == [
        "", "``tol`` : float", "    The end.", "", "``a, b``", "    Both.", "", "``c``", r"    the \|x\|", "    of it.",
    ]  # fmt: skip


def test_sections_of_docstrings_become_lists() -> None:
    text = ["Learns.", "", "Parameters", "----------", "loss : `x` of coef_.", "    More |x|.", "", ">>> a_ * 2", "b_"]
    assert list(docstrings.convert(text)) == [
        "Learns.", "", "", ".. rubric:: Parameters", "", "", "``loss``", r"    `x` of coef\_.", r"    More \|x\|.", "",
        ">>> a_ * 2", "b_",
    ]  # fmt: skip
