"""Solvers of label sequences and trees."""
