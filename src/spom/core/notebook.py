"""One line that is kept up to date in a notebook, through IPython alone: no widgets, nothing to install."""

from __future__ import annotations

import html
import sys
from typing import Any


def in_notebook() -> bool:
    """Whether code runs in a notebook: IPython is there, with a kernel that shows HTML."""
    module = sys.modules.get("IPython")
    if module is None:
        return False
    shell = module.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class Line:
    """A line of text with a bar; `show` replaces it, `close` removes it."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, done: float | None = None) -> None:
        """Show this text; `done` is the share of the bar, None where nobody knows."""
        from IPython.display import HTML, display  # type: ignore[import-not-found]  # there in a notebook

        share = "" if done is None else f" max='1' value='{done:.3f}'"
        content = HTML(f"<progress{share} style='width:12em'></progress> <code>{html.escape(text)}</code>")
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)

    def close(self) -> None:
        """Leave nothing behind."""
        from IPython.display import HTML

        if self._handle is not None:
            self._handle.update(HTML(""))
            self._handle = None
