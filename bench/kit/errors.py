"""What stops a bench."""


class BenchError(RuntimeError):
    """A bench could not measure what it is for; the message says why."""
