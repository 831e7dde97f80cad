"""Looks for what will hurt later: each check is one finding with its remedy."""
