"""The constant of `DependencyParser`'s l1 strength by name, chosen on development parts with one treebank left out.

`python -m benchmarks.defaults.parser_strengths measure [TREEBANK ...]` learns arcs from the training part of each
treebank with a development part: without a penalty, with the l1 norm of strength c / sentences, and with the sparse
group lasso whose l1 part has that strength. It scores UAS on the development part (test parts are not used).
`... choose` takes the largest c whose mean UAS on the *other* treebanks is at most `WORSE` below no penalty.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults.sentence_sets import files, treebanks
from spom import DependencyParser
from spom.data.conllu import read_conllu
from spom.estimators.parser import defaults
from spom.penalties import L1, SparseGroupLasso

RESULTS = Path(__file__).parent / "results" / "parser_strengths.json"
CONSTANTS = (0.25, 0.5, 1.0, 2.0)
SEEDS = 2
# The loss in UAS allowed for a smaller model, as in `prune="auto"`.
WORSE = 0.002


def penalties(sentences: int) -> dict[str, Any]:
    """Return the penalties to compare: none, l1 norms alone, and l1 norms added to the group lasso's own strength."""
    groups = defaults.chosen_penalty("group-lasso", sentences).strength
    found: dict[str, Any] = {"none": None, "group-lasso": "group-lasso"}
    for c in CONSTANTS:
        l1 = c / sentences
        found[f"l1 {c}"] = L1(l1)
        found[f"sparse-group-lasso {c}"] = SparseGroupLasso(groups + l1, l1_ratio=l1 / (groups + l1))
    return found


def measure(names: list[str]) -> None:
    """Score every penalty on every treebank, or on these; stored rows are kept."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    done = {(row["treebank"], row["penalty"], row["seed"]) for row in rows}
    for name in names or treebanks():
        places = files(name)
        if "dev" not in places:
            continue
        train, dev = read_conllu(places["train"]), read_conllu(places["dev"])
        for (label, penalty), seed in ((pair, s) for pair in penalties(len(train)).items() for s in range(SEEDS)):
            if (name, label, seed) in done:
                continue
            begin = time.process_time()
            parser = DependencyParser(labels=False, penalty=penalty, random_state=seed, verbose=0).fit(train)
            seconds, weights = time.process_time() - begin, int(parser.arcs_.entries().values.size)
            row = {"treebank": name, "sentences": len(train), "penalty": label, "seed": seed}
            row |= {"uas": parser.evaluate(dev).uas, "templates": len(parser.blocks_), "weights": weights}
            rows.append({**row, "seconds": round(seconds, 2)})
            print(rows[-1], flush=True)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


def means(rows: list[dict[str, Any]], what: str) -> dict[str, dict[str, float]]:
    """Return the means over seeds by treebank and penalty."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["treebank"]][row["penalty"]].append(row[what])
    return {bank: {label: float(np.mean(every)) for label, every in own.items()} for bank, own in found.items()}


def choose() -> None:
    """Print the figures of each constant, and the constant that each treebank gets from the others."""
    rows = json.loads(RESULTS.read_text())
    uas, weights, templates = (means(rows, what) for what in ("uas", "weights", "templates"))
    labels = [label for label in next(iter(uas.values())) if label != "none"]
    for label in labels:
        gains = [own[label] - own["none"] for own in uas.values()]
        shares = [own[label] / own["none"] for own in weights.values()]
        kept = [own[label] for own in templates.values()]
        print(
            f"{label:<24} UAS {np.mean(gains):+.4f} ({min(gains):+.4f} to {max(gains):+.4f})  "
            f"weights x {np.mean(shares):.3f}  templates {min(kept):.0f} to {max(kept):.0f}"
        )
    for kind in ("l1", "sparse-group-lasso"):
        for left in [*uas, None]:
            good = [
                c
                for c in CONSTANTS
                if np.mean([own[f"{kind} {c}"] - own["none"] for bank, own in uas.items() if bank != left]) >= -WORSE
            ]
            print(f"{kind}: without {left}: {max(good, default=None)}")


if __name__ == "__main__":
    choose() if sys.argv[1:2] == ["choose"] else measure(sys.argv[2:])
