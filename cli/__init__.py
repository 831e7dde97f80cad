"""The tidemill command: one file a command."""
