"""
A mirror map for many features
==============================

If only few of very many dense features matter, mirror descent with a p-norm, p near one, learns from fewer examples
than gradient descent: its bound grows with the logarithm of the number of features instead of the number itself.
"""

# %%
# More and more features, five of which matter
# --------------------------------------------
# Features are -1 or +1. Each learner takes half the step that its geometry allows, the modulus of its map over the
# squared dual norm of an example, and sees the same 300 examples once.
import matplotlib.pyplot as plt
import numpy as np

from spom import OnlineRegressor
from spom.mirror import Euclidean, PNorm
from spom.penalties import Zero

dimensions = [10, 30, 100, 300, 1000, 3000]
errors: dict[str, list[float]] = {"Euclidean": [], "p-norm": []}
for d in dimensions:
    rng = np.random.default_rng(d)
    truth = np.zeros(d)
    truth[:5] = 1.0
    X = rng.choice([-1.0, 1.0], (300, d))
    y = X @ truth
    for name, mirror in (("Euclidean", Euclidean()), ("p-norm", PNorm("auto"))):
        step = 0.5 * mirror.modulus(d) / mirror.dual_norm(X[0]) ** 2
        model = OnlineRegressor(penalty=Zero(), mirror=mirror, step=step, epochs=1, fit_intercept=False, random_state=0)
        model.fit(X, y)
        errors[name].append(float(np.sum((model.coef_ - truth) ** 2) / 5.0))

# %%
# Error of the weights
# --------------------
figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, values), style in zip(errors.items(), ("o--", "s-"), strict=True):
    axis.plot(dimensions, values, style, color="black", label=name)
axis.set(xscale="log", xlabel="features", ylabel="squared error of the weights, relative", ylim=(0, 1.1))
axis.legend(frameon=False, title="mirror map")
axis.spines[["top", "right"]].set_visible(False)
axis.grid(color="0.9")
plt.show()
