"""Run benchmarks: all of them, or the named ones."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import time
from pathlib import Path

import benchmarks
from benchmarks.common import MISSED, TABLES
from benchmarks.freshness import stamp

RESULTS = Path(__file__).parent / "results"


def names() -> list[str]:
    """Return the names of the benchmark modules."""
    skip = {"common", "__main__"}
    return sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in skip)


def main() -> int:
    """Run them one after another; the exit status is 1 if one of them fails or misses a floor."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="which ones (default: all); a name may be module:part")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--keep", action="store_true", help="store the tables in benchmarks/results")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(names()))
        return 0
    failed: list[str] = []
    for wanted in arguments.names or names():
        name, _, part = wanted.partition(":")
        if name not in names():
            print(f"there is no benchmark {name!r}; there are: {', '.join(names())}", file=sys.stderr)
            return 2
        module = importlib.import_module(f"benchmarks.{name}")
        if not hasattr(module, "main"):
            continue
        begin, before = time.perf_counter(), len(TABLES)
        print(f"\n=== {wanted} " + "=" * max(0, 90 - len(wanted)))
        try:
            module.main(part) if part else module.main()
        except Exception as error:
            failed.append(wanted)
            print(f"  FAILED: {type(error).__name__}: {error}", file=sys.stderr)
        print(f"=== {wanted}: {time.perf_counter() - begin:.0f} s")
        if arguments.keep and wanted not in failed:
            keep(wanted, before)
    print(verdict(failed, MISSED))
    return 1 if failed or MISSED else 0


def keep(wanted: str, first: int) -> None:
    """Store the tables from number `first` on under the benchmark's name."""
    RESULTS.mkdir(exist_ok=True)
    tables = [{"title": t.title, "settings": t.settings, "rows": t.rows} for t in TABLES[first:]]
    whole = {"benchmark": wanted, "day": time.strftime("%Y-%m-%d"), "probe": stamp(wanted), "tables": tables}
    text = json.dumps(whole, indent=1)
    (RESULTS / f"{wanted.replace(':', '-')}.json").write_text(text + "\n", encoding="utf-8")


def verdict(failed: list[str], missed: list[str]) -> str:
    """Return the last line: the benchmarks that failed, and the floors that were missed.

    >>> verdict([], ["tagging: seconds"])
    '1 floor missed: tagging: seconds'
    >>> verdict([], [])
    'no benchmark failed, and all floors are met'
    """
    parts = [f"failed: {', '.join(failed)}"] if failed else []
    if missed:
        parts.append(f"{len(missed)} floor{'s' if len(missed) > 1 else ''} missed: {'; '.join(missed)}")
    return "; ".join(parts) or "no benchmark failed, and all floors are met"


if __name__ == "__main__":
    sys.exit(main())
