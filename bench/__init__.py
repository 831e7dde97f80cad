"""Benches: `python -m bench NAME...` prints the conditions, then `name value unit` lines."""
