"""Structured predictors with several kernels: online, to the optimum, and the wrappers they are compared with."""
