"""Multiple-kernel estimators."""
