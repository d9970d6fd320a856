"""Real processes that are killed, stopped or run out of disk, and resumed."""
