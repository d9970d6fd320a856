"""Structured predictors with several kernels: online, to the optimum, and wrappers as baselines."""
