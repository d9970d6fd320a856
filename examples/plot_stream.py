"""
Learning from a stream
======================

A stream need not fit in memory and is read once. Here a classifier reads rows from a compressed svmlight file, block
by block. Most of the features are noise, and the penalty keeps them at exactly zero.
"""

# %%
# A file of rows
# --------------
# Twenty of two thousand features determine the label. The file is gzipped; plain and zstd files are read the same way.
import gzip
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from spom import OnlineClassifier
from spom.data import SvmlightFile
from spom.penalties import L1

rng = np.random.default_rng(0)
features, useful = 2000, 20
truth = np.zeros(features)
truth[:useful] = rng.choice([-2.0, 2.0], useful)


def row() -> tuple[int, np.ndarray, np.ndarray]:
    """One example: a label, the indices of the features it has, and their values."""
    at = np.sort(rng.choice(features, 40, replace=False))
    at[:8] = rng.choice(useful, 8, replace=False)
    at = np.unique(at)
    values = rng.standard_normal(at.size)
    score = truth[at] @ values + rng.standard_normal()
    return (1 if score > 0 else -1), at, values


path = Path(tempfile.mkdtemp()) / "rows.svm.gz"
with gzip.open(path, "wt") as file:
    for _ in range(8_000):
        label, at, values = row()
        entries = " ".join(f"{j + 1}:{v:.3f}" for j, v in zip(at, values, strict=True))
        file.write(f"{label} {entries}\n")
source = SvmlightFile(path, block_rows=500)
print(f"{source.n_rows} rows, {source.n_features} features, labels {source.labels}")

# %%
# One pass
# --------
# ``history_`` has one entry for each block: the mean loss of its examples before the model learnt from them, which
# estimates the loss on new data, and the number of weights that are not zero.
models = {
    strength: OnlineClassifier(penalty=L1(strength), epochs=1, random_state=0, verbose=0).fit(source)
    for strength in (1e-4, 1e-3, 5e-3)
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for (strength, model), style in zip(models.items(), ("-", "--", ":"), strict=True):
    seen = model.history_.examples
    left.plot(seen, model.history_.loss, style, color="black", label=f"strength {strength:g}")
    right.plot(seen, model.history_.nnz, style, color="black")
left.set(xlabel="examples seen", ylabel="mean loss of the next block", ylim=(0, None))
right.set(xlabel="examples seen", ylabel="weights that are not zero", yscale="log", ylim=(10, None))
right.axhline(useful, color="0.6", linewidth=1)
right.annotate("useful features", (seen[0], useful), textcoords="offset points", xytext=(0, -12), color="0.4")
left.legend(frameon=False)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="0.9")

# %%
# Selected features
# -----------------
model = models[5e-3]
found = np.isin(np.arange(useful), model.selected_).sum()
print(f"{found} of the {useful} useful features, and {len(model.selected_) - found} others")

# %%
# More data later
# ---------------
# ``partial_fit`` continues from there, one block at a time.
for X, y in SvmlightFile(path, block_rows=2000):
    model.partial_fit(X, y)
print(f"{model.n_rounds_} rounds, accuracy on the last block {model.score(X, y):.3f}")
plt.show()
