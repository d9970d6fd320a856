"""
The shapes of penalties
=======================

Three pictures of penalties: their unit balls, the thresholds of their proximal operators, and the effect of a
proximal step on points of the plane.
"""

# %%
# Unit balls
# ----------
# The bold lines are where the penalty is one. Corners of the ball are the patterns that the penalty prefers: l1 has
# corners on the axes (zeros), l-infinity on the diagonals (equal values), and l2 has none.
import matplotlib.pyplot as plt
import numpy as np

from spom.penalties import L1, L2, ElasticNet, LInf, OverlappingGroupLasso, Power

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

side = np.linspace(-1.45, 1.45, 201)
balls = {
    "L1": L1(),
    "L2": L2(),
    "LInf": LInf(),
    "ElasticNet": ElasticNet(1.0, l1_ratio=0.5),
    "Power(q=1.5)": Power(1.0, q=1.5),
    "OverlappingGroupLasso\ngroups {1}, {1, 2}": OverlappingGroupLasso(1.0, [[0], [0, 1]]),
}
figure, axes = plt.subplots(2, 3, figsize=(9, 6.4), sharex=True, sharey=True, layout="constrained")
for axis, (name, penalty) in zip(axes.flat, balls.items(), strict=True):
    values = np.array([[penalty.value([x, y]) for x in side] for y in side])
    axis.contourf(side, side, values, levels=[0, 1], colors=["0.85"])
    axis.contour(side, side, values, levels=[1], colors="black", linewidths=2)
    axis.contour(side, side, values, levels=[0.25, 0.5, 0.75], colors="0.45", linewidths=0.8)
    axis.axhline(0, color="0.6", linewidth=0.6, zorder=0)
    axis.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    axis.set(title=name, aspect="equal")
for axis in axes[-1]:
    axis.set_xlabel("$w_1$")
for axis in axes[:, 0]:
    axis.set_ylabel("$w_2$")

# %%
# Thresholds
# ----------
# A proximal step of length one, as a function of a number. Soft thresholds set small numbers to zero, a squared norm
# scales, and a set clips.
from spom.penalties import LInfBall, SquaredL2

w = np.linspace(-3, 3, 601)
lines = [
    ("L1(1)", L1(1.0), "-"),
    ("SquaredL2(1)", SquaredL2(1.0), "--"),
    ("ElasticNet(1)", ElasticNet(1.0), "-."),
    ("Power(1, q=1.5)", Power(1.0, q=1.5), ":"),
    ("LInfBall(1)", LInfBall(1.0), (0, (8, 2, 1, 2, 1, 2))),
]
figure, axis = plt.subplots(figsize=(7, 4.6), layout="constrained")
axis.plot(w, w, color="0.75", linewidth=1, label="no penalty")
for shade, (name, penalty, dashes) in zip(np.linspace(0, 0.45, len(lines)), lines, strict=True):
    axis.plot(w, [penalty.prox([x])[0] for x in w], color=str(shade), linestyle=dashes, linewidth=2, label=name)
axis.set(xlabel="w", ylabel="prox of w, step 1")
axis.legend(frameon=False)

# %%
# Proximal steps in the plane
# ---------------------------
# Arrows go from points to their prox, the black dots. Axes and diagonals that collect many dots are the patterns that
# the penalty prefers.
from spom.penalties import GroupLasso, SquaredL1

angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
points = 2.0 * np.column_stack([np.cos(angles), np.sin(angles)])
steps = {
    "L1(0.7)\nto the axes": L1(0.7),
    "LInf(1.2)\nto the diagonals": LInf(1.2),
    "GroupLasso(1.0), one group\nto the centre": GroupLasso(1.0, 2),
    "SquaredL1(0.6)\nto the axes, scaled": SquaredL1(0.6),
}
figure, axes = plt.subplots(1, 4, figsize=(11, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, penalty) in zip(axes, steps.items(), strict=True):
    ends = np.array([penalty.prox(point) for point in points])
    moves = ends - points
    axis.quiver(*points.T, *moves.T, angles="xy", scale_units="xy", scale=1, color="0.65", width=0.006)
    axis.plot(*points.T, linestyle="", marker="o", markersize=2.5, color="0.5")
    axis.plot(*ends.T, linestyle="", marker="o", markersize=4, color="black")
    axis.set(xlabel="$w_1$", aspect="equal")
    axis.set_title(name, fontsize=10)
axes[0].set_ylabel("$w_2$")
plt.show()
