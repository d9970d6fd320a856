"""Benchmarks: ours and the peers in one run, with ratios. `python -m benchmarks [names]`."""
