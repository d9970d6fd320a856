"""Benchmarks: spom and its peers in one run, with ratios. `python -m benchmarks [names]`."""
