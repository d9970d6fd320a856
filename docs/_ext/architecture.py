"""The pictures of the architecture: the packages in their layers, and how data flow through them.

The layers are those that import-linter enforces (pyproject.toml), and a package that does not exist yet is drawn
with a dashed line: the picture cannot differ from the code. Plain SVG in the colours of the page around it,
so that it reads in light and in dark.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]

# What a package is for, in a few words.
PACKAGES = {
    "errors": "one clear line each",
    "core": "protocols, registry, jit, state",
    "data": "readers, loaders",
    "models": "model files",
    "metrics": "phrases, attachment",
    "penalties": "Ω, prox, skip",
    "losses": "φ(y, a), derivative",
    "mirror": "mirror maps Ψ",
    "kernels": "Gram blocks",
    "decoders": "chain, tree, classes",
    "features": "templates, feature ids",
    "norms": "prox in other norms",
    "solvers": "iterators of states",
    "theory": "steps and bounds",
    "estimators": "scikit-learn shells",
    "scale": "streams, engines",
    "report": "one page per run",
    "plot": "one call per plot",
    "papers": "tables and figures",
    "cli": "the command spom",
}


def layers() -> list[list[str]]:
    """The packages of each layer, from the top: a package may import only from layers below its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = project["tool"]["importlinter"]["contracts"]
    return [[package.strip(" ()") for package in layer.split("|")] for layer in contract["layers"]]


def is_there(package: str) -> bool:
    """Whether the package has code already."""
    place = ROOT / "src" / "spom" / package
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


# --- drawing ------------------------------------------------------------------------------------------


def _box(x: float, y: float, w: float, h: float, name: str, text: str, kind: str) -> str:
    middle = x + w / 2
    return (
        f'<g class="{kind}"><rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" rx="6"/>'
        f'<text class="name" x="{middle:.0f}" y="{y + h / 2 - 4:.0f}">{escape(name)}</text>'
        f'<text class="what" x="{middle:.0f}" y="{y + h / 2 + 14:.0f}">{escape(text)}</text></g>'
    )


def _arrow(x1: float, y1: float, x2: float, y2: float, text: str = "") -> str:
    line = f'<line class="arrow" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" marker-end="url(#tip)"/>'
    if text:
        line += f'<text class="flow" x="{(x1 + x2) / 2 + 8:.0f}" y="{(y1 + y2) / 2 + 4:.0f}">{escape(text)}</text>'
    return line


def _svg(width: float, height: float, label: str, parts: list[str]) -> str:
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>'
    )
    body = "\n".join(parts)
    return (
        f'<div class="picture"><svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">\n{tip}\n{body}\n</svg></div>\n'
    )


def packages() -> str:
    """The layers from the command line down to the errors."""
    width, high, gap, pitch = 940.0, 52.0, 12.0, 84.0
    found = layers()
    parts = []
    for level, names in enumerate(found):
        y = 10 + level * pitch
        each = (width - 20 - gap * (len(names) - 1)) / max(len(names), 2)
        start = (width - each * len(names) - gap * (len(names) - 1)) / 2
        for i, name in enumerate(names):
            kind = "package" if is_there(name) else "package planned"
            parts.append(_box(start + i * (each + gap), y, each, high, name, PACKAGES[name], kind))
        if level + 1 < len(found):
            parts.append(_arrow(width / 2, y + high + 4, width / 2, y + pitch - 5, "imports" if level == 0 else ""))
    return _svg(width, 10 + len(found) * pitch - 22, "The packages of spom in layers; imports go downwards only", parts)


def flow() -> str:
    """The way of the data: from a source to scores, through one step of learning, to a model."""
    high, y = 56.0, 36.0
    across = [
        ("data", "files, arrays, streams", "package"),
        ("features", "templates; kernels: blocks", "package"),
        ("scores", "a = θ·x, or K·α", "thing"),
        ("losses", "φ and its derivative", "package"),
    ]
    wide, gap = 200.0, 46.0
    parts = ['<text class="flow head" x="10" y="20">one example</text>']
    for i, (name, text, kind) in enumerate(across):
        x = 10 + i * (wide + gap)
        planned = kind == "package" and not is_there(name)
        parts.append(_box(x, y, wide, high, name, text, kind + (" planned" if planned else "")))
        if i:
            parts.append(_arrow(x - gap + 4, y + high / 2, x - 5, y + high / 2))
    # Back from the right: the step, then the state that holds theta.
    y2 = y + high + 74
    back = [
        ("mirror", "dual step along −η g", "package"),
        ("penalties", "a prox for each term", "package"),
        ("state", "θ, objective, counters", "thing"),
        ("estimators", "fit, predict, selected_", "package"),
    ]
    right = 10 + 3 * (wide + gap)
    for i, (name, text, kind) in enumerate(back):
        x = right - i * (wide + gap)
        planned = kind == "package" and not is_there(name)
        parts.append(_box(x, y2, wide, high, name, text, kind + (" planned" if planned else "")))
        if i:
            parts.append(_arrow(x + wide + gap - 4, y2 + high / 2, x + wide + 5, y2 + high / 2))
    parts.append(_arrow(right + wide / 2, y + high + 4, right + wide / 2, y2 - 5, "g"))
    scores, state = 10 + 2 * (wide + gap) + wide / 2, right - 2 * (wide + gap) + wide / 2
    parts.append(
        f'<path class="arrow" fill="none" d="M{state:.0f} {y2 - 4:.0f} C{state:.0f} {y2 - 40:.0f} {scores:.0f} '
        f'{y + high + 40:.0f} {scores:.0f} {y + high + 6:.0f}" marker-end="url(#tip)"/>'
        f'<text class="flow end" x="{state - 14:.0f}" y="{y2 - 22:.0f}">θ, for the next example</text>'
    )
    # Solvers own the loop; decoders stand beside the loss for structures.
    y3 = y2 + high
    parts.append(
        f'<path class="bracket" fill="none" d="M{10 + wide + gap:.0f} {y3 + 12:.0f} v10 H{right + wide:.0f} v-10"/>'
        f'<text class="flow middle" x="{(10 + wide + gap + right + wide) / 2:.0f}" y="{y3 + 42:.0f}">'
        "solvers: the loop, one state after another</text>"
    )
    return _svg(right + wide + 10, y3 + 56, "How data flow through the packages", parts)
