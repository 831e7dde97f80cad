"""Comparing what is served with what the model was trained on."""
