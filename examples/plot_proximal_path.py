"""
Paths of the lasso and of the group lasso
=========================================

One call gives the solutions for a range of strengths. Each starts from the one before, after a safe rule has removed
features that are zero in the solution. The lasso adds single features, the group lasso whole groups; here a group is
a feature with its powers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from spom import ProximalRegressor
from spom.penalties import L1, GroupLasso

X, y = load_diabetes(return_X_y=True)
names = load_diabetes().feature_names
powers = scale(np.stack([X, X**2, X**3], axis=2).reshape(X.shape[0], -1))
y = scale(y)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for axis, penalty in zip(axes, [L1(), GroupLasso(groups=3)], strict=True):
    path = ProximalRegressor(penalty=penalty).path(powers, y, n_strengths=60, ratio=1e-2)
    norms = np.linalg.norm(path.coefs.reshape(len(path.strengths), -1, 3), axis=2)
    for name, norm in zip(names, norms.T, strict=True):
        axis.plot(path.strengths, norm, label=name)
    axis.set(xscale="log", xlabel="strength", title=type(penalty).__name__)
    axis.invert_xaxis()
    print(f"{type(penalty).__name__}: {path.rounds.sum()} rounds for {len(path.strengths)} problems,")
    print(f"  {path.screened.sum()} times a feature was known to be zero beforehand")
axes[0].set_ylabel("norm of a feature's weights")
axes[1].legend(fontsize="small", ncols=2)
figure.tight_layout()
plt.show()
