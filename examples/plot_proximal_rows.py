"""
Pixels chosen by cross-validation
=================================

With ten classes each pixel has a row of ten weights. A penalty on the norms of the rows switches pixels off for
all classes at once. Its strength is chosen by cross-validation, and the map shows the pixels that are kept.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spom import ProximalClassifier, ProximalClassifierCV
from spom.penalties import GroupLasso

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, random_state=0)

# %%
# Cross-validation: the mean loss on the held-out fold, for each strength.
model = ProximalClassifierCV(penalty=GroupLasso(), n_strengths=12, ratio=3e-3, cv=3).fit(X_train, y_train)
print(f"strength {model.strength_:.4f}: {model.selected_.size} of 64 pixels")
print(f"test accuracy {model.score(X_test, y_test):.3f}")

# %%
# A stronger penalty keeps fewer pixels.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.5))
axes[0].plot(model.strengths_, -model.cv_scores_.mean(axis=1), marker=".")
axes[0].axvline(model.strength_, color="grey")
axes[0].set(xscale="log", xlabel="strength", ylabel="loss on the held-out fold")
for axis, strength in zip(axes[1:], [model.strength_, 20 * model.strength_], strict=True):
    fitted = ProximalClassifier(penalty=GroupLasso(strength)).fit(X_train, y_train)
    axis.imshow(np.linalg.norm(fitted.coef_, axis=0).reshape(8, 8), cmap="Greys")
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"{fitted.selected_.size} pixels, accuracy {fitted.score(X_test, y_test):.3f}")
figure.tight_layout()
plt.show()
