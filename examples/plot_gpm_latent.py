"""
Latent groups, and the norm that fits them
==========================================

The support of a solution of the latent group lasso is a union of groups. Cyclic projections compute its Euclidean
prox with an error that falls like one over the number of cycles. Two faster methods are a step in the l-infinity
norm, which takes a few linear programs, and Newton's method with one weight per group.
"""

# %%
# One prox, four ways
# -------------------
# 64 coordinates in 16 random groups of ten. Each result has a duality gap as its certificate.
import matplotlib.pyplot as plt
import numpy as np

from spom.norms import general_prox
from spom.penalties import LatentGroupLasso

rng = np.random.default_rng(0)
groups = [rng.choice(64, 10, replace=False) for _ in range(16)]
groups.append(np.setdiff1d(np.arange(64), np.concatenate(groups)))
u = rng.standard_normal(64)
penalty = LatentGroupLasso(2.0, groups)

step = general_prox(penalty, "linf", u, np.zeros(64), 1.0)
print(f"l-inf norm: {step.programs} linear programs, gap {step.certificate.gap:.1e}")
exact = penalty.prox_certified(u)
print(f"Newton:     {exact.rounds} rounds, gap {exact.gap:.1e}")

# %%
# Convergence of projections
# --------------------------
cycles = np.unique(np.logspace(0, 4, 13).astype(int))
figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
for method, style in (("cyclic", "o--"), ("dykstra", "s-")):
    errors = [
        np.linalg.norm(penalty.prox_certified(u, method=method, limit=int(n), tol=0.0).x - exact.x) for n in cycles
    ]
    axis.loglog(cycles, np.maximum(errors, 1e-15), style, color="black", label=method)
axis.set(xlabel="cycles", ylabel="distance to the exact prox", title="Projections onto one group after another")
axis.legend()
plt.show()
