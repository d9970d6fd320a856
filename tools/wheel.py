"""Build a wheel with compiled kernels for x86-64-v2 and x86-64-v3: after installing it nothing is compiled.

    python tools/wheel.py [--out dist] [--all]

It carries the kernels of the jobs in `jobs.json`: every estimator with its defaults, and the command. `--all` adds
every other kernel; there are about 400.

The wheel requires the very versions of numba and llvmlite that compiled its kernels; a source distribution takes any.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEVELS = ("x86-64-v2", "x86-64-v3")
_COMPILE = """
import sys
from pathlib import Path
from spom.core.compiled import jobs, pool
kernels = jobs.all_kernels() if sys.argv[2:] else [k for job in jobs.MODULES for k in jobs.kernels_of(job)]
pool.compile_all(sorted({k.name for k in kernels}), Path(sys.argv[1]))
"""


def main() -> None:
    """Compile the kernels at both levels, then build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="dist")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    out, more = given.out, ["--all"] if given.all else []
    with tempfile.TemporaryDirectory() as folder:
        for level in LEVELS:
            print(f"kernels for {level}", flush=True)
            where = {"SPOM_CPU_LEVEL": level, "PYTHONPATH": str(ROOT / "src")}
            subprocess.run([sys.executable, "-c", _COMPILE, folder, *more], env={**os.environ, **where}, check=True)
        need = f"numba=={version('numba')} llvmlite=={version('llvmlite')}"
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, str(ROOT)]
        environment = {**os.environ, "SPOM_KERNELS": folder, "SPOM_KERNELS_NEED": need}
        subprocess.run(command, env=environment, check=True)
    print(max(Path(out).glob("spom-*.whl"), key=lambda path: path.stat().st_mtime))


if __name__ == "__main__":
    main()
