"""Measures: phrases, attachment, confusion, and those of the CoNLL 2018 shared task."""
