"""The page of the command: what `--help` prints for each of its parts."""

from __future__ import annotations

import contextlib
import io

PARTS = (
    *(("train", task) for task in ("tagger", "parser", "pipeline", "classifier", "regressor")),
    *((name,) for name in ("predict", "evaluate", "inspect", "report", "demo", "reproduce")),
    *(("data", name) for name in ("list", "fetch", "example")),
)


def help_of(words: tuple[str, ...]) -> str:
    """The text of `spom ... --help`."""
    from spom.cli.main import main

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main([*words, "--help"])
    return text.getvalue().rstrip()


def page() -> str:
    """All parts, one after another."""
    lines = [
        "Options of the command",
        "======================",
        "",
        "The output of ``spom COMMAND --help``. :doc:`/guide/command` is the guide.",
    ]
    for words in PARTS:
        title = " ".join(("spom", *words))
        body = [f"   {line}".rstrip() for line in help_of(words).splitlines()]
        lines += ["", title, "-" * len(title), "", ".. code-block:: text", "", *body]
    return "\n".join(lines) + "\n"
