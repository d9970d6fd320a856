"""The command `spom`: one file a command; what is heavy is imported when a command runs, not when it shows its help."""
