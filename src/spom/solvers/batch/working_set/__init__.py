"""Working sets of columns, blocks and rows, solved to a given duality gap."""
