"""The command `spom`: one file per command. Heavy imports are deferred until a command runs, to keep help fast."""
