"""Tests run once more with kernels as plain Python, where numpy refuses an index that is out of bounds.

Compiled code reads and writes beyond an array without a word, and often nothing else shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def check_plain(folder: str, *tests: str, leave: str = "") -> None:
    """Run some tests of a folder with `NUMBA_DISABLE_JIT=1`; those whose names `leave` matches are left out."""
    # Hashes wrap around, of which numpy's scalars warn.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::RuntimeWarning"]
    command += ["-k", f"not ({leave})"] if leave else []
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    names = [f"tests/{folder}/{test}" for test in tests]
    done = subprocess.run([*command, *names], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
