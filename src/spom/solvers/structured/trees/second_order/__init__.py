"""Trees with scores of siblings and grandparents, over arcs that a first-order parser leaves."""
