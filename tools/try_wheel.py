"""Install the newest wheel of a folder into a new environment and fit a tagger: nothing may be compiled.

python tools/try_wheel.py dist
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FIT = """
import sys, time
from spom import SequenceTagger
X = [[["the", "DT"], ["dog", "NN"], ["barks", "VB"]], [["a", "DT"], ["cat", "NN"], ["sleeps", "VB"]]] * 20
y = [["B", "I", "O"]] * 40
model = SequenceTagger(verbose=0).fit(X, y)
assert model.score(X, y) == 1.0
print(f"{time.process_time():.2f} CPU s, numba imported: {'numba' in sys.modules}")
"""


def main() -> None:
    """Try it, with an empty cache for the first fit, then again."""
    wheel = max(Path(sys.argv[1]).glob("spom-*.whl"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        python = f"{folder}/venv/bin/python"
        lock = str(ROOT / "requirements.lock")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--constraint", lock, str(wheel)], check=True)
        taken = []
        # The last run is as on an older processor.
        for cache, level in (("new", ""), ("new", ""), ("other", ""), ("older", "x86-64-v2")):
            environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
            environment |= {"HOME": f"{folder}/home", "XDG_CACHE_HOME": f"{folder}/{cache}"}
            environment |= {"SPOM_CPU_LEVEL": level} if level else {}
            done = subprocess.run([python, "-c", _FIT], env=environment, cwd=folder, capture_output=True, text=True)
            if done.returncode or "compiling" in done.stderr:
                sys.exit(f"the first fit compiled something or failed:\n{done.stderr}")
            print(f"first fit after installing {wheel.name}: {done.stdout.strip()} {level}")
            taken.append(float(done.stdout.split()[0]))
        ratio = max(taken[0], *taken[2:]) / taken[1]
        print(f"without a cache {ratio:.2f} times a warm first fit, floor 1.5: {'yes' if ratio <= 1.5 else 'NO'}")


if __name__ == "__main__":
    main()
