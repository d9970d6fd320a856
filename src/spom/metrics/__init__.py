"""Measures: phrases and attachment."""
