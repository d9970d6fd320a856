"""Working sets of columns, blocks and rows, to a duality gap."""
