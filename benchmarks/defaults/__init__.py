"""Every estimator with no argument but the data, beside its peers."""
