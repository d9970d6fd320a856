"""Contents of every kind of page, made up, with names that would break a careless page."""

from __future__ import annotations

import numpy as np

from spom.report.contents import Block, Contents, Epoch, Features, Matrix, Paths, Sentence

NASTY = '</script><script>document.title="broken"</script> & "x" <b>'


def tagger() -> Contents:
    rng = np.random.default_rng(0)
    epochs = 10
    names = [f"w[{i - 2}]" for i in range(5)] + [f"pos[{i - 2}] & pos[{i - 1}]" for i in range(4)]
    names += [f"prefix{i}[0]" for i in range(1, 6)] + [f"noise {i}" for i in range(40)] + [NASTY]
    final = np.maximum(rng.exponential(0.4, len(names)) - 0.1, 0) * (np.arange(len(names)) < 16)
    paths = [np.maximum(final + rng.uniform(0, 0.3, len(names)) * (1 - t / epochs) ** 3, 0) for t in range(epochs)]
    paths = [row / row.sum() for row in [*paths[:-1], final]]
    labels = [f"{k}-{c}" for c in ("NP", "VP", "PP", "ADVP", "SBAR") for k in "BI"] + ["O"]
    counts = rng.poisson(2.0, (11, 11)) + np.diag(rng.integers(50, 4000, 11))
    words = ["the", "of", "in", "quickly", "said", "company", "that", NASTY]
    return Contents(
        title="chunker.spom",
        estimator="SequenceTagger",
        task="tagger",
        block="template",
        score="F1",
        scores={"f1": 0.9312, "accuracy": 0.958, "nonzeros": 48211, "bytes": 1.9e6, "seconds": 41.3},
        facts={
            "Data": [("train", "train.txt.gz, 8,936 sentences, 211,727 tokens"), ("dev", "dev.txt")],
            "Options": [("penalty", "SparseMKL"), ("strength", "0.001"), ("odd", NASTY)],
        },
        epochs=[
            Epoch(t + 1, 2.1 / (t + 1) + 0.3, 1.9 / (t + 1), 0.93 - 0.1 / (t + 1) - 0.001 * max(0, t - 7),
                  55 - 4 * t, 400_000 - 38_000 * t, 61_000.0, 4.1 * (t + 1))
            for t in range(epochs)
        ],
        paths=Paths(names, list(range(1, epochs + 1)), [row.tolist() for row in paths]),
        blocks=[
            Block(n, float(w), int(s), int(s * 0.3) if w else 0)
            for n, w, s in zip(names, paths[-1], rng.integers(20, 90_000, len(names)), strict=True)
        ],
        features=[
            Features(label, sorted(((f"w[0]={w}", float(rng.normal())) for w in words), key=lambda f: -abs(f[1])))
            for label in labels
        ],
        confusion=Matrix(labels, labels, counts.tolist()),
        transitions=Matrix(["(start)", *labels], labels, rng.normal(0, 1.2, (12, 11)).tolist()),
    )  # fmt: skip


def parser() -> Contents:
    first = Sentence(
        words=["John", "hit", "the", "ball", "with", "the", "bat"],
        tags=["PROPN", "VERB", "DET", "NOUN", "ADP", "DET", "NOUN"],
        heads=[2, 0, 4, 2, 7, 7, 2],
        relations=["nsubj", "root", "det", "obj", "case", "det", "obl"],
        predicted_heads=[2, 0, 4, 2, 7, 7, 4],
        predicted_relations=["nsubj", "root", "det", "obj", "case", "det", "nmod"],
    )
    words = ["What", "if", "Google", "expanded", "on", "its", "search", "engine", "wares", "into"]
    words += ["a", "full-fledged", "e-mail", "service", "?"]
    second = Sentence(
        words=words,
        heads=[0, 4, 4, 1, 9, 9, 8, 9, 4, 14, 14, 14, 14, 4, 4],
        relations=["dep"] * 15,
        predicted_heads=[0, 4, 4, 1, 9, 9, 8, 9, 4, 14, 14, 14, 14, 9, 1],
        predicted_relations=["dep"] * 14 + ["punct"],
    )
    third = Sentence(words=["Yes", NASTY], predicted_heads=[0, 1])
    scores = {"uas": 0.842, "las": 0.801, "sentences": 2002}
    return Contents("parser.spom", "DependencyParser", "parser", scores=scores, sentences=[first, second, third])


def kernels() -> Contents:
    names = ["Linear()", "Polynomial(2)", "Gaussian(0.5)", "Gaussian(5)", "BSpline()"]
    shares = [0.0, 0.11, 0.62, 0.27, 0.0]
    paths = [[0.2] * 5, [0.1, 0.2, 0.4, 0.25, 0.05], shares]
    return Contents("ocr.spom", "MKLClassifier", "classifier", block="kernel", scores={"accuracy": 0.871},
                    blocks=[Block(n, w) for n, w in zip(names, shares, strict=True)],
                    paths=Paths(names, [1, 2, 3], paths))  # fmt: skip
