"""Mutated files for every reader, model file and checkpoint."""
