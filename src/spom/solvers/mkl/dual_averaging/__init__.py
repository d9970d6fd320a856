"""Dual averaging over kernels."""
