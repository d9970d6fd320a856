"""Change one line of a compiled loop, run the tests of its package, and print the changes that no test noticed.

    python tools/mutate.py --sample 40 --seed 7
    python tools/mutate.py --paths src/spom/solvers/mkl --sample 10
    python tools/mutate.py --interpret --sample 200

A mutation swaps an operator or a comparison, shifts an integer by one, flips a sign or negates a condition inside
a function marked with `@kernel`. Each is tried in a copy of the tree, so the checkout is never touched. A mutation
counts as caught when a test fails, a kernel no longer compiles, or the tests take more than `--timeout` CPU seconds.
Arguments of prefetches, and loops that only prefetch, are not mutated: they change the speed, never the result.
With `--interpret` nothing is compiled, which saves about a second per mutation: see `mutate_interpreted.py`.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}
COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
BOOLEAN = {ast.And: "or", ast.Or: "and"}
# Sources that are tested outside the folder of the same name, from the most special to the most general.
ALSO = {
    "solvers/linear": ["tests/solvers/test_every_solver.py", "tests/estimators/test_online.py"],
    "solvers/batch": ["tests/solvers/test_every_solver.py", "tests/estimators/test_proximal.py"],
    "solvers/structured/chains": ["tests/estimators/test_tagger.py"],
    "solvers/structured/trees": ["tests/estimators/test_parser.py"],
    "decoders": ["tests/solvers/structured/chains", "tests/solvers/structured/trees"],
    "solvers/mkl": ["tests/estimators/test_mkl_classifier.py", "tests/estimators/test_mkl_tagger.py"],
}


@dataclass(frozen=True)
class Mutation:
    """One change: the text from `start` to `end` (line, column) becomes `text`."""

    path: Path
    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    def apply(self, source: str) -> str:
        """Return the source with the change."""
        lines = source.splitlines(keepends=True)
        (row, left), (last, right) = self.start, self.end
        head, tail = lines[row - 1].encode()[:left].decode(), lines[last - 1].encode()[right:].decode()
        return "".join([*lines[: row - 1], head + self.text + tail, *lines[last:]])

    def describe(self, source: str) -> str:
        """Return its place, and the line before and after."""
        before = source.splitlines()[self.start[0] - 1].strip()
        after = self.apply(source).splitlines()[self.start[0] - 1].strip()
        return f"{self.path}:{self.start[0]}\n    - {before}\n    + {after}"


def mutations(path: Path, source: str) -> Iterator[Mutation]:
    """Yield every mutation of the kernels of one file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in node.decorator_list):
            if re.match("look_ahead|prefetch", node.name):
                continue
            for statement in node.body:
                yield from _inside(path, source, statement)


def _inside(path: Path, source: str, node: ast.AST) -> Iterator[Mutation]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.stmt) and _prefetches(node):
        return
    if isinstance(node, ast.expr):
        yield from _changes(path, source, node)
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, ast.AnnAssign) or child is not node.annotation:
            yield from _inside(path, source, child)


def _prefetches(node: ast.stmt) -> bool:
    """Tell whether a statement is a prefetch, or a loop or condition over prefetches and the names of their places."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return bool(re.search("prefetch|look_ahead", ast.unparse(node.value.func)))
    if not isinstance(node, (ast.For, ast.If)) or not any(map(_prefetches, node.body)):
        return False
    named = (ast.Assign, ast.AnnAssign)
    return all(isinstance(inner, named) or _prefetches(inner) for inner in [*node.body, *node.orelse])


def _changes(path: Path, source: str, node: ast.expr) -> Iterator[Mutation]:
    def whole(text: str) -> Mutation:
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        return Mutation(path, (node.lineno, node.col_offset), end, text)

    def part(other: ast.expr) -> str:
        return ast.get_source_segment(source, other) or ast.unparse(other)

    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        yield whole(f"({part(node.left)}) {BINARY[type(node.op)]} ({part(node.right)})")
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
        yield whole(f"({part(node.left)}) {COMPARE[type(node.ops[0])]} ({part(node.comparators[0])})")
    elif isinstance(node, ast.BoolOp):
        yield whole("(" + f" {BOOLEAN[type(node.op)]} ".join(f"({part(v)})" for v in node.values) + ")")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield whole(part(node.operand))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield whole(str(node.value + 1))
    elif isinstance(node, ast.IfExp):
        yield whole(f"({part(node.orelse)} if {part(node.test)} else {part(node.body)})")


def tests_for(path: Path, near_only: bool) -> list[str]:
    """Return the tests that should notice a change in this file: the nearest test folder, then those in `ALSO`.

    Files that use a name of the changed one, or run over all operators, come first, as they catch most changes.
    `near_only` skips the others if there are such files.
    """
    inside = path.relative_to("src/spom").parent
    folder = next(f for f in [inside, *inside.parents] if (ROOT / "tests" / f).is_dir())
    more = [also for key, names in ALSO.items() if str(inside).startswith(key) for also in names]
    defined = [node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")]
    names = re.compile(rf"\b({'|'.join(['registry', 'cases', re.escape(path.stem), *defined])})\b")
    tests = sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    near = [str(test.relative_to(ROOT)) for test in tests if names.search(test.read_text())]
    return near if near and near_only else [*near, f"tests/{folder}", *more]


def caught(tree: Path, mutation: Mutation, timeout: float, near_only: bool) -> str | None:
    """Return how the mutation was noticed, or None if it survived."""
    target = tree / mutation.path
    original = target.read_bytes()
    stat = target.stat()
    target.write_text(mutation.apply(original.decode()))
    tests = tests_for(mutation.path, near_only)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    # CPU seconds, so that other work on the machine cannot make a mutation look caught.
    limit = int(timeout)
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)),
            check=False,
        )
    finally:
        target.write_bytes(original)
        os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if done.returncode == 0:
        return None
    return "too slow" if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else "test failed"


class _Report:
    """Print each mutation, its number, and how it was noticed."""

    def __init__(self, total: int) -> None:
        self.total, self.count = total, 0

    def __call__(self, mutation: Mutation, how: str | None) -> None:
        self.count += 1
        place = f"{mutation.path}:{mutation.start[0]}"
        print(f"{self.count}/{self.total} {place} {how or 'SURVIVED'}", file=sys.__stderr__, flush=True)


def _compiled(sample: list[Mutation], given: argparse.Namespace) -> list[Mutation]:
    """Try each mutation in a copy of the tree; return the survivors."""
    survivors, report = [], _Report(len(sample))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv*", "_build", ".mypy_cache"))
        for mutation in sample:
            how = caught(tree, mutation, given.timeout, given.near)
            report(mutation, how)
            if how is None:
                survivors.append(mutation)
    return survivors


def _interpreted(sources: dict[Path, str], sample: list[Mutation], given: argparse.Namespace) -> list[Mutation]:
    """Try each mutation without compiling; return the survivors."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tools")]
    os.chdir(ROOT)
    from mutate_interpreted import survivors_of

    tests = given.tests or [test for mutation in sample for test in tests_for(mutation.path, given.near)]
    folders = [test for test in dict.fromkeys(tests) if not test.endswith(".py")]
    inside = [test for test in dict.fromkeys(tests) if any(test.startswith(f"{folder}/") for folder in folders)]
    wanted = [test for test in dict.fromkeys(tests) if test not in inside]
    return survivors_of(sources, sample, wanted, _Report(len(sample)))


def main() -> int:
    """Try a sample, print the survivors, and return 0 if at least `--floor` of it was caught."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--paths", nargs="*", default=["src/spom"], help="files or folders to mutate")
    options.add_argument("--sample", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--timeout", type=float, default=600.0)
    options.add_argument("--floor", type=float, default=0.95)
    options.add_argument("--near", action="store_true", help="run the nearest tests alone: quick")
    options.add_argument("--interpret", action="store_true", help="run the loops as plain Python: much quicker")
    options.add_argument("--tests", nargs="*", help="with --interpret: these tests and no others")
    given = options.parse_args()
    files = sorted(f for p in given.paths for f in ([ROOT / p] if (ROOT / p).is_file() else (ROOT / p).rglob("*.py")))
    sources = {f.relative_to(ROOT): f.read_text() for f in files}
    sites = [m for path, source in sources.items() for m in mutations(path, source)]
    sample = random.Random(given.seed).sample(sites, min(given.sample, len(sites)))
    survivors = _interpreted(sources, sample, given) if given.interpret else _compiled(sample, given)
    for mutation in survivors:
        print(mutation.describe(sources[mutation.path]))
    share = 1.0 - len(survivors) / max(len(sample), 1)
    found = len(sample) - len(survivors)
    print(f"{found} of {len(sample)} caught ({share:.0%}), from {len(sites)} places; seed {given.seed}")
    return 0 if share >= given.floor else 1


if __name__ == "__main__":
    sys.exit(main())
