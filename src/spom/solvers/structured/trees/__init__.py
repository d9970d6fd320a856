"""Learning to score the arcs of dependency trees, one sentence at a time."""
