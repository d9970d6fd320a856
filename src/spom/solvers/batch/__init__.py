"""Solvers of problems in memory: proximal gradients, general norms, working sets, paths."""
