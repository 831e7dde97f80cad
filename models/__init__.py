"""Models: their description, their wire, the worker process that serves them, and their training."""
