"""Chains with many labels: a weight only for a feature and a label that were seen together."""
