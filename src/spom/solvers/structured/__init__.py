"""Solvers for label sequences and trees."""
