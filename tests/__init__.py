"""Tests; modules here are builders that several test files share."""
