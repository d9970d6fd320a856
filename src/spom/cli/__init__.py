"""The command `spom`: one file per command; heavy imports wait until a command runs, so that help is fast."""
