"""Small files to try the command on, made without a download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spom.errors import DataError


def sentences() -> dict[str, str]:
    """Lines of made-up recipes, one word per line with its label: train.txt, dev.txt and test.txt."""
    from spom.data.generated import ingredients

    parts = {"train.txt": (1000, 0), "dev.txt": (200, 1), "test.txt": (200, 2)}
    return {
        name: "".join(
            "".join(" ".join(token) + "\n" for token in line) + "\n" for line in ingredients(count, seed=seed)
        )
        for name, (count, seed) in parts.items()
    }


def table() -> dict[str, str]:
    """Wines of three kinds by their chemistry (scikit-learn's): train.csv and test.csv."""
    import numpy as np
    from sklearn.datasets import load_wine

    wine = load_wine()
    header = ",".join([*(name.replace("/", "_per_") for name in wine.feature_names), "kind"])
    rows = [
        ",".join([*(f"{x:g}" for x in row), str(wine.target_names[k])])
        for row, k in zip(wine.data, wine.target, strict=True)
    ]
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    parts = {"train.csv": order[:130], "test.csv": order[130:]}
    return {name: "\n".join([header, *(rows[i] for i in chosen)]) + "\n" for name, chosen in parts.items()}


def treebank() -> dict[str, str]:
    """Made-up recipes with trees: train.conllu and test.conllu, and text.txt."""
    from spom.data.generated_trees import kitchen

    text = "Don't grill the small beans! Peel the hot eggs in a pot.\n"
    return {"train.conllu": kitchen(600, 0), "test.conllu": kitchen(100, 1), "text.txt": text}


EXAMPLES: dict[str, Callable[[], dict[str, str]]] = {"sentences": sentences, "table": table, "treebank": treebank}


def write_examples(name: str, folder: Path) -> list[Path]:
    """Write the files of an example; none of them may be there already."""
    if name not in EXAMPLES:
        raise DataError(f"there is no example {name!r}; there are: {', '.join(EXAMPLES)}")
    files = EXAMPLES[name]()
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if (folder / file).exists():
            raise DataError("this file is there already; name another folder", str(folder / file))
    for file, text in files.items():
        (folder / file).write_text(text)
    return [folder / file for file in files]
