"""Linear estimators, online and to the optimum."""
