"""The scoring job on real services, counted from outside; one job for the whole folder."""
