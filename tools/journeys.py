"""Count the files and functions of src/spom that four everyday uses call, and list them with `--list`.

    python tools/journeys.py
    python tools/journeys.py --list "train tagger"

Each journey runs twice: first to import and compile, then under `sys.setprofile`. Compiled functions call each other
without Python, so only those that Python calls are counted; module bodies and comprehensions are not.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

SOURCE = Path(__file__).parents[1] / "src" / "spom"


def crossed(journey: Callable[[], None]) -> set[tuple[str, str]]:
    """Return (file, function) of every Python function of src/spom that the journey calls."""
    seen: set[tuple[str, str]] = set()
    inside = f"{SOURCE}/"

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside) and not code.co_name.startswith("<"):
            seen.add((code.co_filename.removeprefix(inside), code.co_qualname))

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        journey()
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            journey()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return seen


def online_classifier() -> None:
    """Run `OnlineClassifier.fit` on CSR."""
    from scipy import sparse

    from spom import OnlineClassifier

    draw = np.random.default_rng(0)
    X = sparse.random(400, 50, 0.1, format="csr", random_state=0)
    OnlineClassifier(random_state=0).fit(X, draw.integers(0, 2, 400))


def _command(*words: object) -> None:
    from spom.cli.main import main

    if main([str(word) for word in words]):
        raise SystemExit(f"spom {words} failed")


def tagger() -> None:
    """Run `spom train tagger --prune auto`, then `spom predict`."""
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        words = [["a", "dog", "runs", "New", "York"][int(k)] for k in draw.integers(0, 5, 1200)]
        tags = {"a": "D", "dog": "N", "runs": "V", "New": "N", "York": "N"}
        lines = [f"{word} {tags[word]}" + ("\n" if i % 8 == 7 else "") for i, word in enumerate(words)]
        path.write_text("\n".join(lines) + "\n")
        model = Path(folder, "model.spom")
        _command("train", "tagger", "--train", path, "--model", model, "--prune", "auto")
        _command("predict", "--model", model, path, "-o", Path(folder, "out.txt"))


def parser() -> None:
    """Run `DependencyParser.fit`."""
    from spom import DependencyParser
    from spom.data import Treebank

    words = [
        {"form": "the", "upos": "DET", "head": 2, "deprel": "det"},
        {"form": "dog", "upos": "NOUN", "head": 3, "deprel": "nsubj"},
        {"form": "runs", "upos": "VERB", "head": 0, "deprel": "root"},
    ]
    DependencyParser(random_state=0).fit(Treebank.from_sentences([words] * 60))


def mkl() -> None:
    """Run `MKLClassifier.fit`."""
    from spom import MKLClassifier
    from spom.kernels import Gaussian, Linear

    draw = np.random.default_rng(0)
    X = draw.normal(size=(120, 4))
    MKLClassifier(kernels=[Linear(), Gaussian(1.0)], random_state=0).fit(X, X[:, 0] > 0)


JOURNEYS = {"online classifier": online_classifier, "train tagger": tagger, "parser": parser, "mkl": mkl}


def main() -> None:
    """Print one line per journey."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--list", choices=JOURNEYS, help="print what this journey crosses")
    wanted = options.parse_args().list
    for name, journey in JOURNEYS.items():
        if wanted in (None, name):
            seen = crossed(journey)
            print(f"{name}: {len({file for file, _ in seen})} files, {len(seen)} functions")
            if wanted:
                print("\n".join(f"  {file} {function}" for file, function in sorted(seen)))


if __name__ == "__main__":
    main()
