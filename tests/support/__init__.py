"""Helpers of the tests on real services: a small model, a deployed job, and eyes outside of it."""
