"""
Pixels needed to read digits
============================

A classifier of ten digits has ten weights for each pixel. A group lasso keeps a pixel or switches it off for all ten
classes. As the strength falls, more pixels are kept and accuracy rises.
"""

# %%
# A model for each strength
# -------------------------
# ``groups="rows"`` means that a group is one feature's weights for all classes.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spom import ProximalClassifier
from spom.penalties import GroupLasso

X, y = load_digits(return_X_y=True)
train, test, y_train, y_test = train_test_split(X / 16, y, test_size=0.3, stratify=y, random_state=0)
strengths = np.geomspace(0.1, 0.0003, 16)
models = [
    ProximalClassifier(penalty=GroupLasso(strength, groups="rows"), tol=1e-3).fit(train, y_train)
    for strength in strengths
]
kept = [len(model.selected_) for model in models]
accuracy = [model.score(test, y_test) for model in models]

# %%
# Accuracy against pixels
# -----------------------
figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
axis.plot(kept, accuracy, color="black", marker="o", linewidth=1.5)
shown = [4, 8, 12]
for i in shown:
    axis.annotate(f"{strengths[i]:.1g}", (kept[i], accuracy[i]), textcoords="offset points", xytext=(6, -14))
axis.set(xlabel="pixels kept, of 64", ylabel="accuracy on the test images", title="Numbers are strengths")
axis.spines[["top", "right"]].set_visible(False)
axis.grid(color="0.9")

# %%
# The pixels
# ----------
# Dark pixels have a large share of the norm; white ones are exactly zero.
figure, axes = plt.subplots(1, 4, figsize=(10, 3), layout="constrained")
axes[0].imshow(train.mean(axis=0).reshape(8, 8), cmap="Greys")
axes[0].set_title("mean image")
for axis, i in zip(axes[1:], shown, strict=True):
    shares = models[i].block_weights_.reshape(8, 8)
    picture = axis.imshow(np.where(shares > 0, shares, np.nan), cmap="Greys", vmin=0, vmax=0.06)
    axis.set_title(f"strength {strengths[i]:.1g}\n{kept[i]} pixels")
for axis in axes:
    axis.set(xlabel="column", xticks=[0, 7], yticks=[0, 7])
axes[0].set_ylabel("row")
figure.colorbar(picture, ax=axes, label="share of the norm", shrink=0.8)
plt.show()
