"""Online solvers of linear models: proximal steps, dual averaging, proximal points, mirror descent."""
