"""Trees with scores of siblings and grandparents, over the arcs that a first-order parser keeps."""
