"""Wiring of the Flink jobs."""
