"""The tagger of label sequences."""
