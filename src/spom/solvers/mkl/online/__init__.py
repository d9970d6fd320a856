"""SPOM with kernels, round by round."""
