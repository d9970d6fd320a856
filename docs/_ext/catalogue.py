"""The page of operators, written from the registry: nothing on it is kept by hand."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from docstrings import plain
from takers import RULES, WAYS, takers_of_loss, takers_of_mirror, takers_of_penalty

from spom.core import registry
from spom.core.registry import Entry

# Kind -> the title of its part, the heading of a column, and what a formula is the value of.
KINDS = {
    "penalty": ("Penalties", "Penalty", r"\Omega(w) = "),
    "loss": ("Losses", "Loss", r"\varphi(y, a) = "),
    "mirror": ("Mirror maps", "Map", r"\Psi(w) = "),
    "kernel": ("Kernels", "Kernel", r"K(x, z) = "),
    "decoder": ("Decoders", "Decoder", ""),
}
TRAITS = ("convex", "separable", "indicator", "homogeneous", "semigroup", "exact")
MEANING = {
    "convex": "the function is convex",
    "separable": "a sum over coordinates",
    "indicator": "a set: 0 inside, infinite outside",
    "homogeneous": "the value of c w is c times the value of w, for c > 0",
    "semigroup": "a prox by s and then one by t equal one prox by s + t",
    "exact": "`prox` returns the minimiser, not the result of one prox after another",
}
SETTLED = {"convex", "exact"}  # nearly all have them: named only if missing


def kinds() -> list[str]:
    """The kinds of operators whose package is there."""
    return [kind for kind in KINDS if find_spec(registry.PACKAGES[kind]) and registry.entries(kind)]


def traits(entry: Entry) -> dict[str, str]:
    """Trait -> "yes", "no", or "some" where it depends on the parameters."""
    found = {}
    for trait in TRAITS:
        answers = {bool(getattr(example, trait)) for example in entry.examples()}
        found[trait] = "some" if len(answers) > 1 else "yes" if answers == {True} else "no"
    return found


def takers(entry: Entry) -> set[str]:
    """The ways to solve a problem that take this operator."""
    if entry.kind == "penalty":
        return takers_of_penalty(entry.examples())
    if entry.kind == "loss":
        return takers_of_loss(entry.examples()[0])
    return takers_of_mirror(entry.examples()[0]) if entry.kind == "mirror" else set()


def _split(entry: Entry) -> tuple[str, str]:
    """The docstring as (prose, example)."""
    text = inspect.getdoc(entry.cls) or ""
    prose, arrow, rest = text.partition(">>>")
    return prose.strip(), (arrow + rest).strip()


# --- reStructuredText ---------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int], kind: str) -> str:
    """A list-table."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :class: {kind}", f"   :widths: {' '.join(map(str, widths))}"]
    lines.append("")
    for row in (header, *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def title(text: str, line: str) -> str:
    """A heading."""
    return f"{text}\n{line * len(text)}\n"


def _label(entry: Entry) -> str:
    return f"{entry.kind}-{entry.name}"


def _link(entry: Entry) -> str:
    return f":ref:`{entry.cls.__name__} <{_label(entry)}>`"


def _public(entry: Entry) -> str:
    return f"{registry.PACKAGES[entry.kind]}.{entry.cls.__name__}"


def _signature(entry: Entry) -> str:
    parameters = list(inspect.signature(entry.cls).parameters.values())
    shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
    return f"{_public(entry)}({shown})"


def _details(entry: Entry, takes: set[str]) -> str:
    prose, code = _split(entry)
    parts = [
        f".. _{_label(entry)}:\n",
        title(entry.cls.__name__, "^"),
        f"``{_signature(entry)}``\n",
        f".. math:: {KINDS[entry.kind][2]}{entry.formula}\n",
        "\n".join(plain(line) for line in prose.splitlines()) + "\n",
        f':Registered as: ``"{entry.name}"``',
        *_facts(entry),
        f":Cost: {plain(entry.cost)}",
    ]
    if takes:
        parts.append(f":Solvers: {'; '.join(way for way in WAYS if way in takes)}")
    parts.append("\n" + "\n".join(code.splitlines()) + "\n")
    return "\n".join(parts)


def _facts(entry: Entry) -> list[str]:
    one = entry.examples()[0]
    if entry.kind == "penalty":
        found = traits(entry)
        has = [t for t in TRAITS if found[t] == "yes" and t not in SETTLED]
        has += [f"not {t}" for t in SETTLED if found[t] == "no"]
        some = ", ".join(t for t in TRAITS if found[t] == "some")
        has += [f"depending on parameters: {some}"] if some else []
        return [f":Traits: {', '.join(has) or 'convex'}"]
    if entry.kind == "loss":
        exponent, constant = one.hoelder
        return [
            f":Targets: {_TARGETS[one.target]}",
            f":Hölder: exponent {exponent:.4g}, constant {constant:.4g} (of ``{one!r}``)",
            f":Lipschitz: {one.lipschitz:.4g}",
        ]
    if entry.kind == "mirror":
        return [f":Strong convexity: {one.modulus(100):.4g} in 100 dimensions", f":Penalties: {plain(one.pairs)}"]
    return []


_TARGETS = {"sign": "-1 or +1", "real": "a real number", "class": "a class index, with one score for each class"}
_MARKS = {"yes": "✓", "some": "(✓)", "no": "–"}


def _part(kind: str) -> str:
    found = registry.entries(kind)
    takes = {entry.name: takers(entry) for entry in found}
    parts = [title(KINDS[kind][0], "-")]
    rows = [(_link(e), f":math:`{e.formula}`", plain(e.cost)) for e in found]
    parts.append(table((KINDS[kind][1], "Formula", "Cost"), rows, (28, 46, 26), "formulas"))
    if kind == "penalty":
        parts.append("Traits:\n")
        shown = {e.name: traits(e) for e in found}
        marks = [(_link(e), *(_MARKS[shown[e.name][t]] for t in TRAITS)) for e in found]
        parts.append(table(("", *TRAITS), marks, (30, *[10] * len(TRAITS)), "marks"))
        parts += [f":{trait}: {MEANING[trait]}" for trait in TRAITS]
        parts.append("\n(✓) depends on the parameters.\n")
    if any(takes.values()):
        ways = [way for way in WAYS if any(way in t for t in takes.values())]
        parts.append("Solvers:\n")
        marks = [(_link(e), *("✓" if way in takes[e.name] else "–" for way in ways)) for e in found]
        parts.append(table(("", *ways), marks, (40, *[15] * len(ways)), "marks"))
        parts += [f":{way}: {RULES[way]}" for way in ways]
    parts.append("")
    parts += [_details(entry, takes[entry.name]) for entry in found]
    return "\n".join(parts)


INTRO = """
All penalties, losses, mirror maps, kernels and decoders, with their formulas, costs, solvers and an example. This page
is written from the code: the tests check the traits and run the examples, and each solver is asked which operators it
takes. :doc:`/guide/penalties` explains what penalties have in common.

In the formulas, *s* is the strength of a penalty, *d* are weights of groups or coordinates, *m* is the index of a
group, *r* is a ratio or a radius, and ι{...} is zero inside the set and infinite outside.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([":tocdepth: 3\n", title("Operators", "="), INTRO, *(_part(kind) for kind in kinds())])
