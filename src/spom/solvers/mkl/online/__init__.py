"""SPOM with kernels, one round at a time."""
