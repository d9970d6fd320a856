"""Chains with many labels: only pairs of a feature and a label that were seen together have a weight."""
