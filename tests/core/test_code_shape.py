"""Functions fit on a screen and take few parameters."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "spom"
MOST_LINES = 60
MOST_PARAMETERS = 8


def functions() -> dict[str, tuple[int, int]]:
    """(lines, parameters) of each function; constructors and `fit` have the parameters that users give."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                count = len([name for name in names if name not in ("self", "cls")])
                given = node.name in ("__init__", "fit")
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                key = f"{path.relative_to(SOURCE)}:{node.name}"
                old = found.get(key, (0, 0))
                found[key] = (max(lines, old[0]), max(0 if given else count, old[1]))
    return found


def too_large() -> dict[str, tuple[int, int]]:
    limits = (MOST_LINES, MOST_PARAMETERS)
    return {key: size for key, size in functions().items() if size[0] > limits[0] or size[1] > limits[1]}


def test_no_function_is_too_large() -> None:
    assert too_large() == {}
