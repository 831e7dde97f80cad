"""Faults under traffic on real services; one job a mode for the whole folder."""
