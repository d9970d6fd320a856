"""Labels of a tagger with how sure it is of them: marginal probabilities, and the k best sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from spom.data.columns import Columns


def marginal_text(tagger: Any, X: Any) -> bytes:
    """One token per line: its fields, the label with the highest marginal, and that marginal."""
    labels = [str(label) for label in tagger.classes_.tolist()]
    lines = []
    for fields, marginals in zip(_fields(X), tagger.predict_marginals(X), strict=True):
        best = np.asarray(marginals).argmax(axis=1).tolist()
        for words, c, row in zip(fields, best, marginals, strict=True):
            lines.append("\t".join([*words, labels[c], f"{float(row[c]):.6f}"]))
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def k_best_text(tagger: Any, X: Any, count: int) -> bytes:
    """The `count` best sequences of each sentence, each below a line `# RANK SCORE`."""
    lines = []
    for fields, found in zip(_fields(X), tagger.predict_kbest(X, count), strict=True):
        for rank, (labels, score) in enumerate(found, 1):
            lines.append(f"# {rank} {score:.6f}")
            lines += ["\t".join([*words, str(label)]) for words, label in zip(fields, labels, strict=True)]
            lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def _fields(X: Any) -> list[list[tuple[str, ...]]]:
    """The columns of each token of each sentence; feature dicts and items have none that are worth repeating."""
    return list(X) if isinstance(X, Columns) else [[() for _ in sentence] for sentence in X]
