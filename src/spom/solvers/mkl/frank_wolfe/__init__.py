"""Multiple kernels solved to the optimum by block-coordinate Frank-Wolfe."""
