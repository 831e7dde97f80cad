"""Faults under traffic on real services; one job a file."""
