"""
The lasso in the l1 norm
========================

Proximal gradient steps may be taken in other norms. In the l1 norm a step changes hardly more than one coordinate, so
iterates stay sparse, and the Lipschitz constant of the gradient is that of the longest column instead of the whole
matrix. This is faster if few features matter (El Halabi et al. 2017, Figure 1).
"""

# %%
# Four methods, one class
# -----------------------
# `GeneralProximal` in the Euclidean norm is ISTA, and accelerated FISTA. The data are those of the paper: 400 examples,
# 1000 features, 10 or 100 of which matter.
import matplotlib.pyplot as plt
import numpy as np

from spom.losses import Squared
from spom.penalties import L1
from spom.solvers import GeneralProximal, LinearSmooth
from spom.solvers.iterate import History, last, record, take

METHODS = {
    "ISTA": {"norm": "l2"},
    "FISTA": {"norm": "l2", "accelerated": True},
    "l1-GPM": {"norm": "l1"},
    "l1-accGPM": {"norm": "l1", "accelerated": True},
}


def problem(relevant: int) -> LinearSmooth:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 1000))
    truth = np.zeros(1000)
    truth[rng.choice(1000, relevant, replace=False)] = rng.standard_normal(relevant)
    truth /= np.abs(truth).sum()
    return LinearSmooth(X, X @ truth + 1e-4 * rng.standard_normal(400), Squared())


penalty = L1(1e-4 * np.sqrt(np.log(1000) / 400))

# %%
# How far from the optimum, and how many weights are in use
# ---------------------------------------------------------
figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained", sharex=True)
for column, relevant in enumerate((10, 100)):
    smooth = problem(relevant)
    histories = {}
    for name, options in METHODS.items():
        history = histories[name] = History()
        last(record(take(GeneralProximal(smooth, penalty, **options), 400), history))
    best = min(min(history.objective) for history in histories.values())
    for (name, history), style in zip(histories.items(), (":", "-.", "-", "--"), strict=True):
        above = np.maximum(np.array(history.objective) - best, 1e-12)
        axes[0, column].semilogy(history.k, above, style, color="black", label=name)
        axes[1, column].semilogy(history.k, np.maximum(history.nnz, 1), style, color="black", label=name)
    axes[0, column].set(title=f"{relevant} of 1000 features matter", ylabel="objective above the best seen")
    axes[1, column].set(xlabel="rounds", ylabel="weights that are not zero")
axes[0, 0].legend()
plt.show()
