"""Formulas as MathML, converted at build time: readers need no script, no font and no network.

The converter is the one that comes with docutils. A formula that it cannot convert is a warning, which
`make docs` turns into an error.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def convert(latex: str, *, block: bool) -> str:
    r"""MathML of a formula; also of plain `\big` before a bracket and of `\tfrac12`, which docutils misreads.

    >>> "<mi>x</mi>" in convert("x", block=False)
    True
    """
    latex = re.sub(r"(\\[td]?frac)(\d)(\d)", r"\1{\2}{\3}", latex)
    latex = re.sub(r"\\(big|Big|bigg|Bigg)(?=\(|\[|\\\{)", r"\\\1l", latex)
    latex = re.sub(r"\\(big|Big|bigg|Bigg)(?=\)|\]|\\\})", r"\\\1r", latex)
    return _fences(tex2mathml(latex, as_block=block))


def _fences(mathml: str) -> str:
    """Bars as opening and closing ones in turn: without that they get the space of an infix operator."""
    for bar in ("‖", "|", "∣"):
        forms = iter(range(10_000))
        mathml = re.sub(
            rf"<mo( stretchy=\"false\")?>{re.escape(bar)}</mo>",
            lambda _, bar=bar, forms=forms: (
                f'<mo form="{("prefix", "postfix")[next(forms) % 2]}" stretchy="false">{bar}</mo>'
            ),
            mathml,
        )
    return mathml


def _visit(self: Any, node: nodes.Element, *, block: bool) -> None:
    latex = node.astext()
    try:
        html = convert(latex, block=block)
    except MathError as error:
        logger.warning("the formula %r has no MathML form: %s", latex, error, location=node)
        html = f"<code>{self.encode(latex)}</code>"
    self.body.append(f'<div class="formula">{html}</div>' if block else html)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer; `html_math_renderer = "mathml"` switches it on."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda self, node: _visit(self, node, block=False), None),
        block_renderers=(lambda self, node: _visit(self, node, block=True), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
