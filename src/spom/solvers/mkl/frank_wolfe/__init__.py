"""Multiple kernels to the optimum by block-coordinate Frank-Wolfe."""
