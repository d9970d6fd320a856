"""adelie's group lasso, in an environment of its own: it needs numpy 1, ours numpy 2.

`SPOM_ADELIE` names the Python that has adelie (`make bench` makes one). It reads the data as .npz and returns the
weights and the seconds, timed inside after a warm-up, so the start of Python does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PYTHON = os.environ.get("SPOM_ADELIE", "")
RULES = ("pivot", "strong")
# Path lengths for a single strength: alone, or at the end of a path to it, as adelie's documentation recommends.
STEPS = (1, 10, 30)
# Least CPU seconds of five runs for one setting, and the weights at each strength.
PROGRAM = """
import json, sys, time
import numpy as np, adelie as ad
folder = sys.argv[1]
data = np.load(folder + "/data.npz")
A, b, size = np.asfortranarray(data["A"]), data["b"], int(data["size"])
groups = np.arange(0, A.shape[1], size)
ones, matrix = np.ones(groups.size), ad.matrix.dense(A, method="naive", n_threads=1)
def run(setting):
    return ad.grpnet(matrix, ad.glm.gaussian(b), groups=groups, penalty=ones, lmda_path=np.array(setting["path"]),
                     intercept=False, early_exit=False, progress_bar=False, n_threads=1, tol=setting["tol"],
                     screen_rule=setting["rule"], adev_tol=1.0)
for line in sys.stdin:
    setting = json.loads(line)
    state, seconds = run(setting), []
    for _ in range(setting["repeats"]):
        begin = time.process_time()
        state = run(setting)
        seconds.append(time.process_time() - begin)
    wanted = setting["keep"]
    np.save(folder + "/weights.npy", state.betas.toarray()[-wanted:])
    print(json.dumps({"seconds": min(seconds, default=0.0), "found": state.betas.shape[0]}), flush=True)
"""


def installed() -> bool:
    """Tell whether adelie is installed, and print a hint if it is not."""
    found = bool(PYTHON) and not subprocess.run([PYTHON, "-c", "import adelie"], check=False).returncode
    if not found:
        print("  (no adelie: `make bench` makes an environment for it; or set SPOM_ADELIE to a Python that has it)")
    return found


class Adelie:
    """A process that holds one problem and solves it for any setting."""

    def __init__(self, A: Any, b: Any, size: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        np.savez(Path(self.folder.name) / "data.npz", A=A, b=b, size=size)
        command = [PYTHON, "-c", PROGRAM, self.folder.name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()
        self.folder.cleanup()

    def solve(self, path: Any, keep: int, tol: float, rule: str, repeats: int) -> tuple[float, Any]:
        """Return the least CPU seconds of a path, and the weights at its last `keep` strengths."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        setting = {"path": list(path), "keep": keep, "tol": tol, "rule": rule, "repeats": repeats}
        self.process.stdin.write(json.dumps(setting) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if answer["found"] != len(path):
            raise RuntimeError(f"adelie gave {answer['found']} of {len(path)} solutions")
        return answer["seconds"], np.load(Path(self.folder.name) / "weights.npy")

    def best(self, paths: list[Any], keep: int, reached: Callable[[Any], bool], repeats: int = 5) -> tuple[float, str]:
        """Return CPU seconds and name of the fastest setting that reaches the goal, each at its loosest tolerance."""
        found = []
        for path in paths:
            for rule in RULES:
                tol = next(
                    (t for t in 10.0 ** -np.arange(4, 17) if reached(self.solve(path, keep, t, rule, 0)[1])), None
                )
                if tol is not None:
                    seconds, _ = self.solve(path, keep, tol, rule, repeats)
                    found.append((seconds, f"{rule} rule, path of {len(path)}, tol {tol:.0e}"))
        if not found:
            raise RuntimeError("no setting of adelie reaches the gap")
        return min(found)
